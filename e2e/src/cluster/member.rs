//! One member: its process, its SQL port and its admin port.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};

use super::spec::{HARNESS, HARNESS_PASSWORD, Lane, MemberSpec};
use crate::error::{Context, Error, Result};
use crate::leash::{Launch, Leashed};
use crate::paths;
use crate::poll::{Seen, eventually};

const READY_WITHIN: Duration = Duration::from_secs(60);
const SQL_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Member {
    pub index: usize,
    pub spec: MemberSpec,
    process: Leashed,
    launch: Recipe,
}

#[derive(Debug, Clone)]
struct Recipe {
    python: PathBuf,
    spec_file: PathBuf,
    log: PathBuf,
}

impl Member {
    /// Started, not yet serving: `ready` waits, so that members start side by side.
    pub(super) async fn start(
        index: usize,
        spec: MemberSpec,
        spec_file: &Path,
        dir: &Path,
        lane: Lane,
    ) -> Result<Self> {
        let python = paths::root().join(lane.venv()).join("bin/python");
        let python = paths::existing(python, "tools/setup")?;
        let log = dir.join(format!("member-{index}.log"));
        let launch = Recipe { python, spec_file: spec_file.to_owned(), log };
        let process = launch.start(index).await?;
        Ok(Self { index, spec, process, launch })
    }

    pub(super) async fn ready(&mut self) -> Result<()> {
        let process = &mut self.process;
        let (log, admin, http) = (&self.launch.log, self.spec.admin(), self.spec.http());
        let what = format!("member {} serves", self.index);
        eventually(READY_WITHIN, &what, || {
            let running = process.check_running();
            async move {
                running?;
                let said = std::fs::read_to_string(log).unwrap_or_default();
                if !said.lines().any(|line| line.trim() == "READY") {
                    return Ok(Seen::not_yet(format!("not READY: {}", paths::tail(log, 5))));
                }
                let (health, text) = crate::http::get(admin, "/health").await?;
                let (ping, _) = crate::http::get(http, "/ping").await?;
                Ok(Seen::when(health == 200 && ping == 200, text))
            }
        })
        .await
    }

    /// Back when it is gone.
    pub async fn kill9(&mut self) -> Result<()> {
        self.process.kill9().await
    }

    /// Starts it again on the same directory and ports, ending it first if it runs; waits until it serves.
    pub async fn restart(&mut self) -> Result<()> {
        self.process.end();
        // READY of the former life must not count; its log is kept aside.
        let _ = std::fs::rename(&self.launch.log, self.launch.log.with_extension("log.1"));
        self.process = self.launch.start(self.index).await?;
        self.ready().await
    }

    pub fn sigstop(&mut self) -> Result<()> {
        self.process.stop()
    }

    pub fn sigcont(&mut self) -> Result<()> {
        self.process.cont()
    }

