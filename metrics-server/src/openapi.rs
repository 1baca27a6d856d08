//! OpenAPI documents of the API group, for `kubectl explain` and client generators. Pure.

use crate::discovery::VERBS;
use crate::resource::{GROUP, Resource, VERSION};
use kstore_api::openapi::{DocumentScope, GroupVersion, ResourceDoc, StandaloneDocs, gnostic};
use kstore_api::version::Minor;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

/// Prefix of the models' names.
const PACKAGE: &str = "io.k8s.metrics.pkg.apis.metrics.v1beta1";
const DURATION: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Duration";
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";

/// An OpenAPI document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    /// `/openapi/v2`.
    V2,
    /// `/openapi/v3`, the index.
    Index,
    /// `/openapi/v3/apis/metrics.k8s.io/v1beta1`.
    V3,
}

static INDEX: LazyLock<Value> = LazyLock::new(|| described().index());
static V2: LazyLock<Value> = LazyLock::new(|| described().v2());
static V3: LazyLock<Value> = LazyLock::new(|| described().v3());

impl Document {
    /// Media type of the document in protobuf; `None` if it has no such form.
    pub(crate) fn protobuf(self) -> Option<&'static str> {
        match self {
            Self::V2 => Some(gnostic::V2_MEDIA),
            Self::V3 => Some(gnostic::V3_MEDIA),
            Self::Index => None,
        }
    }

    /// The document, which is made once.
    pub(crate) fn value(self) -> &'static Value {
        match self {
            Self::V2 => &V2,
            Self::Index => &INDEX,
            Self::V3 => &V3,
        }
    }

    /// The document in protobuf.
    pub(crate) fn encoded(self) -> Vec<u8> {
        match self {
            Self::V2 => gnostic::v2(self.value()),
            Self::Index | Self::V3 => gnostic::v3(self.value()),
        }
    }
}

fn described() -> StandaloneDocs {
    let resources = Resource::ALL.map(|resource| ResourceDoc {
        plural: resource.plural().to_owned(),
        kind: resource.kind().to_owned(),
        schema_name: format!("{PACKAGE}.{}", resource.kind()),
        list_schema_name: format!("{PACKAGE}.{}List", resource.kind()),
        namespaced: resource.is_namespaced(),
        verbs: VERBS.map(str::to_owned).into(),
        returns_deleted: false,
        subresources: Vec::new(),
        is_custom: false,
        minor: Minor::DEFAULT,
    });
    let gv = GroupVersion { group: GROUP.to_owned(), version: VERSION.to_owned() };
    StandaloneDocs { scope: DocumentScope::Resources(gv, resources.into()), models: models() }
}

fn models() -> Map<String, Value> {
    let duration = json!({"type": "string", "description": "A duration as text, such as `1m30s`."});
    let containers = json!({"type": "array", "x-kubernetes-list-type": "atomic",
        "description": "Usage of each running container, over the same time.",
        "items": {"allOf": [reference(&format!("{PACKAGE}.ContainerMetrics"))], "default": {}}});
    let container = json!({"type": "object", "description": "Resource usage of a container.",
    "required": ["name", "usage"],
    "properties": {
        "name": {"type": "string", "default": "", "description": "Name of the container, as in the pod."},
        "usage": usage(),
    }});
    [
        (format!("{PACKAGE}.NodeMetrics"), object(Resource::Nodes, "a node", ("usage", usage()))),
        (format!("{PACKAGE}.PodMetrics"), object(Resource::Pods, "a pod", ("containers", containers))),
        (format!("{PACKAGE}.ContainerMetrics"), container),
        (DURATION.to_owned(), duration),
    ]
    .into_iter()
    .collect()
}

/// The model of a kind, with one member besides those that both kinds have.
fn object(resource: Resource, of: &str, (name, member): (&str, Value)) -> Value {
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
        "x-kubernetes-group-version-kind": [{"group": GROUP, "version": VERSION, "kind": resource.kind()}],
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

    #[test]
    fn documents_have_every_model_and_parameter_that_they_refer_to() {
        for document in [Document::V2, Document::V3] {
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
        let list = "/apis/metrics.k8s.io/v1beta1/nodes";
        let one = "/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods/{name}";
        for (document, models) in [(Document::V2, "/definitions"), (Document::V3, "/components/schemas")] {
            let value = document.value();
            for (path, action) in [(list, "list"), (one, "get")] {
                let item = value["paths"][path].as_object().unwrap();
                assert_eq!(item["get"]["x-kubernetes-action"], action, "{document:?} {path}");
                let writes = ["post", "put", "patch", "delete"];
                assert!(writes.iter().all(|method| !item.contains_key(*method)), "{document:?} {path}");
            }
            let models = value.pointer(models).unwrap();
            for kind in ["NodeMetrics", "PodMetrics", "NodeMetricsList", "PodMetricsList"] {
                let gvk = &models[format!("{PACKAGE}.{kind}")]["x-kubernetes-group-version-kind"][0];
                assert_eq!(*gvk, json!({"group": GROUP, "version": VERSION, "kind": kind}), "{document:?}");
            }
            assert!(!document.encoded().is_empty());
        }
        let entry = &Document::Index.value()["paths"]["apis/metrics.k8s.io/v1beta1"]["serverRelativeURL"];
        let prefix = "/openapi/v3/apis/metrics.k8s.io/v1beta1?hash=";
        assert!(entry.as_str().unwrap().starts_with(prefix), "{entry}");
    }
}
