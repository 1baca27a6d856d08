//! DefaultTolerationSeconds: pods tolerate nodes that are not ready or unreachable for five minutes, unless
//! they set such tolerations.

use super::{Operation, Plugin, Subject};
use crate::admission::Cluster;
use kstore_api::status::Status;
use serde_json::{Value, json};

const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const SECONDS: i64 = 300;

pub(super) struct DefaultTolerationSeconds;

impl Plugin for DefaultTolerationSeconds {
    fn mutate(
        &self,
        _: &dyn Cluster,
        subject: &Subject<'_>,
        pod: &mut Value,
        _: Option<&Value>,
    ) -> Result<(), Status> {
        if !subject.is("", "pods") || subject.operation == Operation::Delete || !pod["spec"].is_object() {
            return Ok(());
        }
        for taint in TAINTS {
            let tolerations = &mut pod["spec"]["tolerations"];
            let tolerated =
                tolerations.as_array().is_some_and(|list| list.iter().any(|t| tolerates(t, taint)));
            if tolerated {
                continue;
            }
            let toleration = json!({ "key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": SECONDS });
            match tolerations.as_array_mut() {
                Some(list) => list.push(toleration),
                None => *tolerations = json!([toleration]),
            }
        }
        Ok(())
    }
}

/// Whether a toleration applies to this taint with effect NoExecute: by its key, or by having no key.
fn tolerates(toleration: &Value, taint: &str) -> bool {
    let text = |field: &str| toleration[field].as_str().unwrap_or_default();
    (text("key").is_empty() || text("key") == taint)
        && (text("effect").is_empty() || text("effect") == "NoExecute")
}
