//! The API of simulations: the kinds of `sim.kstore.io`, checks of documents before a start, and their installation.

mod check;
mod install;
mod template;

use crate::group;
use kstore_client::Gvr;
use kstore_client::manifest::{ManifestObject, objects};
use std::borrow::Cow;

pub use check::{check, problems};
pub use install::{InstallError, install};
pub use template::{TemplateNode, template_node};

/// The label of the Nodes of a NodeGroup, whose value is the group's name.
pub const GROUP_LABEL: &str = group::GROUP_LABEL;
/// The annotation of a NodeGroup with the uids of Nodes, separated by commas, that it gives up before all others.
pub const REMOVE_ANNOTATION: &str = group::REMOVE_ANNOTATION;
/// The group of the kinds.
pub const GROUP: &str = "sim.kstore.io";
/// The version of the kinds.
pub(crate) const VERSION: &str = "v1alpha1";

/// The definitions of the kinds, and the role that simulated nodes need for them, as YAML.
pub const DEFINITIONS: &str = include_str!("definitions.yaml");

/// The definitions of the kinds, and the role.
pub fn definitions() -> Vec<ManifestObject> {
    objects(DEFINITIONS).expect("the definitions are valid YAML")
}

/// The resource of a kind of this API.
pub(crate) fn resource(plural: &'static str) -> Gvr {
    Gvr::new(GROUP, VERSION, Cow::Borrowed(plural))
}
