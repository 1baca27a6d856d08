//! OpenAPI of custom kinds: models and paths for one version of a definition, in v3 and v2.

mod model;
mod v2;

use super::{GroupVersion, Parameters, ResourceDoc, SubresourceDoc, paths_of};
use crate::crd::discovery::{SUBRESOURCE_VERBS, VERBS};
use crate::crd::{Definition, Version};
use crate::group_version::model_name;
use crate::object::list;
use crate::version::Minor;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// Contribution of a definition to an OpenAPI document: members to be merged into `components.schemas` (v3)
/// or `definitions` (v2), into `paths`, and for v2 into `parameters`. It refers to models `io.k8s.…` without
/// containing them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fragment {
    /// Models by name.
    pub schemas: Map<String, Value>,
    /// Path items by path.
    pub paths: Map<String, Value>,
    /// Shared parameters by name; v3 has none.
    pub parameters: Map<String, Value>,
}

impl Fragment {
    /// Names of the built-in models that the fragment refers to, sorted.
    #[must_use]
    pub fn references(&self) -> BTreeSet<&str> {
        let mut found = BTreeSet::new();
        let mut open: Vec<&Value> =
            self.schemas.values().chain(self.paths.values()).chain(self.parameters.values()).collect();
        while let Some(value) = open.pop() {
            match value {
                Value::Array(items) => open.extend(items),
                Value::Object(members) => {
                    let target = members.get("$ref").and_then(Value::as_str);
                    let name = target.and_then(|target| target.rsplit('/').next());
                    found.extend(name.filter(|name| name.starts_with("io.k8s.")));
                    open.extend(members.values());
                }
                _ => {}
            }
        }
        found
    }
}

/// OpenAPI version of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    V2,
    V3,
}

/// Fragment of `/openapi/v3/apis/<group>/<version>` for one definition; `crd` is its stored object. Empty if
/// the version does not exist.
#[must_use]
pub fn v3(definition: &Definition, crd: &Value, version: &str) -> Fragment {
    fragment(definition, crd, version, Form::V3)
}

/// Fragment of `/openapi/v2` for one version of a definition; `crd` is its stored object. Empty if the
/// version does not exist.
#[must_use]
pub fn v2(definition: &Definition, crd: &Value, version: &str) -> Fragment {
    fragment(definition, crd, version, Form::V2)
}

/// Text that is equal exactly if the fragments of a version are equal. `None` if the version does not exist.
#[must_use]
pub fn facts(definition: &Definition, version: &str) -> Option<String> {
    let own = definition.version(version)?;
    let names = &definition.names;
    let labels: Vec<&str> = own.selectable.iter().map(|field| field.label.as_str()).collect();
    let names = [&definition.group, &own.name, &names.plural, &names.kind, &names.list_kind];
    let flags = (definition.namespaced, own.has_status, own.scale.is_some());
    Some(format!("{names:?} {flags:?} {labels:?} {:?}", own.schema_hash))
}

fn fragment(definition: &Definition, crd: &Value, version: &str, form: Form) -> Fragment {
    let Some(own) = definition.version(version) else { return Fragment::default() };
    let versions = list(&crd["spec"]["versions"]);
    let stored = versions.iter().find(|stored| stored["name"] == version).unwrap_or(&Value::Null);
    let names = &definition.names;
    let model = model_name(&definition.group, version, &names.kind);
    let list_model = model_name(&definition.group, version, &names.list_kind);
    let mut fragment = Fragment::default();
    let keeps_unknown = crd["spec"]["preserveUnknownFields"] == true;
    let about = model::ModelInputs { definition, version: own, form };
    fragment.schemas.insert(model.clone(), about.kind(&stored["schema"]["openAPIV3Schema"], keeps_unknown));
    fragment.schemas.insert(list_model.clone(), about.list(&model));
    let gv = GroupVersion { group: definition.group.to_string(), version: version.to_owned() };
    let resource = [resource(definition, own, &model, &list_model)];
    match form {
        Form::V3 => fragment.paths = paths_of(&gv, &resource),
        Form::V2 => {
            let mut parameters = Parameters::default();
            fragment.paths = parameters.paths_of(&gv, &resource);
            fragment.parameters = parameters.shared;
        }
    }
    fragment
}

/// The resource in the form from which `crate::openapi` makes paths; that module has no models of custom
/// kinds.
fn resource(definition: &Definition, version: &Version, model: &str, list_model: &str) -> ResourceDoc {
    let owned = |verbs: &[&str]| verbs.iter().map(|verb| (*verb).to_owned()).collect::<Vec<String>>();
    let gv = [definition.group.to_string(), version.name.to_string(), definition.names.kind.to_string()];
    let [group, name, kind] = gv;
    let status = version.has_status.then(|| SubresourceDoc {
        name: "status".to_owned(),
        body: (group, name, kind.clone()),
        schema_name: Some(model.to_owned()),
        verbs: owned(SUBRESOURCE_VERBS),
    });
    let scale = version.scale.is_some().then(|| SubresourceDoc {
        name: "scale".to_owned(),
        body: ("autoscaling".to_owned(), "v1".to_owned(), "Scale".to_owned()),
        schema_name: Some(SCALE.to_owned()),
        verbs: owned(SUBRESOURCE_VERBS),
    });
    ResourceDoc {
        plural: definition.names.plural.to_string(),
        kind,
        schema_name: model.to_owned(),
        list_schema_name: list_model.to_owned(),
        namespaced: definition.namespaced,
        // Documents of custom kinds have no watch operations.
        verbs: owned(VERBS).into_iter().filter(|verb| verb != "watch").collect(),
        returns_deleted: false,
        subresources: status.into_iter().chain(scale).collect(),
        is_custom: true,
        minor: Minor::DEFAULT,
    }
}
