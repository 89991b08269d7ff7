//! One directory per environment, inside the clone, gone when the environment is (unless `KEEP` is set).

use std::path::{Path, PathBuf};

use crate::error::{Context, Result};
use crate::paths;

const KEPT: &str = "KEPT";

#[derive(Debug)]
pub struct WorkDir {
    dir: tempfile::TempDir,
}

impl WorkDir {
    /// Kept after the run when `KEEP` is set.
    pub fn new(name: &str) -> Result<Self> {
        let mut this = Self::temporary(name)?;
        if keep() {
            this.dir.disable_cleanup(true);
            std::fs::write(this.join(KEPT), "").context("mark a kept directory")?;
            eprintln!("e2e: keeping {}", this.path().display());
        }
        Ok(this)
    }

    /// Gone after the run in any case.
    pub fn temporary(name: &str) -> Result<Self> {
        let parent = paths::root().join("target/e2e-work");
        std::fs::create_dir_all(&parent).context(format!("create {}", parent.display()))?;
        sweep(&parent);
        let dir = tempfile::Builder::new()
            .prefix(&format!("{name}-{}-", std::process::id()))
            .tempdir_in(&parent)
            .context("create a work directory")?;
        Ok(Self { dir })
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn subdir(&self, name: &str) -> Result<PathBuf> {
        let path = self.join(name);
        std::fs::create_dir_all(&path).context(format!("create {}", path.display()))?;
        Ok(path)
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.join(name);
        std::fs::write(&path, text).context(format!("write {}", path.display()))?;
        Ok(path)
    }
}

/// Removes what killed test processes left. Their children are gone with them: they were on the leash.
fn sweep(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.rsplit('-').nth(1).and_then(|pid| pid.parse::<u32>().ok());
        let alive = owner.is_none_or(|pid| Path::new(&format!("/proc/{pid}")).exists());
        if !alive && !entry.path().join(KEPT).exists() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

pub fn keep() -> bool {
    std::env::var_os("KEEP").is_some_and(|v| !v.is_empty() && v != "0")
}
