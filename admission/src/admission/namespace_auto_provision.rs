//! NamespaceAutoProvision: creating an object in a namespace that does not exist creates the namespace first.
//! It is the only plugin that writes, so it does not run inside the decision about the object: the pipeline
//! provisions the namespace (`pipeline::namespace_provision`) before the first plugin.

use super::Plugin;

/// Name of the plugin.
pub(super) const NAME: &str = "NamespaceAutoProvision";

/// The plugin's place in the list of plugins; it has no rules of its own.
pub(super) struct NamespaceAutoProvision;

impl Plugin for NamespaceAutoProvision {}
