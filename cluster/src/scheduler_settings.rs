//! [`SchedulerSettings`]: how the scheduler of a control plane decides, for crates above that do not know the scheduler.

use kstore_scheduler::{Config, Configuration, ConfigurationError, Gates, Registry};

/// The profiles of a scheduler and its other settings. The default is kube-scheduler's.
#[derive(Clone, Debug, Default)]
pub struct SchedulerSettings(Config);

/// Why the scheduler refuses a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct SchedulerSettingsError(#[from] ConfigurationError);

impl SchedulerSettings {
    /// Reads a KubeSchedulerConfiguration, in YAML or JSON; without a text, kube-scheduler's own. `schedules_gangs` says whether the server
    /// serves PodGroups, so that the pods of a gang get their nodes together or not at all.
    ///
    /// # Errors
    /// Everything for which the scheduler refuses the text.
    pub fn read(text: Option<&str>, schedules_gangs: bool) -> Result<Self, SchedulerSettingsError> {
        let gates = Gates { schedules_gangs, ..Gates::default() };
        Ok(Self(match text {
            Some(text) => Configuration::parse(text, &Registry::in_tree_with(gates))?.into(),
            None => Config::gated(gates),
        }))
    }

    /// The configuration of a scheduler with these settings.
    pub fn config(&self) -> Config {
        self.0.clone()
    }
}
