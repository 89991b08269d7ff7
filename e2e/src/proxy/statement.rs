//! What a request to a ClickHouse HTTP port carries, read just far enough to name it.

use std::collections::BTreeMap;

use http::Method;

/// What kind of statement a request is, by its first words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StatementKind {
    /// No statement at all (`/ping`).
    Ping,
    Select,
    Insert,
    /// `ALTER TABLE … UPDATE`: a versioned write of the authority.
    Update,
    Alter,
    Create,
    Exchange,
    Rename,
    Drop,
    Other,
}

impl StatementKind {
    pub fn of(text: &str) -> Self {
        let words: Vec<String> = plain(text).split_whitespace().map(str::to_ascii_uppercase).collect();
        match words.first().map_or("", String::as_str) {
            "" => Self::Ping,
            "SELECT" | "WITH" | "SHOW" | "EXISTS" | "DESCRIBE" | "DESC" | "EXPLAIN" => Self::Select,
            "INSERT" => Self::Insert,
            "ALTER" if words.iter().any(|w| w == "UPDATE") => Self::Update,
            "ALTER" => Self::Alter,
            "CREATE" => Self::Create,
            "EXCHANGE" => Self::Exchange,
            "RENAME" => Self::Rename,
            "DROP" => Self::Drop,
            _ => Self::Other,
        }
    }

    /// Statements with an effect.
    pub fn is_mutation(self) -> bool {
        !matches!(self, Self::Ping | Self::Select | Self::Other)
    }
}

/// The text without leading blanks, comments and brackets.
fn plain(text: &str) -> &str {
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
        let after = match rest.get(..2) {
            Some("/*") => rest.split_once("*/"),
            Some("--") => rest.split_once('\n'),
            _ => return rest,
        };
        rest = after.map_or("", |(_, after)| after);
    }
}

/// A request as the rules see it. The header with the credentials is not part of it.
#[derive(Debug, Clone)]
pub struct Statement {
    pub method: Method,
    pub path: String,
    pub kind: StatementKind,
    /// URL `query` and body together, as ClickHouse joins them.
    pub text: String,
    pub query_id: Option<String>,
    /// Settings and `param_…` of the URL, `query`, `user` and `password` excluded.
    pub params: BTreeMap<String, String>,
}

impl Statement {
    pub fn read(method: &Method, uri: &http::Uri, body: &[u8]) -> Self {
        let mut params: BTreeMap<String, String> =
            url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()).into_owned().collect();
        let mut text = params.remove("query").unwrap_or_default();
        let body = String::from_utf8_lossy(body);
        if !text.is_empty() && !body.is_empty() {
            text.push('\n');
        }
        text.push_str(&body);
        params.remove("user");
        params.remove("password");
        Self {
            method: method.clone(),
            path: uri.path().to_owned(),
            kind: StatementKind::of(&text),
            query_id: params.remove("query_id"),
            text,
            params,
        }
    }
}
