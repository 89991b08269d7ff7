//! The manifests are those of `config/samples`. The author's are applied as they lie there; in the platform's, what
//! only a real installation can know is filled in.

use std::path::PathBuf;

use serde_json::Value;

use crate::error::{Context, Error, Result};
use crate::paths;

pub const AUTHOR: &str = "config/samples/author.yaml";
pub const AUTHOR_FIRST: &str = "config/samples/author-first.yaml";
pub const PLATFORM: &str = "config/samples/platform.yaml";

/// A sample of one ClusterPublication, and what of it the demo must know.
#[derive(Debug, Clone)]
pub struct Sample {
    pub text: String,
    pub name: String,
    pub database: String,
    pub target: String,
    pub candidate: String,
}

impl Sample {
    pub fn load(file: &str) -> Result<Self> {
        Self::parse(read(file)?, file)
    }

    /// The same manifest for the next day's load.
    /// The `sed` program that does the same comes with it.
    pub fn next_day(&self, rows: u64) -> Result<(Self, String)> {
        let (had, has) = (self.exact_rows()?.to_string(), rows.to_string());
        let edits = [("20261130", "20261201"), (&had, &has)];
        let mut text = self.text.clone();
        let mut sed = Vec::new();
        for (from, to) in edits {
            text = replace(&text, from, to)?;
            sed.push(format!("s/{from}/{to}/"));
        }
        Ok((Self::parse(text, AUTHOR)?, sed.join("; ")))
    }

    fn parse(text: String, file: &str) -> Result<Self> {
        let value: Value = serde_yaml::from_str(&text).context(file)?;
        let field = |pointer: &str| {
            let found = value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
            found.context(format!("{file}: {pointer}"))
        };
        Ok(Self {
            name: field("/metadata/name")?,
            database: field("/spec/database")?,
            target: field("/spec/target")?,
            candidate: field("/spec/candidate")?,
            text,
        })
    }

    pub fn exact_rows(&self) -> Result<u64> {
        let value: Value = serde_yaml::from_str(&self.text).context(AUTHOR)?;
        value["spec"]["rows"]["exact"].as_u64().context(format!("{AUTHOR}: spec.rows.exact"))
    }

    /// Without the comment lines at the head of the file.
    pub fn body(&self) -> String {
        self.text.lines().skip_while(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect()
    }
}

pub fn path(file: &str) -> PathBuf {
    paths::root().join(file)
}

fn read(file: &str) -> Result<String> {
    let path = paths::existing(path(file), "a complete checkout")?;
    std::fs::read_to_string(&path).context(file)
}

/// The platform's sample with this password, authority and these endpoints.
pub fn platform(password: &str, ca: &str, endpoints: &[String]) -> Result<String> {
    let text = read(PLATFORM)?;
    let text = replace(&text, "password: REPLACE-ME", &format!("password: {password}"))?;
    let example = "    -----BEGIN CERTIFICATE-----\n    REPLACE-ME\n    -----END CERTIFICATE-----\n";
    let indented: String = ca.lines().map(|line| format!("    {line}\n")).collect();
    let mut text = replace(&text, example, &indented)?;
    for (member, endpoint) in endpoints.iter().enumerate() {
        text = replace(&text, &format!("https://ch-{member}.ch:8443"), endpoint)?;
    }
    Ok(text)
}

/// A sample that has changed its wording must not go by unnoticed.
fn replace(text: &str, from: &str, to: &str) -> Result<String> {
    if text.contains(from) {
        return Ok(text.replace(from, to));
    }
    Err(Error::other("config/samples", format!("the demo expects {from:?} in it")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_shows_the_manifest_that_the_demo_applies() {
        let readme = read("README.md").unwrap();
        let sample = Sample::load(AUTHOR).unwrap().body();
        assert!(readme.contains(&sample), "README.md does not show {AUTHOR}:\n{sample}");
    }

    #[test]
    fn what_the_demo_changes_in_the_samples_is_there() {
        let (next, sed) = Sample::load(AUTHOR).unwrap().next_day(7).unwrap();
        assert_eq!((next.candidate.as_str(), next.exact_rows().unwrap()), ("orders__pub_20261201", 7));
        assert_eq!(sed, "s/20261130/20261201/; s/1482233/7/");
        let endpoints = ["https://a:1".to_owned(), "https://b:2".to_owned()];
        let text = platform("secret", "one\ntwo\n", &endpoints).unwrap();
        assert!(!text.contains("REPLACE-ME") && text.contains("    one\n    two\n"), "{text}");
        assert!(text.contains("- endpoint: https://b:2\n"), "{text}");
    }
}
