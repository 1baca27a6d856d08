//! [`StageObject`]: a whole object that may follow stages.

use kstore_client::DynamicObject;
use kstore_informer::{Key, Object, Revision};
use kstore_kwok::Kind;
use serde_json::Value;
use std::collections::BTreeMap;

/// KWOK's label and annotation for a Pod or Node that something else acts for.
const CUSTOM: (&str, &str) = ("kwok.x-k8s.io/status", "custom");

/// An object of any kind, in the informer's cache.
#[derive(Debug)]
pub(crate) struct StageObject(DynamicObject);

impl StageObject {
    /// An object of a kind, whose names it gets if it lacks them.
    pub(super) fn new(mut value: Value, kind: &Kind) -> Self {
        if let Value::Object(members) = &mut value {
            members.entry("apiVersion").or_insert_with(|| Value::from(&*kind.api_version));
            members.entry("kind").or_insert_with(|| Value::from(&*kind.kind));
        }
        Self(DynamicObject::new(value))
    }

    pub(super) fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        Ok(Self(DynamicObject::new(serde_json::from_slice(json)?)))
    }

    pub(super) fn value(&self) -> &Value {
        self.0.value()
    }

    /// Whether it has the names of its kind.
    pub(super) fn has_kind(&self) -> bool {
        self.value()["kind"].is_string() && self.value()["apiVersion"].is_string()
    }

    /// A text of the object, or an empty one.
    pub(super) fn text(&self, path: [&str; 2]) -> &str {
        self.value()[path[0]][path[1]].as_str().unwrap_or_default()
    }

    /// Whether the process with these nodes plays the object's stages.
    pub(super) fn is_played<T>(&self, kind: &Kind, nodes: &BTreeMap<String, T>) -> bool {
        let node = if kind.is_pod() {
            self.text(["spec", "nodeName"])
        } else if kind.is_node() {
            self.text(["metadata", "name"])
        } else {
            return true;
        };
        let metadata = &self.value()["metadata"];
        let is_custom = |member: &str| metadata[member][CUSTOM.0] == CUSTOM.1;
        nodes.contains_key(node) && !is_custom("labels") && !is_custom("annotations")
    }
}

impl Object for StageObject {
    fn key(&self) -> Key {
        self.0.key()
    }
    fn uid(&self) -> &str {
        self.0.uid()
    }
    fn revision(&self) -> Revision {
        self.0.revision()
    }
}
