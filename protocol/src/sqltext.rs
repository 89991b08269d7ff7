//! Reads ClickHouse text by its grammar, never by pattern: stored DDL, table definitions, engine clauses.

/// One lexical token of formatted ClickHouse SQL.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Token {
    /// A bare word: keyword or unquoted identifier.
    Word(String),
    /// An identifier in backticks or double quotes, unescaped.
    Quoted(String),
    /// A string literal, unescaped.
    Text(String),
    /// A number, as written.
    Number(String),
    /// Any other single character.
    Symbol(char),
}

impl Token {
    fn is_word(&self, word: &str) -> bool {
        matches!(self, Self::Word(w) if w.eq_ignore_ascii_case(word))
    }
}

/// Splits a text into tokens, without comments; `None` when a quote or comment never ends.
pub fn tokenize(text: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(&c) = rest.peek() {
        match c {
            c if c.is_whitespace() => {
                rest.next();
            }
            '`' | '"' => {
                rest.next();
                tokens.push(Token::Quoted(quoted(&mut rest, c)?));
            }
            '\'' => {
                rest.next();
                tokens.push(Token::Text(quoted(&mut rest, c)?));
            }
            c if c.is_ascii_digit() => {
                tokens.push(Token::Number(run(&mut rest, |c| c.is_ascii_alphanumeric() || c == '.')));
            }
            c if c.is_alphabetic() || c == '_' => {
                tokens.push(Token::Word(run(&mut rest, |c| c.is_alphanumeric() || c == '_')));
            }
            '-' | '/' => {
                rest.next();
                match (c, rest.peek()) {
                    ('-', Some('-')) => while rest.next().is_some_and(|c| c != '\n') {},
                    ('/', Some('*')) => skip_block_comment(&mut rest)?,
                    _ => tokens.push(Token::Symbol(c)),
                }
            }
            c => {
                rest.next();
                tokens.push(Token::Symbol(c));
            }
        }
    }
    Some(tokens)
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn run(rest: &mut Chars<'_>, accept: impl Fn(char) -> bool) -> String {
    let mut word = String::new();
    while let Some(c) = rest.next_if(|c| accept(*c)) {
        word.push(c);
    }
    word
}

/// The inside of a quoted token: backslash escapes, and the quote doubled.
fn quoted(rest: &mut Chars<'_>, quote: char) -> Option<String> {
    let mut inside = String::new();
    loop {
        match rest.next()? {
            '\\' => inside.push(match rest.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                '0' => '\0',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'a' => '\u{7}',
                'v' => '\u{b}',
                'e' => '\u{1b}',
                other => other,
            }),
            c if c == quote => {
                if rest.next_if_eq(&quote).is_none() {
                    return Some(inside);
                }
                inside.push(quote);
            }
            c => inside.push(c),
        }
    }
}

fn skip_block_comment(rest: &mut Chars<'_>) -> Option<()> {
    rest.next();
    let mut star = false;
    loop {
        match rest.next()? {
            '/' if star => return Some(()),
            c => star = c == '*',
        }
    }
}

/// A table's qualified name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct TableName {
    /// Its database.
    pub database: String,
    /// Its name.
    pub table: String,
}

/// The distributed statements that the protocol sends; what a queue entry must parse to (D-3).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Ddl {
    /// `EXCHANGE TABLES target AND candidate ON CLUSTER …`
    Exchange {
        /// First table.
        target: TableName,
        /// Second table.
        candidate: TableName,
    },
    /// `RENAME TABLE from TO to ON CLUSTER …`
    Rename {
        /// Present name.
        from: TableName,
        /// New name.
        to: TableName,
    },
    /// `DROP TABLE IF EXISTS table ON CLUSTER …`
    DropIfExists {
        /// What to drop.
        table: TableName,
    },
    /// `CREATE TABLE IF NOT EXISTS table … ON CLUSTER …`: the facade.
    CreateIfNotExists {
        /// What to create.
        table: TableName,
    },
}

/// A statement with the cluster it is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Statement {
    /// Kind and names.
    pub ddl: Ddl,
    /// Cluster in `ON CLUSTER`.
    pub cluster: String,
}

