//! `docs/rules.md`, inside the binary: findings cite rules by id.

const PAGE: &str = include_str!("../../docs/rules.md");

/// One line of the page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// As findings cite it.
    pub id: &'static str,
    /// What it demands.
    pub demands: &'static str,
    /// Files of the project that hold to it.
    pub enforced: Vec<&'static str>,
    /// Error codes that a breach gives.
    pub codes: Vec<&'static str>,
}

/// Every rule, in the page's order.
pub fn all() -> Vec<Rule> {
    PAGE.lines().filter_map(row).collect()
}

fn row(line: &'static str) -> Option<Rule> {
    let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
    let [id, demands, enforced, codes] = cells.as_slice() else { return None };
    let list = |cell: &'static str| -> Vec<&'static str> {
        cell.split(',').map(|part| part.trim().trim_matches('`')).filter(|part| !part.is_empty()).collect()
    };
    let heading = *id == "rule" || id.starts_with('-');
    (!heading).then(|| Rule { id, demands, enforced: list(enforced), codes: list(codes) })
}

/// The rule of this id, in any case.
pub fn find(id: &str) -> Option<Rule> {
    all().into_iter().find(|rule| rule.id.eq_ignore_ascii_case(id.trim()))
}

/// Ids of the section that a name seems to mean: `B-11`, `b7`.
pub fn near(name: &str) -> Vec<&'static str> {
    let mut letters = name.trim().chars();
    let section = letters.next().filter(char::is_ascii_alphabetic).map(|c| c.to_ascii_uppercase());
    let number = letters.as_str().trim_start_matches('-');
    let numbered = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit());
    let Some(section) = section.filter(|_| numbered) else { return Vec::new() };
    let own: Vec<&str> = all().iter().map(|rule| rule.id).filter(|id| id.starts_with(section)).collect();
    let exact = format!("{section}-{number}");
    match own.iter().find(|id| **id == exact) {
        Some(id) => vec![id],
        None => own.into_iter().filter(|id| id.contains('-')).collect(),
    }
}

/// A rule for people.
pub fn shown(rule: &Rule) -> String {
    let mut text = format!("# {}\n\n{}\n", rule.id, rule.demands.replace('`', ""));
    text.push_str(&format!("\nEnforced in: {}\n", rule.enforced.join(", ")));
    if !rule.codes.is_empty() {
        text.push_str("\nGiven as:\n");
        rule.codes.iter().for_each(|code| text.push_str(&format!("  publication-operator explain {code}\n")));
    }
    text
}
