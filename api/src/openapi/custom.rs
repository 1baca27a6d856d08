//! OpenAPI v3 documents with custom kinds, assembled from the fragments of `definition`.

use super::definition::Fragment;
use super::schemas;
use crate::version::Minor;
use serde_json::{Map, Value, json};

/// OpenAPI v3 document of a group and version that has only custom kinds.
#[must_use]
pub fn custom_document(fragments: &[Fragment]) -> Value {
    let envelope = json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
        "paths": {},
        "components": {"schemas": {}},
    });
    with_custom(envelope, fragments)
}

/// Adds models and paths of custom kinds to a document, with the built-in models that they refer to.
#[must_use]
pub fn with_custom(mut document: Value, fragments: &[Fragment]) -> Value {
    let referred = fragments.iter().flat_map(Fragment::references);
    let models = members(&mut document["components"], "schemas");
    for (name, model) in schemas::named(Minor::DEFAULT, referred) {
        models.entry(name).or_insert(model);
    }
    for fragment in fragments {
        models.extend(fragment.schemas.clone());
    }
    let paths = members(&mut document, "paths");
    fragments.iter().for_each(|fragment| paths.extend(fragment.paths.clone()));
    document
}

fn members<'d>(document: &'d mut Value, name: &str) -> &'d mut Map<String, Value> {
    let slot = &mut document[name];
    if !slot.is_object() {
        *slot = json!({});
    }
    slot.as_object_mut().expect("made an object above")
}
