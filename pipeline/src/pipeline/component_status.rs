//! `componentstatuses`: a deprecated, read-only kind that is not stored. The only component here is the
//! storage; controllers and scheduler are clients like any other.

use super::{Answer, Pipeline};
use kstore_api::status::Status;
use kstore_registry::cache::Filter;
use serde_json::{Value, json};

/// Name of the storage component, as in Kubernetes.
const STORAGE: &str = "etcd-0";
const DEPRECATED: &str = "v1 ComponentStatus is deprecated in v1.19+";

/// An item of the list, which does not state its kind.
fn untyped(mut status: Value) -> Value {
    status.as_object_mut().into_iter().for_each(|members| {
        members.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind"));
    });
    status
}

impl Pipeline {
    /// GET of one component.
    pub(super) fn component(&self, target: &kstore_registry::request::Target) -> Result<Answer, Status> {
        match target.name.as_str() {
            STORAGE => Ok(Answer::Value { value: self.storage_status(), created: false }),
            name => Err(Status::not_found(target.resource, name)),
        }
    }

    /// LIST of the components that `filter` selects.
    pub(super) fn components(&self, filter: &Filter, warnings: &mut Vec<String>) -> Answer {
        warnings.push(DEPRECATED.to_owned());
        let named = filter.name.is_empty() || filter.name == STORAGE;
        // The component has no labels.
        let none: [(String, String); 0] = [];
        let selected = named && filter.labels.matches(none.as_slice());
        let items: Vec<Value> = selected.then(|| self.storage_status()).into_iter().map(untyped).collect();
        let list =
            json!({ "kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": items });
        Answer::Value { value: list, created: false }
    }

    fn storage_status(&self) -> Value {
        let condition = match self.cache().is_healthy() {
            true => json!({ "type": "Healthy", "status": "True", "message": "ok" }),
            false => json!({ "type": "Healthy", "status": "False", "error": "the storage does not answer" }),
        };
        json!({ "kind": "ComponentStatus", "apiVersion": "v1",
            "metadata": { "name": STORAGE }, "conditions": [condition] })
    }
}
