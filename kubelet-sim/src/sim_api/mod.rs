//! The API of simulations: the kinds of `sim.kstore.io`, checks of documents before a start, and their installation.

mod check;
mod install;

use kstore_client::Gvr;
use kstore_client::manifest::{ManifestObject, objects};
use std::borrow::Cow;

pub use check::{annotation_problems, check};
pub use install::{InstallError, install};

/// The group of the kinds.
pub(crate) const GROUP: &str = "sim.kstore.io";
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
