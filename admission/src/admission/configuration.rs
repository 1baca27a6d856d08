//! [`ConfiguredPlugins`]: plugins with the configuration of `--admission-control-config-file`. The caller reads
//! the files; here are the documents of each plugin. An unknown field is an error.

use super::event_rate_limit::{self, EventRateLimit};
use super::image_policy_webhook::{self, ImagePolicyOptions, ImagePolicyWebhook};
use super::pod_node_selector::PodNodeSelector;
use super::pod_security::PodSecurity;
use super::pod_toleration_restriction::PodTolerationRestriction;
use super::registered::{MUTATING_WEBHOOK, PluginSwitches, RESOURCE_QUOTA, VALIDATING_WEBHOOK, plugins};
use super::{Plugin, Subject, limited_resources};
use crate::admission::Cluster;
use kstore_api::quota::LimitedResource;
use kstore_api::status::Status;
use kstore_nondet::Rng;
use kstore_registry::outbound::Remote;
use serde::de::DeserializeOwned;
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

/// Plugins with a configuration, by name. Cheap to clone; clones share caches and buckets.
#[derive(Clone, Default)]
pub struct ConfiguredPlugins {
    plugins: BTreeMap<&'static str, Arc<dyn Plugin>>,
    /// The configuration of ResourceQuota, which is no [`Plugin`].
    limited: Option<Arc<[LimitedResource]>>,
}

impl fmt::Debug for ConfiguredPlugins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quota = self.limited.as_ref().map(|_| &RESOURCE_QUOTA);
        f.debug_set().entries(self.plugins.keys().chain(quota)).finish()
    }
}

impl ConfiguredPlugins {
    /// Configures a plugin by its document. The image policy webhook also needs a client of its server:
    /// [`Self::set_image_policy`].
    ///
    /// # Errors
    /// Why the plugin cannot be configured so.
    pub fn configure(&mut self, name: &str, document: Value) -> Result<(), ConfigurationError> {
        const NO_KUBECONFIG: &str =
            "kubeConfigFile; webhooks are called without credentials other than those of their configuration";
        let Some(name) = plugins().find(|plugin| *plugin == name) else {
            return Err(ConfigurationError::Unknown(name.to_owned()));
        };
        let invalid = |why| ConfigurationError::Invalid(name, why);
        let plugin: Arc<dyn Plugin> = match name {
            "PodSecurity" => Arc::new(PodSecurity::configured(document).map_err(invalid)?),
            "PodNodeSelector" => Arc::new(PodNodeSelector::configured(document).map_err(invalid)?),
            "PodTolerationRestriction" => {
                Arc::new(PodTolerationRestriction::configured(document).map_err(invalid)?)
            }
            event_rate_limit::NAME => Arc::new(EventRateLimit::configured(document).map_err(invalid)?),
            RESOURCE_QUOTA => {
                let limited = limited_resources::parse(document).map_err(invalid)?;
                return match self.limited.replace(limited.into()) {
                    None => Ok(()),
                    Some(_) => Err(ConfigurationError::Twice(name)),
                };
            }
            MUTATING_WEBHOOK | VALIDATING_WEBHOOK => {
                return Err(ConfigurationError::Unsupported(name, NO_KUBECONFIG));
            }
            _ => return Err(ConfigurationError::None(name.to_owned())),
        };
        self.insert(name, plugin)
    }

    /// Configures the image policy webhook with a client of its server.
    ///
    /// # Errors
    /// A second configuration.
    pub fn set_image_policy(
        &mut self,
        remote: Remote,
        options: ImagePolicyOptions,
        rng: Rng,
    ) -> Result<(), ConfigurationError> {
        self.insert(image_policy_webhook::NAME, Arc::new(ImagePolicyWebhook::new(remote, options, rng)))
    }

    fn insert(&mut self, name: &'static str, plugin: Arc<dyn Plugin>) -> Result<(), ConfigurationError> {
        match self.plugins.insert(name, plugin) {
            None => Ok(()),
            Some(_) => Err(ConfigurationError::Twice(name)),
        }
    }

    /// Checks that every enabled plugin which needs a configuration has one.
    ///
    /// # Errors
    /// The first plugin without one.
    pub fn check(&self, switches: &PluginSwitches) -> Result<(), ConfigurationError> {
        let needy = [image_policy_webhook::NAME, event_rate_limit::NAME];
        let missing = needy.into_iter().find(|name| switches.runs(name) && !self.plugins.contains_key(name));
        missing.map_or(Ok(()), |name| Err(ConfigurationError::Missing(name)))
    }

    /// A plugin with its configuration, if it has one.
    pub(super) fn get(&self, name: &str) -> Option<Arc<dyn Plugin>> {
        self.plugins.get(name).cloned()
    }

    /// Kinds whose objects need a quota that covers them.
    pub fn limited_resources(&self) -> Arc<[LimitedResource]> {
        self.limited.clone().unwrap_or_default()
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
    fn validate(
        &self,
        _: &dyn Cluster,
        subject: &Subject<'_>,
        _: Option<&Value>,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        Err(subject.forbidden("an enabled admission plugin has no configuration"))
    }
}
