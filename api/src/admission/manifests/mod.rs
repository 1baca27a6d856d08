//! Static manifests: webhook configurations and policies that an API server reads from files of its machine, so that they hold before the
//! first request and no client changes them through the API. This module decides which objects a file may contain and which names
//! the API refuses; its caller reads the files.
//!
//! Follows `staticManifestsDir` of Kubernetes 1.36 and later (`ManifestBasedAdmissionControlConfig`).

mod text;

#[cfg(test)]
mod tests;

use crate::field::{ErrorList, Path};
use crate::kind::{Kinds, OptIn};
use crate::object::{self, list};
use crate::resource::Resource;
use crate::strategy::Features;
use crate::version::Minor;
use crate::{defaults, meta, strategy, validate};
use serde_json::Value;
use std::collections::BTreeMap;

const GROUP: &str = "admissionregistration.k8s.io";

/// The end of the names of static manifests.
pub const SUFFIX: &str = ".static.k8s.io";

/// The admission plugins that have static manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestPlugin {
    /// ValidatingAdmissionWebhook.
    ValidatingWebhooks,
    /// MutatingAdmissionWebhook.
    MutatingWebhooks,
    /// ValidatingAdmissionPolicy.
    ValidatingPolicies,
    /// MutatingAdmissionPolicy.
    MutatingPolicies,
}

impl ManifestPlugin {
    /// The four admission plugins that can read manifests.
    pub const ALL: [Self; 4] =
        [Self::ValidatingWebhooks, Self::MutatingWebhooks, Self::ValidatingPolicies, Self::MutatingPolicies];

    /// The plugin's name in flags, files and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ValidatingWebhooks => "ValidatingAdmissionWebhook",
            Self::MutatingWebhooks => "MutatingAdmissionWebhook",
            Self::ValidatingPolicies => "ValidatingAdmissionPolicy",
            Self::MutatingPolicies => "MutatingAdmissionPolicy",
        }
    }

    /// The kind of the plugin's configuration.
    #[must_use]
    pub fn configuration_kind(self) -> &'static str {
        match self {
            Self::ValidatingWebhooks | Self::MutatingWebhooks => "WebhookAdmissionConfiguration",
            Self::ValidatingPolicies => "ValidatingAdmissionPolicyConfiguration",
            Self::MutatingPolicies => "MutatingAdmissionPolicyConfiguration",
        }
    }

    /// Whether webhooks are in the manifests, and not policies.
    #[must_use]
    pub fn has_webhooks(self) -> bool {
        matches!(self, Self::ValidatingWebhooks | Self::MutatingWebhooks)
    }

    /// The kind of the webhook configurations or policies, and that of the bindings of policies.
    fn kinds(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::ValidatingWebhooks => ("ValidatingWebhookConfiguration", None),
            Self::MutatingWebhooks => ("MutatingWebhookConfiguration", None),
            Self::ValidatingPolicies => {
                ("ValidatingAdmissionPolicy", Some("ValidatingAdmissionPolicyBinding"))
            }
            Self::MutatingPolicies => ("MutatingAdmissionPolicy", Some("MutatingAdmissionPolicyBinding")),
        }
    }
}

/// A file of a folder of manifests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestFile {
    /// Its path, for error messages.
    pub path: String,
    /// Its content.
    pub text: String,
}

/// The objects of a plugin's manifests, with their defaults, sorted by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Manifests {
    /// Webhook configurations, or policies.
    pub configurations: Vec<Value>,
    /// Bindings of policies.
    pub bindings: Vec<Value>,
}

