//! A real ZooKeeper process: the Keeper of the test cluster.

use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::error::{Context, Result};
use crate::keeper::Keeper;
use crate::leash::{Launch, Leashed};
use crate::paths;
use crate::poll::{Seen, eventually};
use crate::ports;

const ANSWER_WITHIN: Duration = Duration::from_secs(1);
const READY_WITHIN: Duration = Duration::from_secs(40);

#[derive(Debug)]
pub struct ZooKeeper {
    port: u16,
    config: std::path::PathBuf,
    log: std::path::PathBuf,
    process: Leashed,
}

impl ZooKeeper {
    /// `dir` holds config, data and log.
    pub async fn start(dir: &Path) -> Result<Self> {
        let port = ports::free()?;
        let config = dir.join("zoo.cfg");
        let text = format!(
            "tickTime=500\nmaxSessionTimeout=60000\ndataDir={}\nclientPort={port}\n\
             clientPortAddress=127.0.0.1\nadmin.enableServer=false\n4lw.commands.whitelist=*\n\
             maxClientCnxns=0\n",
            dir.join("data").display()
        );
        std::fs::create_dir_all(dir.join("data")).context("create ZooKeeper's directory")?;
        std::fs::write(&config, text).context("write zoo.cfg")?;
        let log = dir.join("zookeeper.log");
        let process = launch(&config, &log).await?;
        let mut this = Self { port, config, log, process };
        this.ready().await?;
        Ok(this)
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The evidence reader; it connects anew for each reading, so it survives restarts.
    pub fn keeper(&self) -> Keeper {
        Keeper::new(self.address())
    }

    pub fn process(&mut self) -> &mut Leashed {
        &mut self.process
    }

    pub async fn kill9(&mut self) -> Result<()> {
        self.process.kill9().await
    }

    /// Starts it again on the same port and data, ending it first if it runs.
    pub async fn restart(&mut self) -> Result<()> {
        self.process.end();
        self.process = launch(&self.config, &self.log).await?;
        self.ready().await
    }

    /// Stopped meanwhile, so that the copy is whole. Keeps one backup, the last.
    pub async fn back_up(&mut self) -> Result<()> {
        self.process.end();
        let backup = self.beside("backup");
        let _ = std::fs::remove_dir_all(&backup);
        copy(&self.beside("data"), &backup).context("back up ZooKeeper")?;
        self.restart().await
    }

    /// Comes back with what the backup has, and nothing since.
    pub async fn restore(&mut self) -> Result<()> {
        self.process.end();
        let data = self.beside("data");
        std::fs::remove_dir_all(&data).context("ZooKeeper's data")?;
        copy(&self.beside("backup"), &data).context("restore ZooKeeper")?;
        self.restart().await
    }

    /// Comes back with nothing.
    pub async fn empty(&mut self) -> Result<()> {
        self.process.end();
        std::fs::remove_dir_all(self.beside("data")).context("ZooKeeper's data")?;
        self.restart().await
    }

    fn beside(&self, name: &str) -> std::path::PathBuf {
        self.config.with_file_name(name)
    }

    pub fn log_tail(&self) -> String {
        self.process.log_tail()
    }

    async fn ready(&mut self) -> Result<()> {
        let port = self.port;
        let process = &mut self.process;
        eventually(READY_WITHIN, "ZooKeeper serves", || {
            let running = process.check_running();
            async move {
                running?;
                let answer = four_letters(port, "srvr").await?;
                Ok(Seen::when(answer.contains("Mode: standalone"), answer))
            }
        })
        .await
    }
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            std::fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

async fn launch(config: &Path, log: &Path) -> Result<Leashed> {
    let program = paths::tool("zookeeper-server")?;
    Launch::new("zookeeper", program, log).arg(config).grace(Duration::from_secs(2)).start().await
}

/// While it starts, ZooKeeper accepts connections that it then never answers.
async fn four_letters(port: u16, word: &str) -> Result<String> {
    tokio::time::timeout(ANSWER_WITHIN, ask(port, word)).await.context(word)?
}

async fn ask(port: u16, word: &str) -> Result<String> {
    let mut stream = TcpStream::connect(ports::loopback(port)).await.context("connect to ZooKeeper")?;
    stream.write_all(word.as_bytes()).await.context(word)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.context(word)?;
    Ok(answer)
}
