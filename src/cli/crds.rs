//! `publication-operator crds`: the CRDs, to standard output or as files.

use std::path::{Path, PathBuf};

use crate::api::manifests::{self, ManifestError};

/// All CRDs as one YAML stream.
///
/// # Errors
/// Only by a defect of this build.
pub fn render() -> Result<String, ManifestError> {
    manifests::crd_stream()
}

/// Writes `<plural>.yaml` for each kind into `dir` and returns the paths.
///
/// # Errors
/// When the directory or a file cannot be written.
pub fn write_to(dir: &Path) -> Result<Vec<PathBuf>, ManifestError> {
    manifests::write_crds(dir)
}