impl Manifests {
    /// Reads the objects of files for a plugin of a version of Kubernetes. Unknown and doubled members are errors, and the rules of the
    /// API hold. Besides, webhooks have URLs, policies no parameters, and bindings name policies of these files.
    ///
    /// # Errors
    /// The first problem, with its file.
    pub fn read(plugin: ManifestPlugin, minor: Minor, files: &[ManifestFile]) -> Result<Self, String> {
        let kinds = Kinds::new(OptIn::version(minor), &[], &[]);
        let mut reader =
            Reader { plugin, kinds, read: Self::default(), seen: [BTreeMap::new(), BTreeMap::new()] };
        for file in files {
            for document in text::documents(&file.text) {
                let added = text::parse(document)
                    .and_then(|parsed| reader.add(parsed.value.clone(), &parsed, &file.path));
                added.map_err(|why| format!("error loading {}: {why}", file.path))?;
            }
        }
        let mut read = reader.read;
        for binding in &read.bindings {
            let (name, policy) = (meta::name(binding), object::text(&binding["spec"]["policyName"]));
            if !read.configurations.iter().any(|own| meta::name(own) == policy) {
                return Err(format!(
                    "binding {name:?} references policy {policy:?} which does not exist in the manifest directory"
                ));
            }
        }
        read.configurations.sort_by(|a, b| meta::name(a).cmp(meta::name(b)));
        read.bindings.sort_by(|a, b| meta::name(a).cmp(meta::name(b)));
        Ok(read)
    }
}

/// What the files read so far have.
struct Reader {
    plugin: ManifestPlugin,
    kinds: Kinds,
    read: Manifests,
    /// The names of configurations and of bindings, each with its file.
    seen: [BTreeMap<String, String>; 2],
}

impl Reader {
    /// Adds an object, or the objects of a list.
    fn add(&mut self, value: Value, source: &text::Parsed<'_>, file: &str) -> Result<(), String> {
        let stated = |member: &str| object::text(&value[member]).to_owned();
        let (api_version, kind) = (stated("apiVersion"), stated("kind"));
        let kind = kind.as_str();
        let (first, second) = self.plugin.kinds();
        let own = format!("{GROUP}/v1");
        let is_own = api_version == own;
        let is_own_list =
            is_own && kind.strip_suffix("List").is_some_and(|of| of == first || Some(of) == second);
        if (api_version.as_str(), kind) == ("v1", "List") || is_own_list {
            let item_kind = kind.strip_suffix("List").unwrap_or_default().to_owned();
            for item in list(&value["items"]) {
                let mut item = item.clone();
                if is_own_list && item["kind"].is_null() {
                    (item["apiVersion"], item["kind"]) = (own.clone().into(), item_kind.clone().into());
                }
                self.add(item, &text::Parsed::unread(), file)?;
            }
            return Ok(());
        }
        let is_binding = Some(kind) == second;
        if !is_own || (kind != first && !is_binding) {
            let (group, version) = crate::group_version::split_api_version(&api_version);
            return Err(format!("unsupported resource type {group}/{version}, Kind={kind}"));
        }
        let row = self.kinds.lookup_kind(GROUP, "v1", kind);
        let row = row.filter(|row| row.is_served()).ok_or_else(|| format!("{kind} is not served"))?;
        let object = checked(row, value, source)?;
        self.check_name(&object, is_binding, file)?;
        match (self.plugin.has_webhooks(), is_binding) {
            (true, _) => check_webhooks(&object, file)?,
            (false, false) => check_policy(&object, kind)?,
            (false, true) => check_binding(&object)?,
        }
        if is_binding { &mut self.read.bindings } else { &mut self.read.configurations }.push(object);
        Ok(())
    }

    fn check_name(&mut self, object: &Value, is_binding: bool, file: &str) -> Result<(), String> {
        let name = meta::name(object);
        if name.is_empty() {
            return Err(format!("resource in file {file:?} must have a name"));
        }
        if !name.ends_with(SUFFIX) {
            return Err(format!("{name:?} in file {file:?} must have a name ending with {SUFFIX:?}"));
        }
        match self.seen[usize::from(is_binding)].insert(name.to_owned(), file.to_owned()) {
            None => Ok(()),
            Some(former) => {
                Err(format!("duplicate name {name:?} found in file {file:?} (previously seen in {former:?})"))
            }
        }
    }
}

