//! [`Configuration`]: what a plugin has in `--admission-control-config-file`. The caller reads the files, and each plugin
//! reads its document. An unknown field is an error.

use super::{Plugin, Review};
use kstore_nondet::Rng;
use kstore_registry::outbound::Remote;
use kstore_registry::undecided::Undecided;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

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
pub(crate) type Configure = fn(Value, &ConfigurationContext<'_>) -> Result<Arc<dyn Plugin>, String>;

/// The configuration of a plugin.
#[derive(Clone, Copy)]
pub(crate) enum Configuration {
    /// The plugin has none, here and in Kubernetes.
    None,
    /// Kubernetes' plugin has a configuration that this server does not support: which, and why.
    Unsupported(&'static str),
    /// Without a document the plugin has defaults.
    Optional(Configure),
    /// The plugin does not run without a document.
    Required(Configure),
}

/// Reads a document with an API version and a kind.
///
/// # Errors
/// Another version or kind, or the first field that is unknown or of a wrong type.
pub(crate) fn read_document<T: DeserializeOwned>(
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
pub(crate) struct Unconfigured;

impl Plugin for Unconfigured {
    fn validate(&self, review: &Review<'_>, _: Option<&Value>) -> Result<(), Undecided> {
        review.subject.refuse("an enabled admission plugin has no configuration")
    }
}
