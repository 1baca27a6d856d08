//! OpenAPI documents of the API group, for `kubectl explain` and client generators. Pure.

use crate::discovery::VERBS;
use crate::resource::{GROUP, Resource, STABLE, VERSION};
use kstore_api::openapi::{DocumentScope, GroupVersion, ResourceDoc, StandaloneDocs, gnostic};
use kstore_api::version::Minor;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

const DURATION: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Duration";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";

/// An OpenAPI document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    /// `/openapi/v2`, of these versions.
    V2(&'static [&'static str]),
    /// `/openapi/v3`, the index of these versions.
    Index(&'static [&'static str]),
    /// `/openapi/v3/apis/metrics.k8s.io/v1beta1`, or another version.
    V3(&'static str),
}

/// The documents of a server with one version, and of one with both.
static ALONE: LazyLock<Documents> = LazyLock::new(|| Documents::of(&[VERSION]));
static BOTH: LazyLock<Documents> = LazyLock::new(|| Documents::of(&[STABLE, VERSION]));

/// The documents of a server, made once.
struct Documents {
    v2: Value,
    index: Value,
    v3: Map<String, Value>,
}

impl Documents {
    fn of(versions: &[&str]) -> Self {
        let described: Vec<_> = versions.iter().map(|version| described(version)).collect();
        Self {
            v2: merged(described.iter().map(StandaloneDocs::v2)),
            index: merged(described.iter().map(StandaloneDocs::index)),
            v3: versions
                .iter()
                .zip(&described)
                .map(|(version, docs)| ((*version).to_owned(), docs.v3()))
                .collect(),
        }
    }

    fn with(versions: &[&str]) -> &'static Self {
        if versions.len() > 1 { &BOTH } else { &ALONE }
    }
}

/// One document with the paths and models of all.
fn merged(mut documents: impl Iterator<Item = Value>) -> Value {
    let mut merged = documents.next().unwrap_or_default();
    for mut document in documents {
        for member in ["paths", "definitions", "parameters"] {
            let (Some(all), Some(more)) = (merged[member].as_object_mut(), document[member].as_object_mut())
            else {
                continue;
            };
            all.append(more);
        }
    }
    merged
}

impl Document {
    /// Media type of the document in protobuf; `None` if it has no such form.
    pub(crate) fn protobuf(self) -> Option<&'static str> {
        match self {
            Self::V2(_) => Some(gnostic::V2_MEDIA),
            Self::V3(_) => Some(gnostic::V3_MEDIA),
            Self::Index(_) => None,
        }
    }

    /// The document, which is made once.
    pub(crate) fn value(self) -> &'static Value {
        match self {
            Self::V2(versions) => &Documents::with(versions).v2,
            Self::Index(versions) => &Documents::with(versions).index,
            Self::V3(version) => &BOTH.v3[version],
        }
    }

    /// The document in protobuf.
    pub(crate) fn encoded(self) -> Vec<u8> {
        match self {
            Self::V2(_) => gnostic::v2(self.value()),
            Self::Index(_) | Self::V3(_) => gnostic::v3(self.value()),
        }
    }
}

/// Prefix of the names of a version's models.
fn package(version: &str) -> String {
    format!("io.k8s.metrics.pkg.apis.metrics.{version}")
}

fn described(version: &str) -> StandaloneDocs {
    let package = package(version);
    let resources = Resource::ALL.map(|resource| ResourceDoc {
        plural: resource.plural().to_owned(),
        kind: resource.kind().to_owned(),
        schema_name: format!("{package}.{}", resource.kind()),
        list_schema_name: format!("{package}.{}List", resource.kind()),
        namespaced: resource.is_namespaced(),
        verbs: VERBS.map(str::to_owned).into(),
        returns_deleted: false,
        subresources: Vec::new(),
        is_custom: false,
        minor: Minor::DEFAULT,
    });
    let gv = GroupVersion { group: GROUP.to_owned(), version: version.to_owned() };
    StandaloneDocs { scope: DocumentScope::Resources(gv, resources.into()), models: models(version) }
}

