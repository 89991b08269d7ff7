//! A child process that cannot outlive the test process, however that one ends (see `tools/leash`).

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{Context, Error, Result};
use crate::paths;
use crate::poll::{Seen, eventually};

const STARTED_WITHIN: Duration = Duration::from_secs(10);
const TAIL_LINES: usize = 30;

/// What to start. `grace` is how long it may take to end after SIGTERM before SIGKILL.
#[derive(Debug)]
pub struct Launch {
    name: String,
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    log: PathBuf,
    grace: Duration,
}

impl Launch {
    pub fn new(name: impl Into<String>, program: impl Into<PathBuf>, log: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            log: log.into(),
            grace: Duration::from_secs(5),
        }
    }

    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    pub async fn start(self) -> Result<Leashed> {
        let pidfile = self.log.with_extension("pid");
        // A name of an earlier run must not be taken for this one.
        let _ = std::fs::remove_file(&pidfile);
        let leash = Command::new(paths::leash()?)
            .arg("--pidfile")
            .arg(&pidfile)
            .arg("--log")
            .arg(&self.log)
            .arg(format!("--grace={}", self.grace.as_secs_f64()))
            .arg("--")
            .arg(&self.program)
            .args(&self.args)
            .envs(self.env.iter().map(|(k, v)| (k, v)))
            .stdin(Stdio::piped())
            // Ctrl-C is the harness's alone: it ends what it started, in its own order.
            .process_group(0)
            .spawn()
            .context(format!("start {}", self.name))?;
        let mut child = Leashed { name: self.name, leash, pid: Pid::INIT, log: self.log, code: None };
        child.pid = child.read_pid(&pidfile).await?;
        Ok(child)
    }
}

#[derive(Debug)]
pub struct Leashed {
    name: String,
    leash: Child,
    pid: Pid,
    log: PathBuf,
    code: Option<i32>,
}

impl Leashed {
    async fn read_pid(&mut self, pidfile: &Path) -> Result<Pid> {
        let what = format!("{} started", self.name);
        eventually(STARTED_WITHIN, &what, || {
            let pid = std::fs::read_to_string(pidfile).ok();
            let pid = pid.and_then(|text| text.trim().parse().ok()).and_then(Pid::from_raw);
            let seen = match pid {
                Some(pid) => Ok(Seen::Done(pid)),
                None => self.check_running().map(|()| Seen::not_yet("no pid file")),
            };
            std::future::ready(seen)
        })
        .await
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    pub fn log_path(&self) -> &Path {
        &self.log
    }

    pub fn log_tail(&self) -> String {
        paths::tail(&self.log, TAIL_LINES)
    }

    /// Its exit code (128 + N after signal N) once it has ended and was collected.
    pub fn exit_code(&mut self) -> Result<Option<i32>> {
        if self.code.is_none() {
            let status = self.leash.try_wait().context(format!("look at {}", self.name))?;
            self.code = status.map(|s| s.code().unwrap_or(-1));
        }
        Ok(self.code)
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.exit_code(), Ok(None))
    }

    /// An error with the log's end when it is gone; used while waiting for readiness.
    pub fn check_running(&mut self) -> Result<()> {
        match self.exit_code()? {
            None => Ok(()),
            Some(code) => Err(Error::Exited { what: self.name.clone(), code, tail: self.log_tail() }),
        }
    }

    /// The leash collects the child only when it ends itself, so the pid is ours while it runs.
    fn signal(&mut self, signal: Signal) -> Result<()> {
        self.check_running()?;
        kill_process(self.pid, signal).context(format!("signal {}", self.name))
    }

    pub fn stop(&mut self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    pub fn cont(&mut self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    pub fn term(&mut self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// SIGKILL, and back only when the process is gone (its ports and files are free).
    pub async fn kill9(&mut self) -> Result<()> {
        self.signal(Signal::KILL)?;
        self.wait_exit(Duration::from_secs(10)).await.map(|_| ())
    }

    pub async fn wait_exit(&mut self, within: Duration) -> Result<i32> {
        let what = format!("{} ended", self.name);
        eventually(within, &what, || {
            let seen = self.exit_code().map(|c| c.map_or_else(|| Seen::not_yet("running"), Seen::Done));
            std::future::ready(seen)
        })
        .await
    }

    /// SIGTERM, then SIGKILL after the grace; waits.
    pub fn end(&mut self) {
        drop(self.leash.stdin.take());
        if self.code.is_none() {
            self.code = self.leash.wait().ok().map(|s| s.code().unwrap_or(-1));
        }
    }
}

impl Drop for Leashed {
    fn drop(&mut self) {
        self.end();
    }
}