/// Decodes an object strictly, sets its defaults and validates it, as a create does.
fn checked(row: &'static Resource, mut object: Value, source: &text::Parsed<'_>) -> Result<Value, String> {
    let ty = row.object_type().expect("a built-in kind has a type");
    let problems = source.decode(&mut object, ty)?;
    if !problems.is_empty() {
        return Err(format!("strict decoding error: {}", problems.join(", ")));
    }
    defaults::apply(row, &mut object);
    strategy::prepare_create(row, &mut object);
    let errors = validate::create(row, &object);
    if errors.is_empty() { Ok(object) } else { Err(errors.aggregate()) }
}

/// Webhooks have URLs: the network of Services may not be there at the start.
fn check_webhooks(configuration: &Value, file: &str) -> Result<(), String> {
    for hook in list(&configuration["webhooks"]) {
        let (client, own) = (&hook["clientConfig"], object::text(&hook["name"]));
        let at = format!("webhook {own:?} in {:?} (file {file:?})", meta::name(configuration));
        if !client["service"].is_null() {
            return Err(format!(
                "{at}: clientConfig.service is not supported for static manifests; use clientConfig.url instead"
            ));
        }
        if object::text(&client["url"]).is_empty() {
            return Err(format!("{at}: clientConfig.url is required for static manifests"));
        }
    }
    Ok(())
}

/// Policies depend on no object of the cluster.
fn check_policy(policy: &Value, kind: &str) -> Result<(), String> {
    if policy["spec"]["paramKind"].is_null() {
        return Ok(());
    }
    let name = meta::name(policy);
    Err(format!("{kind} {name:?}: spec.paramKind is not supported for static manifests"))
}

fn check_binding(binding: &Value) -> Result<(), String> {
    let (name, policy) = (meta::name(binding), object::text(&binding["spec"]["policyName"]));
    if policy.is_empty() {
        return Err(format!("binding {name:?} must reference a policy (spec.policyName)"));
    }
    if !policy.ends_with(SUFFIX) {
        return Err(format!("binding {name:?}: spec.policyName {policy:?} must end with {SUFFIX:?}"));
    }
    if !binding["spec"]["paramRef"].is_null() {
        return Err(format!("binding {name:?}: spec.paramRef is not supported for static manifests"));
    }
    Ok(())
}

/// Whether a new object has a name that only static manifests may have.
fn has_reserved_name(resource: &Resource, object: &Value) -> bool {
    let has_manifests = ManifestPlugin::ALL.into_iter().any(|plugin| {
        let (first, second) = plugin.kinds();
        resource.kind == first || Some(resource.kind) == second
    });
    has_manifests && resource.group == GROUP && meta::name(object).ends_with(SUFFIX)
}

/// The error of a new object with a name of static manifests, on a server that has them.
#[must_use]
pub fn refuse_name(resource: &Resource, object: &Value, features: Features) -> ErrorList {
    let mut errors = ErrorList::new();
    if features.static_manifests && has_reserved_name(resource, object) {
        let detail = format!(
            "names ending with {SUFFIX:?} are reserved for static manifest-based configurations and cannot be managed via the API"
        );
        errors.invalid(&Path::new("metadata").child("name"), meta::name(object), detail);
    }
    errors
}

/// The warning about a new object whose name a later server will refuse, since Kubernetes 1.36.
#[must_use]
pub fn warn_of_name(resource: &Resource, object: &Value, features: Features) -> Option<String> {
    let is_warned = resource.minor >= Minor::V36 && !features.static_manifests;
    (is_warned && has_reserved_name(resource, object)).then(|| {
        format!(
            "metadata.name: names ending with {SUFFIX:?} will be reserved for static manifest-based configurations when the \
             ManifestBasedAdmissionControlConfig feature gate is enabled"
        )
    })
}
