//! The measured CustomResourceDefinitions, and objects of their kinds. Plain data.

use super::Collection;
use crate::limits::{DEFINITION_FIELDS, VALUE_BYTES};
use serde_json::{Map, Value, json};

/// A kind with typed fields, defaults and bounds, without rules.
pub(super) const PLAIN: Collection =
    Collection { path: "/apis/bench.example.com/v1/namespaces/default/plains", object: plain };
/// The kind of [`PLAIN`] with three rules.
pub(super) const RULED: Collection =
    Collection { path: "/apis/bench.example.com/v1/namespaces/default/ruleds", object: ruled };

/// Rules of [`RULED`]: a comparison, a string operation, and a loop over a list.
const RULES: [&str; 3] = [
    "self.replicas >= 1 && self.replicas <= 100",
    "self.host.endsWith('.example.com')",
    "self.ports.all(p, p.port > 0 && p.port < 65536)",
];

/// A string that makes an object one kibibyte large.
pub(super) fn text() -> String {
    "x".repeat(VALUE_BYTES)
}

fn plain(name: &str) -> Value {
    object("Plain", name)
}

fn ruled(name: &str) -> Value {
    object("Ruled", name)
}

fn object(kind: &str, name: &str) -> Value {
    let ports = json!([{"name": "http", "port": 80}, {"name": "https", "port": 443}]);
    json!({"apiVersion": "bench.example.com/v1", "kind": kind, "metadata": {"name": name},
        "spec": {"value": text(), "host": "web.example.com", "replicas": 3, "ports": ports}})
}

/// The definition of [`PLAIN`].
pub(super) fn of_plain() -> Value {
    of_objects("plains", "Plain", &[])
}

/// The definition of [`RULED`].
pub(super) fn of_ruled() -> Value {
    of_objects("ruleds", "Ruled", &RULES)
}

fn of_objects(plural: &str, kind: &str, rules: &[&str]) -> Value {
    let rules: Vec<Value> = rules.iter().map(|rule| json!({"rule": rule})).collect();
    let ports = json!({"type": "array", "maxItems": 16, "items": {"type": "object", "properties": {
        "name": {"type": "string", "maxLength": 63},
        "port": {"type": "integer"},
        "protocol": {"type": "string", "default": "TCP", "enum": ["TCP", "UDP"]}}}});
    let spec = json!({"type": "object", "required": ["host"], "x-kubernetes-validations": rules, "properties": {
        "value": {"type": "string", "maxLength": 4096},
        "host": {"type": "string", "maxLength": 253},
        "replicas": {"type": "integer", "default": 1, "minimum": 0},
        "paused": {"type": "boolean", "default": false},
        "ports": ports}});
    definition(&Names { group: "bench.example.com", plural, kind }, spec)
}

/// Group, plural and kind of a definition.
struct Names<'a> {
    group: &'a str,
    plural: &'a str,
    kind: &'a str,
}

fn definition(Names { group, plural, kind }: &Names<'_>, spec: Value) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": spec,
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}})
}

/// The API group of definition `index`, with `per_group` definitions per group.
pub(super) fn group(index: usize, per_group: usize) -> String {
    format!("g{}.example.com", index / per_group)
}

/// The plural of definition `index`.
pub(super) fn plural(index: usize) -> String {
    format!("things{index}")
}

/// A definition in its own group, with this many rules of different texts on different schema nodes.
pub(crate) fn with_rules(index: usize, rules: usize) -> Value {
    let field = |field: usize| {
        let rule = match field % 4 {
            0 => format!("self.name != 'x{field}' && self.count < 10{field}"),
            1 => format!("self.items.all(i, i.size() < 6{field})"),
            2 => format!("!has(self.name) || self.name.startsWith('p{field}') || self.count > {field}"),
            _ => format!("self.items.exists_one(i, i == 'only{field}') || self.items.size() <= {field}"),
        };
        let node = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule, "message": "no"}], "properties": {
            "name": {"type": "string", "maxLength": 63},
            "count": {"type": "integer"},
            "items": {"type": "array", "maxItems": 8, "items": {"type": "string", "maxLength": 63}}}});
        (format!("part{field}"), node)
    };
    let properties: Map<String, Value> = (0..rules).map(field).collect();
    let (group, plural) = (group(index, 1), plural(index));
    let names = Names { group: &group, plural: &plural, kind: &format!("Thing{index}") };
    definition(&names, json!({"type": "object", "properties": properties}))
}

/// An object of such a kind that violates no rule.
pub(crate) fn object_with_parts(parts: usize) -> Value {
    let part = |part: usize| {
        let name = if part % 4 == 2 { format!("p{part}") } else { "web".to_owned() };
        (format!("part{part}"), json!({"name": name, "count": 3, "items": ["a", "b", "c"]}))
    };
    let spec: Map<String, Value> = (0..parts).map(part).collect();
    json!({"apiVersion": "g0.example.com/v1", "kind": "Thing0", "metadata": {"name": "a"}, "spec": spec})
}

/// A definition of about 36 KB, as those of large operators; `per_group` of them share a group.
pub(super) fn large(index: usize, per_group: usize) -> Value {
    let field = |field: usize| {
        let description = format!(
            "Field {field} of kind {index} says how the thing is to be, at some length, as descriptions do: {}",
            "word ".repeat(16)
        );
        let node = match field % 4 {
            0 => json!({"type": "string", "description": description, "maxLength": 63}),
            1 => json!({"type": "integer", "description": description, "default": 1, "minimum": 0}),
            2 => json!({"type": "array", "description": description, "items": {"type": "string"},
                "x-kubernetes-list-type": "set", "maxItems": 8}),
            _ => json!({"description": description, "x-kubernetes-int-or-string": true,
                "anyOf": [{"type": "integer"}, {"type": "string"}]}),
        };
        (format!("field{field}"), node)
    };
    let properties: Map<String, Value> = (0..DEFINITION_FIELDS).map(field).collect();
    let (group, plural) = (group(index, per_group), plural(index));
    let names = Names { group: &group, plural: &plural, kind: &format!("Thing{index}") };
    definition(&names, json!({"type": "object", "description": "What is wanted.", "properties": properties}))
}
