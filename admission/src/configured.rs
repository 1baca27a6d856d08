//! [`ConfiguredPlugins`]: plugins with the configuration of `--admission-control-config-file`.

use crate::manifests::ManifestFolder;
use crate::plugin::{Configuration, ConfigurationContext, Plugin, manifest_folder};
use crate::registered::{PluginSwitches, row};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The configuration of a plugin cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    /// The plugin does not exist.
    #[error("admission plugin {0:?} is unknown")]
    Unknown(String),
    /// The plugin has no configuration, here or in Kubernetes.
    #[error("admission plugin {0} takes no configuration")]
    None(String),
    /// A second configuration of a plugin.
    #[error("admission plugin {0} is configured twice")]
    Twice(&'static str),
    /// A document that cannot be used: the plugin and the reason.
    #[error("admission plugin {0}: {1}")]
    Invalid(&'static str, String),
    /// An enabled plugin that does nothing without a configuration.
    #[error("admission plugin {0} is enabled and needs a configuration in --admission-control-config-file")]
    Missing(&'static str),
}

/// Plugins with a configuration, by name. Cheap to clone; clones share caches and buckets.
#[derive(Clone, Default)]
pub struct ConfiguredPlugins {
    plugins: BTreeMap<&'static str, Arc<dyn Plugin>>,
    /// The plugins of webhooks and policies, each with its static manifests if it has some.
    manifests: BTreeMap<&'static str, Option<Arc<ManifestFolder>>>,
}

impl fmt::Debug for ConfiguredPlugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.plugins.keys().chain(self.manifests.keys())).finish()
    }
}

impl ConfiguredPlugins {
    /// Configures a plugin by its document.
    ///
    /// # Errors
    /// Why the plugin cannot be configured so.
    pub fn configure(
        &mut self,
        name: &str,
        document: Value,
        context: &ConfigurationContext<'_>,
    ) -> Result<(), ConfigurationError> {
        let row = row(name).ok_or_else(|| ConfigurationError::Unknown(name.to_owned()))?;
        let configure = match row.configuration {
            Configuration::None => return Err(ConfigurationError::None(name.to_owned())),
            Configuration::Manifests(plugin) => {
                let folder = manifest_folder(plugin, document, context);
                let folder = folder.map_err(|why| ConfigurationError::Invalid(row.name, why))?;
                return match self.manifests.insert(row.name, folder.map(Arc::new)) {
                    None => Ok(()),
                    Some(_) => Err(ConfigurationError::Twice(row.name)),
                };
            }
            Configuration::Optional(configure) | Configuration::Required(configure) => configure,
        };
        let plugin =
            configure(document, context).map_err(|why| ConfigurationError::Invalid(row.name, why))?;
        match self.plugins.insert(row.name, plugin) {
            None => Ok(()),
            Some(_) => Err(ConfigurationError::Twice(row.name)),
        }
    }

    /// Checks that every enabled plugin which needs a configuration has one.
    ///
    /// # Errors
    /// The first plugin without one.
    pub fn check(&self, switches: &PluginSwitches) -> Result<(), ConfigurationError> {
        let needy =
            switches.enabled_rows().filter(|row| matches!(row.configuration, Configuration::Required(_)));
        let missing = needy.map(|row| row.name).find(|name| !self.plugins.contains_key(name));
        missing.map_or(Ok(()), |name| Err(ConfigurationError::Missing(name)))
    }

    /// A plugin with its configuration, if it has one.
    pub(super) fn get(&self, name: &str) -> Option<Arc<dyn Plugin>> {
        self.plugins.get(name).cloned()
    }

    /// The folders of static manifests.
    pub(super) fn manifests(&self) -> Vec<Arc<ManifestFolder>> {
        self.manifests.values().flatten().cloned().collect()
    }
}
