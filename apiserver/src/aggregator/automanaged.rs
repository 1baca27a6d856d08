//! The automanaged APIServices of custom groups: the writes after which there is exactly one for each served group and version. Pure.
//! `bootstrap` creates those of built-in groups at the start.

use kstore_api::crd::discovery;
use kstore_api::object::text;
use kstore_api::resource::Resource;
use kstore_api::{kind, meta};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The label of automanaged APIServices.
const LABEL: &str = "kube-aggregator.kubernetes.io/automanaged";

/// One write to an APIService.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    /// Create this object.
    Create(Value),
    /// Apply this merge patch to the object of this name.
    Patch(Arc<str>, Value),
    /// Delete the object of this name if it has this UID.
    Delete(Arc<str>, String),
}

/// Whether an APIService is automanaged.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ownership {
    /// A user or `bootstrap` created it; it is never changed here.
    Manual,
    /// It follows the served kinds: its UID, and the merge patch that restores its spec, if that differs.
    Automanaged(String, Option<Value>),
}

impl Ownership {
    pub(super) fn of(object: &Value) -> Self {
        if meta::label(object, LABEL) != Some("true") {
            return Self::Manual;
        }
        let spec = &object["spec"];
        let wanted = &discovery::api_service(text(&spec["group"]), text(&spec["version"]))["spec"];
        let patch = (wanted != spec).then(|| {
            let mut patch = wanted.clone();
            let unwanted = spec.as_object().into_iter().flatten().filter(|(name, _)| wanted[name].is_null());
            unwanted.for_each(|(name, _)| patch[name] = Value::Null);
            json!({ "spec": patch })
        });
        Self::Automanaged(meta::uid(object).to_owned(), patch)
    }
}

/// The writes that bring the stored APIServices (keyed by name) in line with the served kinds. A manually created object is never
/// changed: it takes precedence for its group and version.
pub(super) fn plan(kinds: &kind::Kinds, stored: &BTreeMap<Arc<str>, Ownership>) -> Vec<Change> {
    let is_built_in =
        |row: &Resource| kinds.built_in_versions(row.group).any(|version| version == row.version);
    let custom = kinds.custom().chunk_by(|a, b| (a.group, a.version) == (b.group, b.version));
    let custom = custom.map(|rows| rows[0]).filter(|row| !is_built_in(row));
    let served: BTreeMap<String, &Resource> =
        custom.map(|row| (format!("{}.{}", row.version, row.group), row)).collect();
    let mut changes = Vec::new();
    for (name, ownership) in stored {
        match ownership {
            Ownership::Automanaged(uid, _) if !served.contains_key(&**name) => {
                changes.push(Change::Delete(name.clone(), uid.clone()));
            }
            Ownership::Automanaged(_, Some(patch)) => {
                changes.push(Change::Patch(name.clone(), patch.clone()));
            }
            Ownership::Automanaged(_, None) | Ownership::Manual => {}
        }
    }
    let missing = served.iter().filter(|(name, _)| !stored.contains_key(name.as_str()));
    let made = |row: &Resource| Change::Create(discovery::api_service(row.group, row.version));
    changes.extend(missing.map(|(_, row)| made(row)));
    changes
}

#[cfg(test)]
mod tests {
    use super::super::services::tests::object;
    use super::*;
    use kstore_api::kind::CustomRow;
    use kstore_api::version::Minor;

    fn kinds() -> kind::Kinds {
        let row = CustomRow {
            group: "example.com".into(),
            version: "v1".into(),
            plural: "widgets".into(),
            singular: "widget".into(),
            kind: "Widget".into(),
            list_kind: "WidgetList".into(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: true,
            has_status: false,
            has_scale: false,
            fields: Vec::new(),
            selectable: Vec::new(),
            minor: Minor::DEFAULT,
        };
        {
            let rows = CustomRow::rows(&[row], 0).unwrap();
            kind::Kinds::new(kind::OptIn::default(), &rows, &rows)
        }
    }

    fn stored(objects: &[Value]) -> BTreeMap<Arc<str>, Ownership> {
        objects.iter().map(|object| (meta::name(object).into(), Ownership::of(object))).collect()
    }

    fn automanaged(version: (&str, &str), service: Option<&str>) -> Value {
        let mut object = object(version, (1000, 100), service);
        object["metadata"]["labels"] = json!({ LABEL: "true" });
        object
    }

    #[test]
    fn served_versions_of_custom_groups_have_one_apiservice_each() {
        let made = plan(&kinds(), &stored(&[]));
        assert_eq!(made, [Change::Create(discovery::api_service("example.com", "v1"))]);
        let right = automanaged(("example.com", "v1"), None);
        assert_eq!(plan(&kinds(), &stored(std::slice::from_ref(&right))), []);
        let gone = automanaged(("gone.example.com", "v1"), None);
        let removed = plan(&kinds(), &stored(&[right, gone]));
        assert_eq!(removed, [Change::Delete("v1.gone.example.com".into(), "u".into())]);
    }

    #[test]
    fn changed_automanaged_apiservices_are_restored_and_manual_ones_kept() {
        let redirected = automanaged(("example.com", "v1"), Some("ns/s"));
        let spec = json!({
            "group": "example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 100,
            "service": null, "insecureSkipTLSVerify": null,
        });
        let restored = Change::Patch("v1.example.com".into(), json!({ "spec": spec }));
        assert_eq!(plan(&kinds(), &stored(&[redirected])), [restored]);
        let manual = object(("example.com", "v1"), (1, 1), Some("ns/s"));
        assert_eq!(plan(&kinds(), &stored(&[manual])), []);
    }
}
