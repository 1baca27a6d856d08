//! `AdmissionConfiguration`: the file of the admission plugins' configurations, and the files that it names.
//! Parsed strictly: an unknown field or plugin is an error.

use super::remote;
use crate::args::AdmissionConfig;
use anyhow::{Context, bail, ensure};
use kstore_admission::{ConfigurationContext, ConfiguredPlugins};
use kstore_api::kind::OptIn;
use kstore_api::version::Minor;
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

/// The plugins with the configurations that flags name. A server with static manifests has the features for it and states its version.
pub(crate) fn configured_plugins(
    config: &AdmissionConfig,
    rng: &Rng,
    opt_in: &OptIn,
) -> anyhow::Result<ConfiguredPlugins> {
    let mut reader = Reader {
        configured: ConfiguredPlugins::default(),
        rng,
        manifests: opt_in.features().static_manifests.then(|| opt_in.minor()),
    };
    if let Some(file) = &config.file {
        let cannot = || format!("cannot use --admission-control-config-file {}", file.display());
        reader.read(file).with_context(cannot)?;
    }
    let configured = reader.configured;
    configured.check(&config.switches)?;
    Ok(configured)
}

/// The plugins so far, and what their configurations may use.
struct Reader<'r> {
    configured: ConfiguredPlugins,
    rng: &'r Rng,
    manifests: Option<Minor>,
}

impl Reader<'_> {
    fn read(&mut self, file: &Path) -> anyhow::Result<()> {
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
            self.configure(entry, directory).with_context(|| format!("plugins[{index}] (name: {name:?})"))?;
        }
        Ok(())
    }

    fn configure(&mut self, entry: PluginEntry, directory: &Path) -> anyhow::Result<()> {
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
        let context = ConfigurationContext { connect: &connect, rng: self.rng, manifests: self.manifests };
        Ok(self.configured.configure(&name, document, &context)?)
    }
}

#[cfg(test)]
mod tests;
