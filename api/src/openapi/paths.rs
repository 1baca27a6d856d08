//! OpenAPI paths of a group and version: collections, objects, subresources, and the deprecated watch paths.

use super::form::Form;
use super::operation::{Operation, Scope};
use super::parameters::{self, Parameter};
use super::{GroupVersion, ResourceDoc, SubresourceDoc, groups};
use serde_json::{Map, Value, json};

/// HTTP method, Kubernetes' action, and the verb that the resource must support.
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
/// Further methods of a proxy, which forwards every method.
const PROXY: &[Action] = &[("head", "head", "get"), ("options", "options", "get")];
const WATCH: &[Action] = &[("get", "watch", "watch")];
const WATCH_LIST: &[Action] = &[("get", "watchlist", "watch")];

/// All paths of these resources. Includes the path of the group and version if one of them is built-in, since
/// the fragment of a custom definition does not have it.
pub(super) fn paths(gv: &GroupVersion, resources: &[ResourceDoc], form: &mut dyn Form) -> Map<String, Value> {
    let root = format!("/{}", gv.path());
    let is_built_in = resources.iter().any(|resource| !resource.is_custom);
    let out = if is_built_in { groups::version_of_group(gv).paths(form) } else { Map::new() };
    let mut paths = Paths { gv, form, out };
    for resource in resources {
        paths.resource(&root, resource);
    }
    paths.out
}

struct Paths<'a> {
    gv: &'a GroupVersion,
    form: &'a mut dyn Form,
    out: Map<String, Value>,
}

impl<'a> Paths<'a> {
    fn resource(&mut self, root: &str, resource: &'a ResourceDoc) {
        let plural = &resource.plural;
        let (inside, scope) = if resource.namespaced {
            (format!("/namespaces/{{namespace}}/{plural}"), Scope::Namespaced)
        } else {
            (format!("/{plural}"), Scope::Cluster)
        };
        let watches = !resource.is_custom;
        if resource.namespaced {
            let list_all_groups = Scope::AllNamespaces;
            self.add(resource, format!("{root}/{plural}"), list_all_groups, &COLLECTION[..1]);
            if watches {
                self.add(resource, format!("{root}/watch/{plural}"), list_all_groups, WATCH_LIST);
            }
        }
        let object = format!("{root}{inside}/{{name}}");
        self.add(resource, format!("{root}{inside}"), scope, COLLECTION);
        self.add(resource, object.clone(), scope, OBJECT);
        if watches {
            self.add(resource, format!("{root}/watch{inside}"), scope, WATCH_LIST);
            self.add(resource, format!("{root}/watch{inside}/{{name}}"), scope, WATCH);
        }
        for sub in &resource.subresources {
            let path = format!("{object}/{}", sub.name);
            if sub.name == "proxy" {
                self.below(resource, sub, format!("{path}/{{path}}"), scope);
            }
            self.below(resource, sub, path, scope);
        }
    }

    fn add(&mut self, resource: &'a ResourceDoc, path: String, scope: Scope, actions: &[Action]) {
        let served = actions.iter().filter(|(_, _, verb)| resource.can(verb));
        let operations = served.map(|(method, action, _)| (*method, self.operation(resource, scope, action)));
        let operations = operations.collect();
        self.insert(path, operations);
    }

    fn below(&mut self, resource: &'a ResourceDoc, sub: &'a SubresourceDoc, path: String, scope: Scope) {
        let proxy: &[Action] = if sub.name == "proxy" { PROXY } else { &[] };
        let served = BELOW.iter().chain(proxy).filter(|(_, _, verb)| sub.verbs.iter().any(|v| v == verb));
        let with_path = path.ends_with("{path}");
        let operations = served
            .map(|(method, action, _)| {
                (
                    *method,
                    Operation { below: Some(sub), with_path, ..self.operation(resource, scope, action) },
                )
            })
            .collect();
        self.insert(path, operations);
    }

    fn operation(&self, resource: &'a ResourceDoc, scope: Scope, action: &'static str) -> Operation<'a> {
        Operation { gv: self.gv, resource, scope, action, below: None, with_path: false }
    }

    fn insert(&mut self, path: String, operations: Vec<(&'static str, Operation<'a>)>) {
        if operations.is_empty() {
            return;
        }
        let all: Vec<Vec<Parameter>> =
            operations.iter().map(|(_, operation)| operation.parameters()).collect();
        let (of_path, of_operations) = parameters::split(all);
        let mut item = Map::new();
        let of_what = operations[0].1.kind_name();
        self.set_parameters(
            &mut item,
            parameters::of_path(&path, of_what).into_iter().chain(of_path).collect(),
        );
        for ((method, operation), own) in operations.iter().zip(of_operations) {
            let mut members = operation.members();
            self.form.add_bodies(&mut members, &operation.bodies());
            self.set_parameters(&mut members, own);
            item.insert((*method).to_owned(), Value::Object(members));
        }
        self.out.insert(path, Value::Object(item));
    }

    /// Adds parameters to a path or operation.
    fn set_parameters(&mut self, target: &mut Map<String, Value>, mut parameters: Vec<Parameter>) {
        if parameters.is_empty() {
            return;
        }
        parameters.sort();
        let all = target.entry("parameters").or_insert_with(|| json!([]));
        let own = parameters.iter().map(|parameter| self.form.parameter(parameter));
        all.as_array_mut().expect("parameters are a list").extend(own);
    }
}
