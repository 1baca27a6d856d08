//! Manifests: YAML or JSON texts with Kubernetes objects, as for `kubectl apply -f`, and the calls that store
//! their objects.

mod apply;
mod document;

pub use apply::{Applied, Applier, ApplyError};
pub use document::{ManifestError, ManifestObject, objects, sort_for_apply};
