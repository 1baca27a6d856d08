//! DefaultTolerationSeconds: pods tolerate nodes that are not ready or unreachable for five minutes, unless
//! they set such tolerations.

use crate::plugin::{Enabled, Plugin, Review, Row};
use kstore_api::admission::Operation;
use kstore_registry::undecided::Undecided;
use serde_json::{Value, json};
use std::sync::Arc;

const TAINTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const SECONDS: i64 = 300;

/// The row of the plugin.
pub(super) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    kinds: &[("", "pods")],
    mutates: &[Operation::Create, Operation::Update],
    ..Row::new("DefaultTolerationSeconds", || Arc::new(DefaultTolerationSeconds))
};

struct DefaultTolerationSeconds;

impl Plugin for DefaultTolerationSeconds {
    fn mutate(&self, _: &Review<'_>, pod: &mut Value) -> Result<(), Undecided> {
        if !pod["spec"].is_object() {
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