/// Parses the text that a server stored for a queue entry; `None` for any other statement.
pub fn parse_statement(text: &str) -> Option<Statement> {
    let tokens = tokenize(text)?;
    let mut p = Parser { tokens: &tokens };
    let (ddl, cluster) = match p.word()?.to_ascii_uppercase().as_str() {
        "EXCHANGE" => {
            p.expect(&["TABLES"])?;
            let target = p.table()?;
            p.expect(&["AND"])?;
            let candidate = p.table()?;
            (Ddl::Exchange { target, candidate }, p.on_cluster()?)
        }
        "RENAME" => {
            p.expect(&["TABLE"])?;
            let from = p.table()?;
            p.expect(&["TO"])?;
            let to = p.table()?;
            (Ddl::Rename { from, to }, p.on_cluster()?)
        }
        "DROP" => {
            p.expect(&["TABLE", "IF", "EXISTS"])?;
            let table = p.table()?;
            (Ddl::DropIfExists { table }, p.on_cluster()?)
        }
        "CREATE" => {
            p.expect(&["TABLE", "IF", "NOT", "EXISTS"])?;
            let table = p.table()?;
            if p.tokens.first()?.is_word("UUID") {
                p.tokens = p.tokens.get(2..)?;
            }
            let cluster = p.on_cluster()?;
            return Some(Statement { ddl: Ddl::CreateIfNotExists { table }, cluster });
        }
        _ => return None,
    };
    // Anything behind the statement would be something that we did not send.
    p.tokens.is_empty().then_some(Statement { ddl, cluster })
}

struct Parser<'a> {
    tokens: &'a [Token],
}

impl Parser<'_> {
    fn next(&mut self) -> Option<&Token> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    fn word(&mut self) -> Option<String> {
        match self.next()? {
            Token::Word(word) => Some(word.clone()),
            _ => None,
        }
    }

    fn expect(&mut self, words: &[&str]) -> Option<()> {
        words.iter().try_for_each(|word| self.next()?.is_word(word).then_some(()))
    }

    fn name(&mut self) -> Option<String> {
        match self.next()? {
            Token::Word(name) | Token::Quoted(name) => Some(name.clone()),
            _ => None,
        }
    }

    fn table(&mut self) -> Option<TableName> {
        let database = self.name()?;
        (self.next()? == &Token::Symbol('.')).then_some(())?;
        Some(TableName { database, table: self.name()? })
    }

    fn on_cluster(&mut self) -> Option<String> {
        self.expect(&["ON", "CLUSTER"])?;
        match self.next()? {
            Token::Word(name) | Token::Quoted(name) | Token::Text(name) => Some(name.clone()),
            _ => None,
        }
    }
}

/// The parenthesised element list of a `CREATE TABLE`, as tokens, with comments on elements taken out:
/// columns (names, types, defaults, codecs, TTLs), indices, projections, constraints, in order.
pub fn table_elements(create_query: &str) -> Option<Vec<Token>> {
    let tokens = tokenize(create_query)?;
    let mut p = Parser { tokens: &tokens };
    p.expect(&["CREATE", "TABLE"])?;
    p.name()?;
    if p.tokens.first()? == &Token::Symbol('.') {
        p.next()?;
        p.name()?;
    }
    if p.tokens.first()?.is_word("UUID") {
        p.tokens = p.tokens.get(2..)?;
    }
    let list = parenthesised(p.tokens)?;
    let mut kept = Vec::with_capacity(list.len());
    let mut rest = list;
    while let Some((token, tail)) = rest.split_first() {
        // A column named `comment` is always printed in backticks, so a bare word before a literal is the clause.
        if token.is_word("COMMENT") && matches!(tail.first(), Some(Token::Text(_))) {
            rest = &tail[1..];
        } else {
            kept.push(token.clone());
            rest = tail;
        }
    }
    Some(kept)
}