fn models(version: &str) -> Map<String, Value> {
    let package = package(version);
    let duration = json!({"type": "string", "description": "A duration as text, such as `1m30s`."});
    let containers = json!({"type": "array", "x-kubernetes-list-type": "atomic",
        "description": "Usage of each running container, over the same time.",
        "items": {"allOf": [reference(&format!("{package}.ContainerMetrics"))], "default": {}}});
    let container = json!({"type": "object", "description": "Resource usage of a container.",
    "required": ["name", "usage"],
    "properties": {
        "name": {"type": "string", "default": "", "description": "Name of the container, as in the pod."},
        "usage": usage(),
    }});
    [
        (format!("{package}.NodeMetrics"), object(version, Resource::Nodes, "a node", ("usage", usage()))),
        (
            format!("{package}.PodMetrics"),
            object(version, Resource::Pods, "a pod", ("containers", containers)),
        ),
        (format!("{package}.ContainerMetrics"), container),
        (DURATION.to_owned(), duration),
    ]
    .into_iter()
    .collect()
}

/// The model of a kind, with one member besides those that both kinds have.
fn object(version: &str, resource: Resource, of: &str, (name, member): (&str, Value)) -> Value {
    let meta =
        json!({"allOf": [reference(OBJECT_META)], "default": {}, "description": "Metadata of the object."});
    let time =
        json!({"allOf": [reference(TIME)], "description": "End of the time over which usage was measured."});
    let window = json!({"allOf": [reference(DURATION)], "description": "Length of that time."});
    json!({
        "type": "object",
        "description": format!("{} has the resource usage of {of}.", resource.kind()),
        "required": ["timestamp", "window", name],
        "properties": {
            "apiVersion": {"type": "string", "description": "Group and version of this object."},
            "kind": {"type": "string", "description": "Kind of this object."},
            "metadata": meta,
            "timestamp": time,
            "window": window,
            name: member,
        },
        "x-kubernetes-group-version-kind": [{"group": GROUP, "version": version, "kind": resource.kind()}],
    })
}

fn usage() -> Value {
    json!({"type": "object", "description": "Processors (`cpu`) and memory in use; memory is the working set.",
        "additionalProperties": reference(QUANTITY)})
}

fn reference(model: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{model}")})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of all `$ref` members.
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
                members.values().for_each(|member| references(member, found));
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            _ => {}
        }
    }

    const VERSIONS: &[&str] = &[STABLE, VERSION];

    #[test]
    fn documents_have_every_model_and_parameter_that_they_refer_to() {
        let both =
            [Document::V2(VERSIONS), Document::V2(&[VERSION]), Document::V3(STABLE), Document::V3(VERSION)];
        for document in both {
            let mut found = Vec::new();
            references(document.value(), &mut found);
            assert!(found.len() > 10, "{document:?}");
            for reference in found {
                let target = reference.strip_prefix('#').unwrap();
                assert!(document.value().pointer(target).is_some(), "{document:?}: {reference}");
            }
        }
    }

    #[test]
    fn documents_describe_both_kinds_with_their_read_operations() {
        for version in VERSIONS {
            let path = format!("/apis/metrics.k8s.io/{version}");
            let (list, one) =
                (format!("{path}/nodes"), format!("{path}/namespaces/{{namespace}}/pods/{{name}}"));
            let documents =
                [(Document::V2(VERSIONS), "/definitions"), (Document::V3(version), "/components/schemas")];
            for (document, models) in documents {
                let value = document.value();
                for (path, action) in [(&list, "list"), (&one, "get")] {
                    let item = value["paths"][path].as_object().unwrap();
                    assert_eq!(item["get"]["x-kubernetes-action"], action, "{document:?} {path}");
                    let writes = ["post", "put", "patch", "delete"];
                    assert!(writes.iter().all(|method| !item.contains_key(*method)), "{document:?} {path}");
                }
                let models = value.pointer(models).unwrap();
                for kind in ["NodeMetrics", "PodMetrics", "NodeMetricsList", "PodMetricsList"] {
                    let model = &models[format!("{}.{kind}", package(version))];
                    let gvk = &model["x-kubernetes-group-version-kind"][0];
                    assert_eq!(
                        *gvk,
                        json!({"group": GROUP, "version": version, "kind": kind}),
                        "{document:?}"
                    );
                }
                assert!(!document.encoded().is_empty());
            }
            let index = Document::Index(VERSIONS).value();
            let entry = &index["paths"][format!("apis/metrics.k8s.io/{version}")]["serverRelativeURL"];
            let prefix = format!("/openapi/v3{path}?hash=");
            assert!(entry.as_str().unwrap().starts_with(&prefix), "{entry}");
        }
        let alone = Document::Index(&[VERSION]).value()["paths"].as_object().unwrap();
        assert_eq!(alone.len(), 1);
        assert!(Document::V2(&[VERSION]).value()["paths"]["/apis/metrics.k8s.io/v1/nodes"].is_null());
    }
}
