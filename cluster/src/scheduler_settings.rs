//! [`SchedulerSettings`]: how the scheduler of a control plane decides, for crates above that do not know the scheduler.

use kstore_scheduler::{Config, Configuration, ConfigurationError, Registry};

/// The profiles of a scheduler and its other settings. The default is kube-scheduler's.
#[derive(Clone, Debug, Default)]
pub struct SchedulerSettings(Config);

/// Why the scheduler refuses a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct SchedulerSettingsError(#[from] ConfigurationError);

impl SchedulerSettings {
    /// Reads a KubeSchedulerConfiguration, in YAML or JSON.
    ///
    /// # Errors
    /// Everything for which the scheduler refuses the text.
    pub fn parse(text: &str) -> Result<Self, SchedulerSettingsError> {
        Ok(Self(Configuration::parse(text, &Registry::in_tree())?.into()))
    }

    /// The configuration of a scheduler with these settings.
    pub fn config(&self) -> Config {
        self.0.clone()
    }
}
