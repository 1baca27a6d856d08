//! [`Configuration`]: what a plugin has in `--admission-control-config-file`. The caller reads the files, and each plugin
//! reads its document. An unknown field is an error.

use super::{Plugin, Review};
use crate::manifests::ManifestFolder;
use kstore_api::admission::manifests::ManifestPlugin;
use kstore_api::version::Minor;
use kstore_nondet::Rng;
use kstore_registry::outbound::Remote;
use kstore_registry::undecided::Undecided;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;
use std::path::{Path, PathBuf};
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
    /// The version of Kubernetes whose rules static manifests follow; `None` on a server without them.
    pub manifests: Option<Minor>,
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
    /// The plugin has static manifests.
    Manifests(ManifestPlugin),
    /// Without a document the plugin has defaults.
    Optional(Configure),
    /// The plugin does not run without a document.
    Required(Configure),
}

/// The configuration of the plugins of webhooks and policies.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ManifestDocument {
    #[serde(default)]
    kube_config_file: String,
    #[serde(default)]
    static_manifests_dir: PathBuf,
}

/// Opens the folder of static manifests that the document of a plugin names; `None` if it names none.
///
/// # Errors
/// Why the document or the folder cannot be used.
pub(crate) fn manifest_folder(
    plugin: ManifestPlugin,
    document: Value,
    context: &ConfigurationContext<'_>,
) -> Result<Option<ManifestFolder>, String> {
    let kind = plugin.configuration_kind();
    // The older version and kind are those of files before Kubernetes had static manifests.
    let former = ("apiserver.config.k8s.io/v1alpha1", "WebhookAdmission");
    let stated = |member: &str| document[member].as_str().unwrap_or_default().to_owned();
    let is_former =
        plugin.has_webhooks() && (stated("apiVersion").as_str(), stated("kind").as_str()) == former;
    let document: ManifestDocument = match is_former {
        true => read_document(document, &[former.0], former.1)?,
        false => read_document(document, &["apiserver.config.k8s.io/v1"], kind)?,
    };
    if !document.kube_config_file.is_empty() {
        return Err(match plugin.has_webhooks() {
            true => NO_KUBECONFIG.to_owned(),
            false => "unknown field `kubeConfigFile`".to_owned(),
        });
    }
    if document.static_manifests_dir.as_os_str().is_empty() {
        return Ok(None);
    }
    let minor = context.manifests.ok_or(
        "staticManifestsDir: Forbidden: staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate to be enabled",
    )?;
    ManifestFolder::open(plugin, minor, document.static_manifests_dir).map(Some)
}

const NO_KUBECONFIG: &str = "kstore does not support kubeConfigFile: webhooks are called without credentials other than those of \
     their configuration";

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
