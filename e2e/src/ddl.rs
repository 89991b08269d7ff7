//! ClickHouse's own layout of a distributed DDL entry, parsed from the raw node. Independent of the operator's
//! parser on purpose: this is what the tests judge it by.

use std::collections::BTreeMap;

use crate::error::{Context, Error, Result};

/// One entry of the queue with what each host left under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DdlEntry {
    pub name: String,
    pub version: u32,
    pub query: String,
    /// Host ids as stored: escaped host name, `:`, port.
    pub hosts: Vec<String>,
    pub initiator: String,
    pub settings: BTreeMap<String, String>,
    pub active: Vec<String>,
    /// Host id -> code and message.
    pub finished: BTreeMap<String, (i32, String)>,
}

impl DdlEntry {
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let mut fields = BTreeMap::new();
        for line in text.lines() {
            if let Some((key, value)) = line.split_once(": ") {
                fields.entry(key).or_insert(value);
            }
        }
        let field = |key: &str| fields.get(key).copied().context(format!("DDL entry {name}: {key}"));
        let settings = fields.get("settings").map_or(Ok(BTreeMap::new()), |text| parse_settings(text))?;
        Ok(Self {
            name: name.to_owned(),
            version: field("version")?.parse().context(format!("DDL entry {name}: version"))?,
            query: unescape(field("query")?),
            hosts: parse_strings(field("hosts")?)?,
            initiator: fields.get("initiator").copied().unwrap_or_default().to_owned(),
            settings,
            active: Vec::new(),
            finished: BTreeMap::new(),
        })
    }

    /// `EXCHANGE`, `RENAME`, `DROP`, `CREATE`…: the first word of the stored query.
    pub fn kind(&self) -> &str {
        self.query.split_whitespace().next().unwrap_or_default()
    }

    /// The words of the query, without back quotes: `shop.orders` finds it, `orders` does not.
    pub fn names(&self, table: &str) -> bool {
        let plain = self.query.replace('`', "");
        plain.split(|c: char| c.is_whitespace() || c == ',' || c == '(').any(|word| word == table)
    }

    /// The correlation token, as ClickHouse carries it.
    pub fn log_comment(&self) -> Option<&str> {
        self.settings.get("log_comment").map(String::as_str)
    }

    pub fn is_terminal_everywhere(&self) -> bool {
        self.hosts.iter().all(|host| self.finished.contains_key(host))
    }
}

/// How many entries are of a kind and name `table` (`db.table`); no table counts all of the kind.
pub fn count_kind(entries: &[DdlEntry], kind: &str, table: Option<&str>) -> usize {
    entries.iter().filter(|e| e.kind() == kind && table.is_none_or(|t| e.names(t))).count()
}

/// `<code>\n<escaped message>` of `finished/<host>`.
pub fn parse_finished(text: &str) -> Result<(i32, String)> {
    let (code, message) = text.split_once('\n').unwrap_or((text, ""));
    let code = code.trim().parse().context(format!("finished node {text:?}"))?;
    Ok((code, unescape(message.trim_end_matches('\n'))))
}

/// ClickHouse's TSV escapes.
pub fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('0') => out.push('\0'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some(other) => out.push(other),
            None => out.push('\\'),
        }
    }
    out
}

/// `['a:1','b:2']`
fn parse_strings(text: &str) -> Result<Vec<String>> {
    let inner = text.trim().strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    let inner = inner.ok_or_else(|| Error::other("DDL entry hosts", text))?;
    Ok(split_outside_quotes(inner).into_iter().map(unquote).filter(|s| !s.is_empty()).collect())
}

/// `a = 1, b = 'x'`
fn parse_settings(text: &str) -> Result<BTreeMap<String, String>> {
    let mut settings = BTreeMap::new();
    for part in split_outside_quotes(text) {
        if part.trim().is_empty() {
            continue;
        }
        let (name, value) = part.split_once('=').ok_or_else(|| Error::other("DDL entry settings", text))?;
        settings.insert(name.trim().to_owned(), unquote(value));
    }
    Ok(settings)
}

fn split_outside_quotes(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '\'' => quoted = !quoted,
            ',' if !quoted => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn unquote(text: &str) -> String {
    let text = text.trim();
    match text.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')) {
        Some(inner) => unescape(&inner.replace("''", "'")),
        None => text.to_owned(),
    }
}
