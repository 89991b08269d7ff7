//! docs/recovery.md, executed: its fenced blocks by the name in the comment above them, with the names of a case.

use crate::looks::CANDIDATE;
use crate::stage::Stage;
use publication_e2e::error::Context;
use publication_e2e::{Error, Result, paths};
use std::path::Path;
use tokio::process::Command;

fn page() -> Result<String> {
    let path = paths::root().join("docs/recovery.md");
    std::fs::read_to_string(&path).context(format!("read {}", path.display()))
}

/// Names of all blocks, in order.
pub fn names() -> Result<Vec<String>> {
    let page = page()?;
    let marked = page.lines().filter_map(|line| line.strip_prefix("<!-- command: "));
    Ok(marked.filter_map(|rest| rest.strip_suffix(" -->")).map(str::to_owned).collect())
}

/// A block as it stands in the page.
fn block(name: &str, language: &str) -> Result<String> {
    let page = page()?;
    let what = format!("docs/recovery.md: {name}");
    let (_, rest) = page.split_once(&format!("<!-- command: {name} -->\n")).context(what.clone())?;
    let body = rest.strip_prefix(&format!("```{language}\n")).context(format!("{what} is {language}"))?;
    body.split_once("\n```").map(|(body, _)| body.to_owned()).context(what)
}

impl Stage {
    /// The page's names are examples; the case has its own.
    fn localised(&self, text: &str) -> String {
        text.replace("orders-20261130", &self.name())
            .replace("orders__pub_20261130", CANDIDATE)
            .replace("shop.orders", &format!("{}.orders", self.database))
            .replace("--database shop", &format!("--database {}", self.database))
            .replace("database: shop", &format!("database: {}", self.database))
    }

    /// Runs a block of SQL on one member.
    pub async fn run_sql(&self, name: &str, member: usize) -> Result<()> {
        self.run_sql_with(name, member, &[]).await
    }

    /// The same with more replaced.
    pub async fn run_sql_with(&self, name: &str, member: usize, more: &[(&str, &str)]) -> Result<()> {
        let text = self.localised(block(name, "sql")?.trim_end().trim_end_matches(';'));
        let statement = more.iter().fold(text, |text, (from, to)| text.replace(from, to));
        self.env.cluster.sql(member, &statement).await.map(|_| ())
    }

    /// Runs a block of commands in a shell, as the cluster's admin. Nobody sits at a terminal to be asked.
    pub async fn run_sh(&self, name: &str, more: &[(&str, &str)]) -> Result<String> {
        let mut text = self.localised(&block(name, "sh")?).replace(" adjudicate ", " adjudicate --yes ");
        for (from, to) in more {
            text = text.replace(from, to);
        }
        self.shell(&text).await
    }

    pub async fn shell(&self, text: &str) -> Result<String> {
        let (operator, kubectl) = (paths::operator()?, paths::tool("kubectl")?);
        let folder = |path: &Path| path.parent().map(|p| p.display().to_string()).unwrap_or_default();
        let inherited = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{}:{inherited}", folder(&operator), folder(&kubectl));
        let mut command = Command::new("sh");
        command.args(["-euc", text]).env("PATH", path);
        command.env("KUBECONFIG", self.env.control_plane.kubeconfig()).env("HOME", self.env.work.path());
        paths::output(&mut command, None).await
    }
}

/// Every block of the page is run by some case.
pub fn nothing_is_left_out(run: &[&str]) -> Result<()> {
    let forgotten: Vec<String> = names()?.into_iter().filter(|name| !run.contains(&name.as_str())).collect();
    if forgotten.is_empty() {
        return Ok(());
    }
    Err(Error::other("commands of docs/recovery.md that no case runs", format!("{forgotten:?}")))
}
