//! [`ProjectedMeta`]: the metadata that an informer's cache keeps of an object when it decodes only some of the object's fields.

use kstore_informer::{Key, Revision};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// The metadata of an object that is decoded in part: identity, version and lifetime, and what the caller's types say.
/// `L` decodes the labels, `A` the annotations, `O` the owner references and `T` the timestamps; [`IgnoredAny`], the
/// default, skips them, so that they cost neither time nor memory.
///
/// Decode it with [`kstore_api::lenient`]: then an absent field and `null` are the zero value, and a field of the wrong
/// type is an error, as for every other reader of the API.
///
/// # Examples
///
/// ```
/// use kstore_client::ProjectedMeta;
/// use std::collections::BTreeMap;
///
/// #[derive(serde::Deserialize)]
/// struct Labelled {
///     metadata: ProjectedMeta<BTreeMap<String, String>>,
/// }
///
/// let json = br#"{"metadata": {"namespace": "ns", "name": "a", "resourceVersion": "7", "labels": {"app": "web"}}}"#;
/// let Labelled { metadata } = kstore_api::lenient::from_slice(json)?;
/// assert_eq!((metadata.key().as_str(), metadata.revision().0), ("ns/a", 7));
/// assert_eq!(metadata.labels["app"], "web");
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the API's own field names")]
pub struct ProjectedMeta<L = IgnoredAny, A = IgnoredAny, O = IgnoredAny, T = IgnoredAny> {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub resource_version: String,
    pub generation: Option<i64>,
    pub creation_timestamp: Option<T>,
    pub deletion_timestamp: Option<T>,
    pub deletion_grace_period_seconds: Option<i64>,
    pub finalizers: Vec<String>,
    pub labels: L,
    pub annotations: A,
    pub owner_references: O,
}

// Not derived: timestamps need no default.
impl<L: Default, A: Default, O: Default, T> Default for ProjectedMeta<L, A, O, T> {
    fn default() -> Self {
        Self {
            name: String::new(),
            namespace: String::new(),
            uid: String::new(),
            resource_version: String::new(),
            generation: None,
            creation_timestamp: None,
            deletion_timestamp: None,
            deletion_grace_period_seconds: None,
            finalizers: Vec::new(),
            labels: L::default(),
            annotations: A::default(),
            owner_references: O::default(),
        }
    }
}

impl<L, A, O, T> ProjectedMeta<L, A, O, T> {
    /// Namespace and name; without a namespace for cluster-scoped objects.
    pub fn key(&self) -> Key {
        Key::new(&self.namespace, &self.name)
    }

    /// The revision of the object; zero if the resourceVersion is no number, which no server of kstore writes.
    pub fn revision(&self) -> Revision {
        Revision(self.resource_version.parse().unwrap_or(0))
    }

    /// Whether the object has a deletion timestamp.
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Whether the object has this finalizer.
    pub fn has_finalizer(&self, name: &str) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::lenient;
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    type Labelled = ProjectedMeta<BTreeMap<String, String>>;

    fn decode(value: Value) -> Result<Labelled, serde_json::Error> {
        lenient::from_slice(value.to_string().as_bytes())
    }

    #[test]
    fn absent_fields_and_null_are_zero() {
        let names = ["name", "namespace", "uid", "resourceVersion", "generation", "deletionTimestamp"];
        let others = ["creationTimestamp", "finalizers", "labels", "annotations", "ownerReferences"];
        let null: Value = names.iter().chain(&others).map(|name| ((*name).to_owned(), Value::Null)).collect();
        for meta in [decode(json!({})).unwrap(), decode(null).unwrap()] {
            assert_eq!(meta, Labelled::default());
            assert_eq!((meta.key().as_str(), meta.revision().0, meta.is_deleting()), ("", 0, false));
        }
    }

    #[test]
    fn a_field_of_the_wrong_type_is_an_error_unless_the_caller_skips_it() {
        for wrong in [json!({"name": 1}), json!({"labels": {"a": 1}}), json!({"finalizers": "a"})] {
            assert!(decode(wrong.clone()).is_err(), "{wrong}");
        }
        let skipped = json!({"name": "a", "annotations": {"a": 1}, "ownerReferences": [{"uid": "u"}]});
        assert_eq!(decode(skipped).unwrap().name, "a");
    }

    #[test]
    fn identity_version_and_lifetime_are_read() {
        let meta = decode(json!({
            "namespace": "ns", "name": "a", "resourceVersion": "42", "generation": 2, "labels": {"k": "v"},
            "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/f"],
        }));
        let meta = meta.unwrap();
        assert_eq!((meta.key().as_str(), meta.revision().0, meta.generation), ("ns/a", 42, Some(2)));
        assert!(meta.is_deleting() && meta.has_finalizer("example.com/f") && !meta.has_finalizer("f"));
        assert_eq!(decode(json!({"resourceVersion": "opaque"})).unwrap().revision().0, 0);
    }
}
