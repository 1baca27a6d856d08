//! `AdmissionConfiguration`: the file of the admission plugins' configurations, and the files that it names.
//! Parsed strictly: an unknown field or plugin is an error.

use super::remote;
use crate::args::AdmissionConfig;
use anyhow::{Context, bail, ensure};
use kstore_admission::{ConfigurationContext, ConfiguredPlugins};
use kstore_nondet::Rng;
use serde::Deserialize;
use serde_json::Value;
use std::path::{Path, PathBuf};

const VERSIONS: [&str; 2] = ["apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"];
const KIND: &str = "AdmissionConfiguration";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConfigFile {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    plugins: Vec<PluginEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PluginEntry {
    #[serde(default)]
    name: String,
    /// File of the configuration, relative to the directory of this one.
    #[serde(default)]
    path: PathBuf,
    /// The configuration itself; takes precedence over `path`.
    configuration: Option<Value>,
}

/// The plugins with the configurations that flags name.
pub(crate) fn configured_plugins(config: &AdmissionConfig, rng: &Rng) -> anyhow::Result<ConfiguredPlugins> {
    let mut configured = ConfiguredPlugins::default();
    if let Some(file) = &config.file {
        let cannot = || format!("cannot use --admission-control-config-file {}", file.display());
        read(file, &mut configured, rng).with_context(cannot)?;
    }
    configured.check(&config.switches)?;
    Ok(configured)
}

fn read(file: &Path, configured: &mut ConfiguredPlugins, rng: &Rng) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(file).context("cannot read it")?;
    let ConfigFile { api_version, kind, plugins } = serde_yaml_ng::from_str(&text)?;
    ensure!(
        VERSIONS.contains(&api_version.as_str()) && kind == KIND,
        "expected {} {KIND}, found {api_version:?} {kind:?}",
        VERSIONS[0]
    );
    let directory = file.parent().unwrap_or(Path::new(""));
    for (index, entry) in plugins.into_iter().enumerate() {
        let name = entry.name.clone();
        configure(entry, directory, configured, rng)
            .with_context(|| format!("plugins[{index}] (name: {name:?})"))?;
    }
    Ok(())
}

fn configure(
    entry: PluginEntry,
    directory: &Path,
    configured: &mut ConfiguredPlugins,
    rng: &Rng,
) -> anyhow::Result<()> {
    let PluginEntry { name, path, configuration } = entry;
    let document = match configuration {
        Some(document) => document,
        None if path.as_os_str().is_empty() => bail!("path or configuration: required"),
        None => {
            let path = directory.join(path);
            let shown = path.display();
            let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {shown}"))?;
            serde_yaml_ng::from_str(&text).with_context(|| format!("cannot parse {shown}"))?
        }
    };
    let connect = |field: &str, file: &Path| remote(field, file).map_err(|error| format!("{error:#}"));
    Ok(configured.configure(&name, document, &ConfigurationContext { connect: &connect, rng })?)
}

#[cfg(test)]
mod tests;
