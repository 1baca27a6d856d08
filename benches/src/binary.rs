//! The measured binaries: named by the environment, or the workspace's own release builds, brought up to date
//! first.

use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Path of a measured executable.
#[derive(Clone)]
pub(crate) struct Binary(PathBuf);

impl Binary {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The `kstore-server` that `KSTORE_BIN` names, or a release build of the workspace.
    pub(crate) fn server() -> anyhow::Result<Self> {
        match std::env::var_os("KSTORE_BIN") {
            Some(path) => Ok(Self(path.into())),
            None => build("kstore-server", &[]),
        }
    }

    /// The store with only the etcd API: the program that `KSTORE_ETCD_SERVER` names, or the example of the
    /// crate `etcd`.
    pub(crate) fn etcd_server() -> anyhow::Result<Self> {
        match std::env::var_os("KSTORE_ETCD_SERVER") {
            Some(path) => Ok(Self(path.into())),
            None => build("etcd_server", &["-p", "kstore-etcd", "--example", "etcd_server"]),
        }
    }
}

/// Builds `selection` and finds the executable `name`.
fn build(name: &str, selection: &[&str]) -> anyhow::Result<Binary> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("a crate is inside the workspace")?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--message-format=json-render-diagnostics"]).args(selection);
    // The outer cargo's variables about this package would make the inner cargo rebuild every crate that
    // reads them.
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_package_variable(&name.to_string_lossy())) {
        cargo.env_remove(name);
    }
    let output = cargo.current_dir(root).stderr(Stdio::inherit()).output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("the release build failed");
    }
    let path = String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| Some(PathBuf::from(message["executable"].as_str()?)));
    path.map(Binary).with_context(|| format!("cargo did not say where it put {name}"))
}

/// Whether an environment variable describes the package that cargo runs.
fn is_package_variable(name: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}
