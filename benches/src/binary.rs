//! The binary that is measured: `KSTORE_SERVER`, or the workspace's own release build, which is brought up to date first.

use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An executable `kstore-server`.
#[derive(Clone)]
pub(crate) struct Binary(PathBuf);

impl Binary {
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

/// Finds or builds it.
pub(crate) fn locate() -> anyhow::Result<Binary> {
    if let Some(path) = std::env::var_os("KSTORE_SERVER") {
        return Ok(Binary(PathBuf::from(path)));
    }
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--release", "-p", "kstore-server", "--message-format=json-render-diagnostics"])
        .arg("--manifest-path")
        .arg(manifest)
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("the release build failed");
    }
    let path = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == "kstore-server")
        .find_map(|message| Some(PathBuf::from(message["executable"].as_str()?)));
    path.map(Binary).context("cargo did not say where it put kstore-server")
}
