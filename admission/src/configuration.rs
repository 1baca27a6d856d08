//! [`ConfiguredPlugins`]: plugins with the configuration of `--admission-control-config-file`. The caller reads
//! the files, and each plugin reads its document. An unknown field is an error.

use crate::plugin::{Plugin, Review};
use crate::registered::{PluginSwitches, row};
use kstore_nondet::Rng;
use kstore_registry::outbound::Remote;
use kstore_registry::undecided::Undecided;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
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
    /// Kubernetes' plugin has a configuration that this server does not support.
    #[error("kstore does not support a configuration of admission plugin {0}: {1}")]
    Unsupported(&'static str, &'static str),
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

/// Makes a client of the HTTPS server of a kubeconfig, or says why it cannot.
type Connect<'a> = dyn Fn(&str, &Path) -> Result<Remote, String> + 'a;

/// What the configuration of a plugin may use besides its document.
#[derive(Clone, Copy)]
pub struct ConfigurationContext<'a> {
    /// Makes a client of the HTTPS server of a kubeconfig, by the field that names the file and the file.
    pub connect: &'a Connect<'a>,
    /// Randomness of retries.
    pub rng: &'a Rng,
}

impl fmt::Debug for ConfigurationContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConfigurationContext").finish_non_exhaustive()
    }
}

/// Makes a plugin by its document, or names the field that cannot be used.
pub(super) type Configure = fn(Value, &ConfigurationContext<'_>) -> Result<Arc<dyn Plugin>, String>;

/// The configuration of a plugin.
#[derive(Clone, Copy)]
pub(super) enum Configuration {
    /// The plugin has none, here and in Kubernetes.
    None,
    /// Kubernetes' plugin has a configuration that this server does not support: which, and why.
    Unsupported(&'static str),
    /// Without a document the plugin has defaults.
    Optional(Configure),
    /// The plugin does not run without a document.
    Required(Configure),
}

/// Plugins with a configuration, by name. Cheap to clone; clones share caches and buckets.
#[derive(Clone, Default)]
pub struct ConfiguredPlugins(BTreeMap<&'static str, Arc<dyn Plugin>>);

impl fmt::Debug for ConfiguredPlugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
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
            Configuration::Unsupported(why) => return Err(ConfigurationError::Unsupported(row.name, why)),
            Configuration::Optional(configure) | Configuration::Required(configure) => configure,
        };
        let plugin =
            configure(document, context).map_err(|why| ConfigurationError::Invalid(row.name, why))?;
        match self.0.insert(row.name, plugin) {
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
        let missing = needy.map(|row| row.name).find(|name| !self.0.contains_key(name));
        missing.map_or(Ok(()), |name| Err(ConfigurationError::Missing(name)))
    }

    /// A plugin with its configuration, if it has one.
    pub(super) fn get(&self, name: &str) -> Option<Arc<dyn Plugin>> {
        self.0.get(name).cloned()
    }
}

/// Reads a document with an API version and a kind.
///
/// # Errors
/// Another version or kind, or the first field that is unknown or of a wrong type.
pub(super) fn read<T: DeserializeOwned>(
    mut document: Value,
    versions: &[&str],
    kind: &str,
) -> Result<T, String> {
    let members = document.as_object_mut().ok_or("expected an object")?;
    let mut take = |name: &str| match members.remove(name) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    let (version, found) = (take("apiVersion"), take("kind"));
    if !versions.contains(&version.as_str()) || found != kind {
        return Err(format!("expected {} {kind}, found {version:?} {found:?}", versions[0]));
    }
    serde_json::from_value(document).map_err(|error| error.to_string())
}

/// A plugin that has no effect without a configuration, and has none: refuses every request that it concerns.
pub(super) struct Unconfigured;

impl Plugin for Unconfigured {
    fn validate(&self, review: &Review<'_>, _: Option<&Value>) -> Result<(), Undecided> {
        review.subject.refuse("an enabled admission plugin has no configuration")
    }
}
