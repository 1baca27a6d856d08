//! Definitions in Kubernetes' internal form, which validation errors refer to: members that are equal in all
//! versions move into the spec.

use crate::object::{list, text};
use serde_json::Value;
use std::collections::BTreeMap;

/// Definition in Kubernetes' internal form. Each member moves to the spec either for all versions or for
/// none.
pub(super) struct Internal<'a> {
    pub(super) spec: &'a Value,
    pub(super) versions: Vec<InternalVersion<'a>>,
    /// Value of `spec.validation`: the common `schema` of all versions.
    pub(super) validation: Option<&'a Value>,
    pub(super) subresources: Option<&'a Value>,
    pub(super) columns: &'a [Value],
    pub(super) selectable: &'a [Value],
    /// Subresources of the versions that differ in them.
    own_subresources: BTreeMap<&'a str, &'a Value>,
}

/// Version with the members that did not move to the spec.
pub(super) struct InternalVersion<'a> {
    pub(super) value: &'a Value,
    pub(super) schema: Option<&'a Value>,
    pub(super) subresources: Option<&'a Value>,
    pub(super) columns: &'a [Value],
    pub(super) selectable: &'a [Value],
}

impl<'a> Internal<'a> {
    pub(super) fn of(crd: &'a Value) -> Self {
        let spec = &crd["spec"];
        let all = list(&spec["versions"]);
        let present = |value: &'a Value| (!value.is_null()).then_some(value);
        let version = |value: &'a Value| InternalVersion {
            value,
            schema: present(&value["schema"]),
            subresources: present(&value["subresources"]),
            columns: list(&value["additionalPrinterColumns"]),
            selectable: list(&value["selectableFields"]),
        };
        let mut own = Internal {
            spec,
            versions: all.iter().map(version).collect(),
            validation: None,
            subresources: None,
            columns: &[],
            selectable: &[],
            own_subresources: BTreeMap::new(),
        };
        own.move_up();
        // Of versions with the same name the first counts.
        for version in own.versions.iter().rev() {
            if let Some(subresources) = version.subresources {
                own.own_subresources.insert(text(&version.value["name"]), subresources);
            } else {
                own.own_subresources.remove(text(&version.value["name"]));
            }
        }
        own
    }

    fn move_up(&mut self) {
        let versions = &mut self.versions;
        if let Some(schema) = shared(versions, |version| version.schema) {
            self.validation = schema;
            versions.iter_mut().for_each(|version| version.schema = None);
        }
        if let Some(subresources) = shared(versions, |version| version.subresources) {
            self.subresources = subresources;
            versions.iter_mut().for_each(|version| version.subresources = None);
        }
        if let Some(columns) = shared(versions, |version| version.columns) {
            self.columns = columns;
            versions.iter_mut().for_each(|version| version.columns = &[]);
        }
        if let Some(selectable) = shared(versions, |version| version.selectable) {
            self.selectable = selectable;
            versions.iter_mut().for_each(|version| version.selectable = &[]);
        }
    }

    /// Subresources of a version, from the version or the spec.
    pub(super) fn subresources_of(&self, name: &Value) -> Option<&'a Value> {
        // Subresources are either in the versions or in the spec.
        self.subresources.or_else(|| self.own_subresources.get(text(name)).copied())
    }

    /// Whether any version has a status subresource.
    pub(super) fn any_status(&self) -> bool {
        let own = self.versions.iter().map(|version| version.subresources);
        own.chain([self.subresources]).any(has_status)
    }

    /// All schemas, those of single versions first.
    pub(super) fn schemas(&self) -> impl Iterator<Item = &'a Value> {
        let own = self.versions.iter().filter_map(|version| version.schema);
        let schemas: Vec<&Value> = own.chain(self.validation).collect();
        schemas.into_iter().map(|schema| &schema["openAPIV3Schema"]).filter(|schema| schema.is_object())
    }
}

/// The common value of all versions, if they are equal.
fn shared<'a, T: PartialEq>(
    versions: &[InternalVersion<'a>],
    member: impl Fn(&InternalVersion<'a>) -> T,
) -> Option<T> {
    let first = member(versions.first()?);
    versions.iter().all(|version| member(version) == first).then_some(first)
}

/// Whether subresources include `status`.
pub(super) fn has_status(subresources: Option<&Value>) -> bool {
    subresources.is_some_and(|subresources| !subresources["status"].is_null())
}