/// The tokens between a leading `(` and the `)` that closes it.
pub fn parenthesised(tokens: &[Token]) -> Option<&[Token]> {
    if tokens.first()? != &Token::Symbol('(') {
        return None;
    }
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Symbol('(') => depth += 1,
            Token::Symbol(')') => {
                depth -= 1;
                if depth == 0 {
                    return Some(&tokens[1..at]);
                }
            }
            _ => {}
        }
    }
    None
}

/// An unambiguous text for tokens, to be hashed: kind, length, value.
pub fn fingerprint(tokens: &[Token]) -> String {
    tokens
        .iter()
        .map(|token| match token {
            Token::Word(v) => format!("w{}:{v}", v.len()),
            // Quoting depends on the server's version, not on what is named.
            Token::Quoted(v) => format!("w{}:{v}", v.len()),
            Token::Text(v) => format!("t{}:{v}", v.len()),
            Token::Number(v) => format!("n{}:{v}", v.len()),
            Token::Symbol(c) => format!("s{c}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(database: &str, table: &str) -> TableName {
        TableName { database: database.into(), table: table.into() }
    }

    // proves: D-3
    #[test]
    fn stored_statements_are_parsed() {
        let parsed = parse_statement(
            "EXCHANGE TABLES `my-db`.`a``b` AND shop.`a\\\\b__pub_1` ON CLUSTER `ch-cluster`",
        );
        let ddl = Ddl::Exchange { target: table("my-db", "a`b"), candidate: table("shop", "a\\b__pub_1") };
        assert_eq!(parsed, Some(Statement { ddl, cluster: "ch-cluster".into() }));
        let parsed = parse_statement("RENAME TABLE d.`qry_1.cus` TO d.`таблица` ON CLUSTER c");
        let ddl = Ddl::Rename { from: table("d", "qry_1.cus"), to: table("d", "таблица") };
        assert_eq!(parsed, Some(Statement { ddl, cluster: "c".into() }));
        let parsed = parse_statement("DROP TABLE IF EXISTS d.`order` ON CLUSTER c");
        assert_eq!(parsed.map(|s| s.ddl), Some(Ddl::DropIfExists { table: table("d", "order") }));
        let create =
            "CREATE TABLE IF NOT EXISTS p.f UUID '00-1' ON CLUSTER c (`k` String) ENGINE = KeeperMap('/x')";
        let ddl = Ddl::CreateIfNotExists { table: table("p", "f") };
        assert_eq!(parse_statement(create), Some(Statement { ddl, cluster: "c".into() }));
    }

    // proves: D-3
    #[test]
    fn anything_else_is_not_ours() {
        for text in [
            "",
            "EXCHANGE TABLES a.b AND c.d",
            "EXCHANGE DICTIONARIES a.b AND c.d ON CLUSTER x",
            "EXCHANGE TABLES b AND c.d ON CLUSTER x",
            "EXCHANGE TABLES a.b AND c.d ON CLUSTER x SETTINGS a = 1",
            "RENAME TABLE a.b TO c.d, e.f TO g.h ON CLUSTER x",
            "DROP TABLE a.b ON CLUSTER x",
            "DROP TABLE IF EXISTS a.b ON CLUSTER x SYNC",
            "EXCHANGE TABLES a.`b AND c.d ON CLUSTER x",
            "SELECT 'EXCHANGE TABLES a.b AND c.d ON CLUSTER x'",
        ] {
            assert_eq!(parse_statement(text), None, "{text}");
        }
    }

    // proves: A-4
    #[test]
    fn comments_on_columns_do_not_count_and_quoting_does_not_either() {
        let a =
            "CREATE TABLE s.t (`id` UInt64 COMMENT 'it''s', `comment` String DEFAULT 'COMMENT') ENGINE = X";
        let b = "CREATE TABLE s.u UUID 'x' (id UInt64, `comment` String DEFAULT 'COMMENT') ENGINE = Y";
        assert_eq!(table_elements(a).map(|t| fingerprint(&t)), table_elements(b).map(|t| fingerprint(&t)));
        let c = "CREATE TABLE s.u (id UInt32, `comment` String DEFAULT 'COMMENT') ENGINE = Y";
        assert_ne!(table_elements(a).map(|t| fingerprint(&t)), table_elements(c).map(|t| fingerprint(&t)));
    }
}
