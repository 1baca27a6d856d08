//! Manifests: YAML or JSON texts with several objects, in the order in which they have to be created. Pure.

use serde::Deserialize as _;
use serde_json::Value;

/// A text that contains no Kubernetes objects.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The text is neither YAML nor JSON.
    #[error("document {document} of the manifest cannot be parsed: {source}")]
    Syntax {
        /// Counted from 1.
        document: usize,
        /// What the parser says.
        source: serde_yaml_ng::Error,
    },
    /// A document is no object of Kubernetes.
    #[error(
        "document {document} of the manifest has no {field}; every object needs apiVersion, kind and metadata.name"
    )]
    Incomplete {
        /// Counted from 1.
        document: usize,
        /// The missing field.
        field: &'static str,
    },
}

/// The objects of a text, without empty documents; the items of `List` objects stand for themselves.
///
/// # Errors
/// If a document cannot be parsed or lacks a required field.
pub(crate) fn objects(text: &str) -> Result<Vec<Value>, ManifestError> {
    let mut objects = Vec::new();
    for (document, parser) in (1..).zip(serde_yaml_ng::Deserializer::from_str(text)) {
        let value =
            Value::deserialize(parser).map_err(|source| ManifestError::Syntax { document, source })?;
        match value {
            Value::Null => {}
            Value::Object(mut list) if list.get("kind").is_some_and(|kind| kind == "List") => {
                if let Some(Value::Array(items)) = list.remove("items") {
                    objects.extend(items.into_iter().map(|item| (document, item)));
                }
            }
            value => objects.push((document, value)),
        }
    }
    for (document, object) in &objects {
        let document = *document;
        let required =
            [("apiVersion", "/apiVersion"), ("kind", "/kind"), ("metadata.name", "/metadata/name")];
        for (field, pointer) in required {
            if object.pointer(pointer).and_then(Value::as_str).is_none_or(str::is_empty) {
                return Err(ManifestError::Incomplete { document, field });
            }
        }
    }
    let mut objects: Vec<Value> = objects.into_iter().map(|(_, object)| object).collect();
    objects.sort_by_key(rank);
    Ok(objects)
}

/// Kinds that others depend on come first; otherwise the order of the text stays.
fn rank(object: &Value) -> u8 {
    match object["kind"].as_str().unwrap_or_default() {
        "CustomResourceDefinition" => 0,
        "Namespace" => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let objects = objects(text).unwrap();
        objects.iter().map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn definitions_and_namespaces_come_before_the_objects_that_need_them() {
        let text = "
apiVersion: v1
kind: ConfigMap
metadata: {name: first}
---
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Secret, metadata: {name: second}}
- {apiVersion: v1, kind: Namespace, metadata: {name: space}}
---
{\"apiVersion\": \"apiextensions.k8s.io/v1\", \"kind\": \"CustomResourceDefinition\", \"metadata\": {\"name\": \"a.b\"}}
";
        assert_eq!(names(text), ["a.b", "space", "first", "second"]);
        assert!(names("").is_empty());
    }

    #[test]
    fn errors_name_the_document_and_the_field() {
        let error = |text: &str| objects(text).unwrap_err().to_string();
        let incomplete = error("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\nkind: Pod\n");
        assert!(incomplete.starts_with("document 2 of the manifest has no apiVersion"), "{incomplete}");
        assert!(
            error("a: [").starts_with("document 1 of the manifest cannot be parsed"),
            "{}",
            error("a: [")
        );
    }
}
