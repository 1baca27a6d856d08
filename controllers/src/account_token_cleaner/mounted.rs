//! References from pods to Secrets. Pure.

use serde_json::Value;

/// Members of a pod's spec that refer to a Secret by its name in a member `name`.
const REFERENCES: [&str; 4] = ["secretRef", "secretKeyRef", "nodePublishSecretRef", "secret"];
const PULL: &str = "imagePullSecrets";
const NAME: &str = "secretName";

/// Whether a part of a pod's spec refers to a Secret: a volume of any type, a variable of a container, or a
/// credential for images.
pub(crate) fn refers_to(part: &Value, secret: &str) -> bool {
    match part {
        Value::Object(members) => members.iter().any(|(member, value)| {
            let is_named = match member.as_str() {
                NAME => value == secret,
                PULL => value.as_array().into_iter().flatten().any(|pull| pull["name"] == secret),
                member => REFERENCES.contains(&member) && value["name"] == secret,
            };
            is_named || refers_to(value, secret)
        }),
        Value::Array(parts) => parts.iter().any(|part| refers_to(part, secret)),
        _ => false,
    }
}
