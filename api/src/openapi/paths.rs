//! The paths of a document: collections, objects and what lies below objects.

use serde_json::{Map, Value, json};

use super::operation::{Operation, Scope};
use super::{GroupVersion, ResourceDoc, SubresourceDoc, parameters};

/// HTTP method, the API's word for the action, and the verb that must be served.
type Action = (&'static str, &'static str, &'static str);

const COLLECTION: &[Action] = &[
    ("get", "list", "list"),
    ("post", "post", "create"),
    ("delete", "deletecollection", "deletecollection"),
];
const OBJECT: &[Action] = &[
    ("get", "get", "get"),
    ("put", "put", "update"),
    ("patch", "patch", "patch"),
    ("delete", "delete", "delete"),
];
const BELOW: &[Action] = &[
    ("get", "get", "get"),
    ("post", "post", "create"),
    ("put", "put", "update"),
    ("patch", "patch", "patch"),
    ("delete", "delete", "delete"),
];

/// All paths of the group and version.
pub(super) fn paths(gv: &GroupVersion, resources: &[ResourceDoc]) -> Map<String, Value> {
    let mut out = Map::new();
    for resource in resources {
        let root = format!("/{}", gv.path());
        let plural = &resource.plural;
        let (collection, scope) = if resource.namespaced {
            (format!("{root}/namespaces/{{namespace}}/{plural}"), Scope::Namespaced)
        } else {
            (format!("{root}/{plural}"), Scope::Cluster)
        };
        if resource.namespaced {
            let everywhere = (format!("{root}/{plural}"), Scope::AllNamespaces);
            add(&mut out, gv, resource, everywhere, &COLLECTION[..1]);
        }
        let object = format!("{collection}/{{name}}");
        add(&mut out, gv, resource, (collection, scope), COLLECTION);
        add(&mut out, gv, resource, (object.clone(), scope), OBJECT);
        for sub in &resource.subresources {
            below(&mut out, gv, resource, sub, (format!("{object}/{}", sub.name), scope));
        }
    }
    out
}

fn add(
    out: &mut Map<String, Value>,
    gv: &GroupVersion,
    resource: &ResourceDoc,
    (path, scope): (String, Scope),
    actions: &[Action],
) {
    let served = actions.iter().filter(|(_, _, verb)| resource.verbs.iter().any(|v| v == verb));
    let operations = served.map(|(method, action, _)| (*method, Operation::on(gv, resource, scope, action)));
    insert(out, path, operations.collect());
}

fn below(
    out: &mut Map<String, Value>,
    gv: &GroupVersion,
    resource: &ResourceDoc,
    sub: &SubresourceDoc,
    (path, scope): (String, Scope),
) {
    let served = BELOW.iter().filter(|(_, _, verb)| sub.verbs.iter().any(|v| v == verb));
    let operations =
        served.map(|(method, action, _)| (*method, Operation::below(gv, resource, sub, scope, action)));
    insert(out, path, operations.collect());
}

fn insert(out: &mut Map<String, Value>, path: String, operations: Vec<(&'static str, Operation<'_>)>) {
    if operations.is_empty() {
        return;
    }
    let mut item = Map::new();
    item.insert("parameters".to_owned(), json!(parameters::of_path(&path)));
    item.extend(operations.into_iter().map(|(method, operation)| (method.to_owned(), operation.to_json())));
    out.insert(path, Value::Object(item));
}
