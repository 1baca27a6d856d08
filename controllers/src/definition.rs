//! [`CustomKind`]: how to address the objects of a CustomResourceDefinition. Schema and rules are the
//! server's concern.

use crate::resource::Resource;
use kstore_api::lenient;
use serde::Deserialize;
use serde_json::Value;

/// The kind of an established CustomResourceDefinition, in a served version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CustomKind {
    /// The kind as in owner references.
    pub kind: String,
    /// The resource in its storage version, or in the first served version if the storage version is not
    /// served.
    pub resource: Resource,
    /// Whether the objects are namespaced.
    pub namespaced: bool,
}

#[derive(Deserialize)]
struct Definition {
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    group: String,
    scope: String,
    names: Names,
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Names {
    plural: String,
    kind: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Version {
    name: String,
    served: bool,
    storage: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl CustomKind {
    /// The kind of a definition in JSON; `None` if it is not established, serves no version, or cannot be
    /// decoded.
    pub(crate) fn from_slice(json: &[u8]) -> Option<Self> {
        Self::of(lenient::from_slice(json).ok()?)
    }

    /// Like [`CustomKind::from_slice`], from a JSON value.
    pub(crate) fn from_value(value: &Value) -> Option<Self> {
        Self::of(lenient::from_value(value).ok()?)
    }

    fn of(Definition { spec, status }: Definition) -> Option<Self> {
        let established = |one: &Condition| one.kind == "Established" && one.status == "True";
        if !status.conditions.iter().any(established) || spec.names.plural.is_empty() {
            return None;
        }
        let mut served = spec.versions.into_iter().filter(|version| version.served).collect::<Vec<_>>();
        let at = served.iter().position(|version| version.storage).unwrap_or_default();
        let version = (at < served.len()).then(|| served.swap_remove(at))?;
        Some(Self {
            kind: spec.names.kind,
            resource: Resource::named(spec.group, version.name, spec.names.plural),
            namespaced: spec.scope == "Namespaced",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn definition() -> Value {
        let version = |name: &str, served: bool, storage: bool| json!({"name": name, "served": served, "storage": storage});
        json!({"spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "lamps", "kind": "Lamp", "shortNames": null},
            "versions": [version("v1alpha1", false, false), version("v1beta1", true, false), version("v1", true, true)]},
            "status": {"conditions": [{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}]}})
    }

    #[test]
    fn custom_kinds_use_their_storage_version_if_served() {
        let version = |value: &Value| CustomKind::from_value(value).map(|kind| kind.resource.version);
        let mut value = definition();
        assert_eq!(version(&value).as_deref(), Some("v1"));
        let kind = CustomKind::from_slice(value.to_string().as_bytes()).unwrap();
        assert_eq!((kind.kind.as_str(), &*kind.resource.plural, kind.namespaced), ("Lamp", "lamps", true));
        value["spec"]["versions"][2]["served"] = json!(false);
        assert_eq!(version(&value).as_deref(), Some("v1beta1"), "the storage version is not served");
        value["spec"]["versions"][1]["served"] = json!(false);
        assert_eq!(version(&value), None, "no version is served");
        let mut waiting = definition();
        waiting["status"]["conditions"][1]["status"] = json!("False");
        assert_eq!(version(&waiting), None, "the definition is not established");
        assert_eq!(version(&json!({"spec": {"versions": 3}})), None, "a foreign object");
    }
}
