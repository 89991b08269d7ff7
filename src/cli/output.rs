//! What commands print: for people, or for programs.

use clap::ValueEnum;
use serde::Serialize;

/// Form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
}

/// The answer as text. The table is written only when it is wanted.
///
/// # Errors
/// Only by a defect of this build.
pub fn render<T: Serialize>(
    answer: &T,
    format: Format,
    table: impl FnOnce(&T) -> String,
) -> Result<String, Box<dyn std::error::Error>> {
    Ok(match format {
        Format::Table => table(answer),
        Format::Json => format!("{}\n", serde_json::to_string_pretty(answer)?),
        Format::Yaml => serde_yaml::to_string(answer)?,
    })
}

/// Rows under each other, columns as wide as their widest cell; the first row is the heading.
pub fn columns<const N: usize>(indent: &str, rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |row: &[String; N]| {
        let cells: Vec<String> =
            row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        format!("{indent}{}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// Text in lines of at most so many characters, each with the indent; words are not cut.
pub fn wrapped(indent: &str, text: &str, width: usize) -> String {
    let mut out = String::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let full = indent.len() + line.chars().count() + 1 + word.chars().count() > width;
        if full && !line.is_empty() {
            out.push_str(&format!("{indent}{line}\n"));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        out.push_str(&format!("{indent}{line}\n"));
    }
    out
}
