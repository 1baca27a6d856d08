//! The answers of a server that a report is made of, and the paths that give them.

use super::limits::{PAGE_OBJECTS, WATCH_SECONDS};
use kstore_ui::report::ObjectKey;
use serde::Deserialize;
use serde_json::Value;

/// The answer of `/kstore/v1/revisions`.
#[derive(Deserialize)]
pub(super) struct Revisions {
    /// The first revision from which the server tells changes.
    pub(super) from: i64,
    pub(super) newest: NewestRevision,
    #[serde(default)]
    pub(super) clock: String,
    #[serde(default)]
    pub(super) user: String,
    #[serde(default)]
    pub(super) tags: Vec<NamedRevision>,
}

/// A revision with a tag.
#[derive(Deserialize)]
pub(super) struct NamedRevision {
    pub(super) name: String,
    pub(super) revision: i64,
}

#[derive(Deserialize)]
pub(super) struct NewestRevision {
    /// RFC 3339; empty if it is not known.
    #[serde(default)]
    pub(super) time: String,
}

/// A kind of the first line of `/kstore/v1/rows`.
#[derive(Deserialize)]
pub(super) struct Kind {
    pub(super) resource: String,
    pub(super) group: String,
    pub(super) version: String,
    pub(super) plural: String,
    pub(super) kind: String,
    pub(super) namespaced: bool,
    /// `all`, `some` or `none` of its objects.
    pub(super) visible: String,
}

impl Kind {
    /// The path of the objects in a namespace; in all of them if it is empty.
    fn path(&self, namespace: &str) -> String {
        let group = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        match namespace {
            "" => format!("{group}/{}", self.plural),
            namespace => format!("{group}/namespaces/{namespace}/{}", self.plural),
        }
    }

    /// The path of a page of the list at a revision, which a token continues.
    pub(super) fn list_path(&self, namespace: &str, revision: i64, token: &str) -> String {
        let path = self.path(namespace);
        match token {
            "" => {
                format!("{path}?limit={PAGE_OBJECTS}&resourceVersion={revision}&resourceVersionMatch=Exact")
            }
            token => format!("{path}?limit={PAGE_OBJECTS}&continue={token}"),
        }
    }

    /// The path of a watch from a revision.
    pub(super) fn watch_path(&self, namespace: &str, after: i64) -> String {
        let path = self.path(namespace);
        format!("{path}?watch=true&resourceVersion={after}&timeoutSeconds={WATCH_SECONDS}")
    }

    /// The path of an object at a revision.
    pub(super) fn object_path(&self, key: &ObjectKey, revision: i64) -> String {
        let path = self.path(&key.namespace);
        format!("{path}/{}?resourceVersion={revision}&resourceVersionMatch=Exact", key.name)
    }

    /// The object with its kind, which those of lists do not name, and its key and revision.
    pub(super) fn named(&self, mut object: Value) -> Option<(ObjectKey, i64, Value)> {
        let metadata = object.get("metadata")?;
        let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let key =
            ObjectKey { resource: self.resource.clone(), namespace: text("namespace"), name: text("name") };
        let revision = text("resourceVersion").parse().ok()?;
        let version = match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        };
        let members = object.as_object_mut()?;
        members.entry("apiVersion").or_insert_with(|| version.into());
        members.entry("kind").or_insert_with(|| self.kind.clone().into());
        Some((key, revision, object))
    }
}

/// A page of a list.
#[derive(Deserialize)]
pub(super) struct Page {
    pub(super) metadata: PageMetadata,
    #[serde(default)]
    pub(super) items: Vec<Value>,
}

#[derive(Deserialize)]
pub(super) struct PageMetadata {
    #[serde(default, rename = "continue")]
    pub(super) token: String,
}

/// A line of a watch.
#[derive(Deserialize)]
pub(super) struct WatchLine {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) object: Value,
}

/// The lines of an answer.
///
/// # Errors
/// A line is not JSON, or the server ended the answer with an error.
pub(super) fn lines(answer: &[u8]) -> Result<Vec<Value>, String> {
    let mut found = Vec::new();
    for line in answer.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let value: Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        if let Some(error) = value.get("error") {
            return Err(error.get("message").and_then(Value::as_str).unwrap_or("no reason").to_owned());
        }
        found.push(value);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kind(group: &str) -> Kind {
        serde_json::from_value(json!({"resource": "r", "group": group, "version": "v1", "plural": "things",
            "kind": "Thing", "namespaced": true, "visible": "all"}))
        .unwrap()
    }

    #[test]
    fn paths_name_group_namespace_and_revision() {
        assert_eq!(
            kind("").watch_path("", 7),
            "/api/v1/things?watch=true&resourceVersion=7&timeoutSeconds=20"
        );
        assert_eq!(
            kind("g.io").list_path("shop", 7, ""),
            "/apis/g.io/v1/namespaces/shop/things?limit=500&resourceVersion=7&resourceVersionMatch=Exact"
        );
        assert_eq!(kind("").list_path("", 7, "abc"), "/api/v1/things?limit=500&continue=abc");
        let key = ObjectKey { resource: "r".to_owned(), namespace: "shop".to_owned(), name: "a".to_owned() };
        assert_eq!(
            kind("").object_path(&key, 9),
            "/api/v1/namespaces/shop/things/a?resourceVersion=9&resourceVersionMatch=Exact"
        );
    }

    #[test]
    fn objects_of_lists_get_their_kind() {
        let item = json!({"metadata": {"name": "a", "namespace": "shop", "resourceVersion": "12"}});
        let (key, revision, object) = kind("g.io").named(item).unwrap();
        assert_eq!((key.namespace.as_str(), key.name.as_str(), revision), ("shop", "a", 12));
        assert_eq!((&object["apiVersion"], &object["kind"]), (&json!("g.io/v1"), &json!("Thing")));
        assert!(kind("").named(json!({"metadata": {}})).is_none());
    }

    #[test]
    fn an_answer_that_ends_with_an_error_is_one() {
        assert_eq!(lines(b"{\"a\":1}\n\n{\"b\":2}\n").unwrap().len(), 2);
        assert_eq!(
            lines(b"{\"a\":1}\n{\"error\":{\"code\":410,\"message\":\"gone\"}}\n").unwrap_err(),
            "gone"
        );
        assert!(lines(b"{\"a\"").is_err());
    }
}
