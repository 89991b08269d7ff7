//! Where the tools are. What is missing is an error that names its remedy, never a skipped test.

use std::path::{Path, PathBuf};

use crate::error::{Context, Error, Result};

pub fn root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest)
}

/// A program of the tool directory. `KUBEBUILDER_ASSETS` wins for what it holds.
pub fn tool(name: &str) -> Result<PathBuf> {
    if let Some(assets) = std::env::var_os("KUBEBUILDER_ASSETS") {
        let path = Path::new(&assets).join(name);
        if path.is_file() {
            return Ok(path);
        }
    }
    existing(root().join(".tools/bin").join(name), "tools/setup")
}

pub fn leash() -> Result<PathBuf> {
    existing(root().join("tools/leash"), "a complete checkout")
}

/// The operator under test: `PUBLICATION_OPERATOR_BIN`, else the debug build.
pub fn operator() -> Result<PathBuf> {
    let path = std::env::var_os("PUBLICATION_OPERATOR_BIN").map(PathBuf::from);
    let path = path.unwrap_or_else(|| root().join("target/debug/publication-operator"));
    existing(path, "cargo build, or PUBLICATION_OPERATOR_BIN=<path to the binary>")
}

pub fn existing(path: PathBuf, remedy: &str) -> Result<PathBuf> {
    if path.exists() {
        return Ok(path);
    }
    Err(Error::Missing { what: path.display().to_string(), remedy: remedy.to_owned() })
}

/// The last lines of a log, for error messages.
pub fn tail(path: &Path, lines: usize) -> String {
    let Ok(bytes) = std::fs::read(path) else { return format!("(no log at {})", path.display()) };
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// Runs a short-lived program to its end and gives its output, or its stderr as the error.
pub async fn output(command: &mut tokio::process::Command, stdin: Option<&str>) -> Result<String> {
    use std::process::Stdio;
    use tokio::io::AsyncWriteExt;

    let what = format!("{:?}", command.as_std());
    command.kill_on_drop(true).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.spawn().context(what.clone())?;
    if let (Some(text), Some(mut pipe)) = (stdin, child.stdin.take()) {
        pipe.write_all(text.as_bytes()).await.context(what.clone())?;
    }
    let out = child.wait_with_output().await.context(what.clone())?;
    if out.status.success() {
        return Ok(String::from_utf8_lossy(&out.stdout).into_owned());
    }
    Err(Error::other(what, format!("{}: {}", out.status, String::from_utf8_lossy(&out.stderr))))
}
