//! Admission: checks and changes of objects that depend on the cluster. In-tree plugins run in Kubernetes' order, one per
//! file; webhooks and policies between and after them. Validation of an object by itself is in `kstore_api::validate`.

mod admission;
mod chain;
mod configured;
pub mod dynamic;
mod manifests;
mod metrics;
mod plugin;
mod plugins;
mod policy_lookup;
mod registered;
mod request_effects;
mod subject;

pub use admission::Admission;
pub use configured::{ConfigurationError, ConfiguredPlugins};
pub use plugin::ConfigurationContext;
pub use registered::{LEFT_OUT, PluginSwitches, is_in, plugins};
pub use subject::Subject;
