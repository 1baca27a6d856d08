//! `/kstore/v1/attempts`: what the scheduler of this process says about its attempts to place a pod. The caller needs the permission `get`
//! on the path and on the pod; names of nodes and of other pods are shown to callers who may list these.

use super::path::Paths;
use super::query::Query;
use crate::attempt_source::AttemptNames;
use http::request::Parts;
use kstore_api::kind;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use kstore_registry::error;
use kstore_registry::request::Target;
use kstore_registry::user::UserInfo;
use serde_json::{Value, json};

/// The path.
pub(super) const ATTEMPTS: &str = "/kstore/v1/attempts";

/// Records of one answer.
const RECORDS: usize = 64;

impl Paths {
    /// The attempts for the pod that the parameter `pod` names as `namespace/name`; with `uid` only those for the pod with this UID.
    pub(super) async fn attempts(&self, parts: &Parts, user: &UserInfo) -> Result<Value, Status> {
        let query = Query::parse(parts.uri.query());
        if let Some(other) = query.other_than(&["pod", "uid"]) {
            return Err(Status::bad_request(format!("unknown parameter {other:?}: known are pod, uid")));
        }
        let (namespace, name) = pod_name(query.get("pod")).ok_or_else(|| {
            Status::bad_request("the pod is missing: set pod=NAMESPACE/NAME, for example pod=default/web-1")
        })?;
        self.pipeline.cache().fresh().await.map_err(error::of_read)?;
        let pod = target("pods", namespace, name);
        self.pipeline.check(user, "get", &pod, name).await?;
        let names = AttemptNames {
            nodes: self.pipeline.check(user, "list", &target("nodes", "", ""), "").await.is_ok(),
            pods: self.pipeline.check(user, "list", &target("pods", "", ""), "").await.is_ok(),
        };
        let mut records = Vec::new();
        if let Some(source) = &self.attempts {
            for found in source.attempts(namespace, name, names) {
                let is_asked = query.get("uid").is_empty() || found.document["uid"] == query.get("uid");
                // A pod of a former namespace of this name was another owner's.
                let past = self.pipeline.check_past(user, "get", &pod, name, found.revision);
                if is_asked && records.len() < RECORDS && past.await.is_ok() {
                    records.push(found.document);
                }
            }
        }
        let scheduler = if self.attempts.is_some() { "here" } else { "elsewhere" };
        Ok(json!({"kind": "Attempts", "apiVersion": "kstore/v1", "namespace": namespace, "name": name,
            "scheduler": scheduler, "records": records}))
    }
}

/// Namespace and name in `namespace/name`; `None` if one is missing.
fn pod_name(text: &str) -> Option<(&str, &str)> {
    text.split_once('/')
        .filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty() && !name.contains('/'))
}

fn target(plural: &str, namespace: &str, name: &str) -> Target {
    let resource: &'static Resource = kind::lookup("", "v1", plural).expect("it is in the table of kinds");
    Target { resource, custom: None, subresource: "", namespace: namespace.to_owned(), name: name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_named_by_namespace_and_name() {
        assert_eq!(pod_name("a/b"), Some(("a", "b")));
        for wrong in ["", "a", "a/", "/b", "a/b/c"] {
            assert_eq!(pod_name(wrong), None, "{wrong}");
        }
    }
}
