//! Which plugins run: the default set, and the switches that change it.

use crate::plugin::{Enabled, Row};
use crate::plugins::PLUGINS;
use kstore_api::kind::OptIn;
use kstore_api::version::{Minor, Versions};
use kstore_registry::kinds::Kinds;
use std::collections::BTreeSet;

/// Plugins that Kubernetes enables by default and that this server does not have. They are about kinds or fields of
/// features that are off by default.
pub const LEFT_OUT: [&str; 1] = ["JobValidation"];

/// Plugins that some versions of Kubernetes do not have.
const VERSIONS: [(&str, Versions); 5] = [
    ("JobValidation", Versions::since(Minor::V36)),
    ("NodeDeclaredFeatureValidator", Versions::since(Minor::V35)),
    ("PodGroupProtection", Versions::since(Minor::V36)),
    ("PodGroupWorkloadExists", Versions::between(Minor::V36, Minor::V36)),
    ("PodResizeValidator", Versions::since(Minor::V36)),
];

/// Whether a version of Kubernetes has the plugin, if any has. On a server of a version that has not, the plugin does nothing.
pub fn is_in(minor: Minor, plugin: &str) -> bool {
    let versions = VERSIONS.iter().find(|(name, _)| *name == plugin);
    versions.is_none_or(|(_, versions)| versions.has(minor))
}

/// The rows of the plugins that flags and configurations can name.
fn named_rows() -> impl Iterator<Item = &'static Row> {
    PLUGINS.iter().copied().filter(|row| row.enabled != Enabled::Always)
}

/// The row of the plugin that flags and configurations know by this name.
pub(super) fn row(name: &str) -> Option<&'static Row> {
    named_rows().find(|row| row.name == name)
}

/// The names of Kubernetes' admission plugins that this server has.
pub fn plugins() -> impl Iterator<Item = &'static str> {
    named_rows().map(|row| row.name)
}

/// The enabled plugins: Kubernetes' default set with these changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginSwitches {
    /// Plugins of [`plugins`] that run in addition to the default ones.
    pub enabled: BTreeSet<&'static str>,
    /// Plugins of [`plugins`] that do not run.
    pub disabled: BTreeSet<&'static str>,
}

impl PluginSwitches {
    /// The default set without these plugins.
    pub fn without(disabled: impl IntoIterator<Item = &'static str>) -> Self {
        Self { disabled: disabled.into_iter().collect(), ..Self::default() }
    }

    /// Whether the plugin of this name is enabled.
    pub fn runs(&self, plugin: &str) -> bool {
        row(plugin).is_some_and(|row| self.enables(row))
    }

    fn enables(&self, row: &Row) -> bool {
        let is_default = row.enabled != Enabled::OnRequest;
        !self.disabled.contains(row.name) && (is_default || self.enabled.contains(row.name))
    }

    /// The rows of the enabled plugins, in their order.
    pub(super) fn enabled_rows(&self) -> impl Iterator<Item = &'static Row> {
        PLUGINS.iter().copied().filter(|row| self.enables(row))
    }

    /// Disables the plugins that check roles, for servers on which everybody may do everything.
    pub fn disable_role_checks(&mut self) {
        self.disabled.extend(PLUGINS.iter().filter(|row| row.checks_roles).map(|row| row.name));
    }

    /// The kinds that a server with these plugins and optional kinds serves without any stored definition.
    pub fn kinds(&self, opt_in: OptIn) -> Kinds {
        self.enabled_rows().fold(Kinds::with_optional(opt_in), |kinds, row| (row.served)(kinds))
    }
}
