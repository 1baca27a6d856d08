//! The kind InitializerConfiguration, declared like a custom kind. No such CustomResourceDefinition is stored:
//! the kind exists while the admission plugin `Initializers` is enabled.

use serde_json::{Value, json};

/// The API group of InitializerConfigurations.
pub const GROUP: &str = "admissionregistration.k8s.io";
/// The only version of InitializerConfigurations.
pub const VERSION: &str = "v1alpha1";
/// The plural of InitializerConfigurations.
pub const PLURAL: &str = "initializerconfigurations";

/// The CustomResourceDefinition that declares the kind, with accepted names and conditions.
#[must_use]
pub fn definition() -> Value {
    let names = json!({
        "plural": PLURAL, "singular": "initializerconfiguration",
        "kind": "InitializerConfiguration", "listKind": "InitializerConfigurationList",
    });
    let is_true = |name: &str, reason: &str| json!({ "type": name, "status": "True", "reason": reason });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{PLURAL}.{GROUP}"), "uid": "initializerconfigurations" },
        "spec": {
            "group": GROUP, "scope": "Cluster", "names": names, "conversion": { "strategy": "None" },
            "versions": [{
                "name": VERSION, "served": true, "storage": true,
                "schema": { "openAPIV3Schema": schema() },
            }],
        },
        "status": {
            "acceptedNames": names, "storedVersions": [VERSION],
            "conditions": [is_true("NamesAccepted", "NoConflicts"), is_true("Established", "InitialNamesAccepted")],
        },
    })
}

fn schema() -> Value {
    let name = json!({
        "type": "string",
        "description": "Identifier of the initializer: a domain of three or more segments, such as `labels.example.com`.",
        "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        "x-kubernetes-validations": [{
            "rule": "self.split('.').size() >= 3",
            "message": "should be a domain with at least three segments separated by dots",
        }],
    });
    let initializer = json!({
        "type": "object", "required": ["name"],
        "properties": {
            "name": name,
            "rules": {
                "type": "array", "items": rule(),
                "description": "The resources whose new objects wait for the initializer; one matching rule is enough.",
            },
        },
    });
    json!({
        "type": "object",
        "description": "The initializers of new objects, in their order.",
        "properties": {
            "apiVersion": { "type": "string" }, "kind": { "type": "string" }, "metadata": { "type": "object" },
            "initializers": {
                "type": "array", "items": initializer,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            },
        },
    })
}

fn rule() -> Value {
    let names = |description: &str, what: &str, item: Value, more: Option<Value>| {
        let alone = json!({
            "rule": "size(self) == 1 || !self.exists(name, name == '*')",
            "message": format!("if '*' is present, must not specify other {what}"),
        });
        let validations: Vec<Value> = more.into_iter().chain([alone]).collect();
        json!({
            "type": "array", "minItems": 1, "items": item, "description": description,
            "x-kubernetes-validations": validations,
        })
    };
    let filled = json!({ "type": "string", "minLength": 1 });
    let no_subresources = json!({
        "rule": "self.all(name, !name.contains('/'))", "message": "must not specify subresources",
    });
    json!({
        "type": "object", "required": ["apiGroups", "apiVersions", "resources"],
        "properties": {
            "apiGroups": names("API groups; `*` for all.", "API groups", json!({ "type": "string" }), None),
            "apiVersions": names("API versions; `*` for all.", "API versions", filled.clone(), None),
            "resources": names("Plurals; `*` for all.", "resources", filled, Some(no_subresources)),
        },
    })
}
