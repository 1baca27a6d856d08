//! The binaries that are measured: given by the environment, or the workspace's own release builds, brought up to date first.

use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// An executable of ours.
#[derive(Clone)]
pub(crate) struct Binary(PathBuf);

impl Binary {
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// `kstore-server`: what `KSTORE_BIN` names, or what `cargo build --release` makes at the root of the workspace.
    pub(crate) fn server() -> anyhow::Result<Self> {
        match std::env::var_os("KSTORE_BIN") {
            Some(path) => Ok(Self(path.into())),
            None => build("kstore-server", &[]),
        }
    }

    /// The store behind the etcd API and nothing else: what `KSTORE_ETCD_SERVER` names, or the example of crate `etcd`.
    pub(crate) fn etcd_server() -> anyhow::Result<Self> {
        match std::env::var_os("KSTORE_ETCD_SERVER") {
            Some(path) => Ok(Self(path.into())),
            None => build("etcd_server", &["-p", "kstore-etcd", "--example", "etcd_server"]),
        }
    }
}

/// Builds what `selection` names and finds the executable `name` in it.
fn build(name: &str, selection: &[&str]) -> anyhow::Result<Binary> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("a crate lies in the workspace")?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--message-format=json-render-diagnostics"]).args(selection);
    // What the outer cargo says of this package would make the inner one build anew whatever looks at it.
    for (name, _) in std::env::vars_os().filter(|(name, _)| of_package(&name.to_string_lossy())) {
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

/// Whether a variable of the environment tells of the package that cargo runs.
fn of_package(name: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}