    /// Waits for an end that a fault brings about (`ddl_crash_after_execute`).
    pub async fn wait_exit(&mut self, within: Duration) -> Result<i32> {
        self.process.wait_exit(within).await
    }

    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }

    /// A statement as the harness's own user, past the proxy. Tab separated answer.
    /// User and password of the test bed itself, for a person who wants to look.
    pub fn login(&self) -> (&'static str, &'static str) {
        (HARNESS, HARNESS_PASSWORD)
    }

    pub async fn sql(&self, statement: &str) -> Result<String> {
        self.sql_with(statement, &[]).await
    }

    pub async fn sql_with(&self, statement: &str, settings: &[(&str, &str)]) -> Result<String> {
        let work = query(self.index, self.spec.http(), (HARNESS, HARNESS_PASSWORD), statement, settings);
        tokio::time::timeout(SQL_WITHIN, work).await.map_err(|_| Error::Timeout {
            what: format!("member {}: {statement}", self.index),
            within: SQL_WITHIN,
            last: "no answer".to_owned(),
        })?
    }

    /// The answer as rows of cells.
    pub async fn rows(&self, statement: &str) -> Result<Vec<Vec<String>>> {
        let text = self.sql(statement).await?;
        Ok(text.lines().map(|line| line.split('\t').map(crate::ddl::unescape).collect()).collect())
    }

    /// A raw call of the admin port.
    pub async fn admin(&self, method: &str, path: &str, body: Value) -> Result<Value> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, text) = crate::http::plain(self.spec.admin(), method, path, body).await?;
        let what = format!("member {}: {method} {path}", self.index);
        if status != 200 {
            return Err(Error::other(what, format!("{status}: {text}")));
        }
        if text.trim().is_empty() { Ok(Value::Null) } else { serde_json::from_str(&text).context(what) }
    }

    async fn post(&self, path: &str, body: Value) -> Result<()> {
        self.admin("POST", path, body).await.map(|_| ())
    }

    /// The DDL worker takes no further entry.
    pub async fn ddl_pause(&self) -> Result<()> {
        self.post("/ddl/pause", Value::Null).await
    }

    pub async fn ddl_resume(&self) -> Result<()> {
        self.post("/ddl/resume", Value::Null).await
    }

    /// Entries whose query contains `matching` end with this code, unexecuted, that many times.
    pub async fn ddl_fail(&self, matching: &str, code: i32, message: &str, times: u32) -> Result<()> {
        let body = json!({"match": matching, "code": code, "message": message, "times": times});
        self.post("/ddl/fail", body).await
    }

    /// Entries whose query contains `matching` are taken (active) and not run until released.
    pub async fn ddl_hold(&self, matching: &str) -> Result<()> {
        self.post("/ddl/hold", json!({"match": matching})).await
    }

    pub async fn ddl_release(&self, matching: &str) -> Result<()> {
        self.post("/ddl/release", json!({"match": matching})).await
    }

    /// The process dies after it ran such an entry and before it says so: it runs it again after restart.
    pub async fn ddl_crash_after_execute(&self, matching: &str) -> Result<()> {
        self.post("/ddl/crash_after_execute", json!({"match": matching})).await
    }

    /// Ends every injected DDL fault and pause.
    pub async fn ddl_clear(&self) -> Result<()> {
        self.post("/ddl/clear", Value::Null).await
    }

    /// Queries of the entries that the DDL worker gave to the engine, in order, over all lives of the member.
    pub async fn ddl_executed(&self) -> Result<Vec<String>> {
        let answer = self.admin("GET", "/ddl/executed", Value::Null).await?;
        let rows = answer.as_array().cloned().unwrap_or_default();
        Ok(rows.iter().filter_map(|row| row["query"].as_str().map(str::to_owned)).collect())
    }

    /// A value of `system.replicas` for one table, until cleared.
    pub async fn replica_fault(&self, database: &str, table: &str, field: &str, value: Value) -> Result<()> {
        let body = json!({"database": database, "table": table, "field": field, "value": value});
        self.post("/replica/fault", body).await
    }

    pub async fn replica_clear(&self) -> Result<()> {
        self.post("/replica/clear", json!({})).await
    }

    pub async fn set_password(&self, user: &str, password: &str) -> Result<()> {
        self.post("/users", json!({ user: {"password": password} })).await
    }

    /// Rows that depend on their number alone, so that each member builds the same.
    pub async fn load(&self, database: &str, table: &str, rows: u64, start: u64) -> Result<()> {
        self.post("/load", json!({"database": database, "table": table, "rows": rows, "start": start})).await
    }

    /// Statements the member's HTTP port has seen, as JSON rows (query_id, kind, query, user, settings, code).
    pub async fn queries(&self) -> Result<Vec<Value>> {
        let answer = self.admin("GET", "/queries", Value::Null).await?;
        serde_json::from_value(answer).context("queries")
    }

    pub async fn clear_queries(&self) -> Result<()> {
        self.admin("DELETE", "/queries", Value::Null).await.map(|_| ())
    }
}

impl Recipe {
    async fn start(&self, index: usize) -> Result<Leashed> {
        Launch::new(format!("member {index}"), &self.python, &self.log)
            .arg("-u")
            .arg(paths::root().join("e2e/node/main.py"))
            .arg("--spec")
            .arg(&self.spec_file)
            .arg("--index")
            .arg(index.to_string())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .grace(Duration::from_secs(2))
            .start()
            .await
    }
}

/// One statement over HTTP as ClickHouse speaks it. `member` is only for the error.
pub async fn query(
    member: usize,
    to: SocketAddr,
    (user, password): (&str, &str),
    statement: &str,
    settings: &[(&str, &str)],
) -> Result<String> {
    let mut params = url::form_urlencoded::Serializer::new(String::new());
    params.append_pair("wait_end_of_query", "1").extend_pairs(settings);
    let basic = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
    let request = Request::builder()
        .method("POST")
        .uri(format!("/?{}", params.finish()))
        .header(http::header::AUTHORIZATION, basic)
        .body(Bytes::from(statement.to_owned()))
        .context("build a request")?;
    let answer = crate::http::send(to, request).await?;
    let text = String::from_utf8_lossy(answer.body()).into_owned();
    let code = answer.headers().get("x-clickhouse-exception-code");
    let code = code.and_then(|c| c.to_str().ok()).and_then(|c| c.parse().ok());
    if answer.status().is_success() && code.is_none() {
        return Ok(text);
    }
    let status = answer.status().as_u16();
    Err(Error::Sql { member, status, code, message: text.trim().to_owned() })
}
