//! What a report never has: values of Secrets, and keys, certificates and tokens elsewhere. Pure.

use crate::secret_copies::is_copy;
use serde_json::{Map, Value};

/// Beginnings of PEM blocks, of PEM blocks in base64, and of the payloads of JSON web tokens.
const MARKS: [&str; 3] = ["-----BEGIN ", "LS0tLS1CRUdJTi", ".eyJ"];

/// Members of a Secret with values.
const VALUES: [&str; 2] = ["data", "stringData"];

/// Hides the values of a Secret; returns them, by member, for the next call about this Secret. A value that differs from that of `before`
/// says at which revision it was set.
pub(super) fn mask_secret(secret: &mut Value, before: Option<&SecretValues>, revision: i64) -> SecretValues {
    let mut known = SecretValues::default();
    for part in VALUES {
        for (name, value) in secret.get_mut(part).and_then(Value::as_object_mut).into_iter().flatten() {
            let changed = match before.map(|before| before.0.get(name)) {
                Some(Some(old)) if old.value == *value => old.changed,
                Some(_) => Some(revision),
                None => None,
            };
            let own = SecretValue { value: value.take(), changed };
            *value = own.shown().into();
            known.0.insert(name.clone(), own);
        }
    }
    let annotations = secret.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    for (_, copy) in annotations.into_iter().flatten().filter(|(name, _)| is_copy(name)) {
        *copy = "•••".into();
    }
    known
}

/// The values of a Secret at one revision. They are in no output of this module.
#[derive(Default)]
pub(super) struct SecretValues(std::collections::BTreeMap<String, SecretValue>);

struct SecretValue {
    value: Value,
    /// The revision that set it, if the one before differed.
    changed: Option<i64>,
}

impl SecretValue {
    fn shown(&self) -> String {
        let text = self.value.as_str().unwrap_or_default();
        let padding = text.bytes().rev().take(2).take_while(|byte| *byte == b'=').count();
        let bytes = (text.len() / 4 * 3).saturating_sub(padding);
        match self.changed {
            None => format!("••• ({bytes} bytes)"),
            Some(revision) => format!("••• ({bytes} bytes, set at #{revision})"),
        }
    }
}

/// Hides texts with keys, certificates or tokens in any object.
pub(super) fn mask_credentials(value: &mut Value) {
    match value {
        Value::String(text) if MARKS.iter().any(|mark| text.contains(mark)) => {
            *text = format!("••• (key, certificate or token, {} bytes)", text.len());
        }
        Value::Array(items) => items.iter_mut().for_each(mask_credentials),
        Value::Object(members) => Map::values_mut(members).for_each(mask_credentials),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_have_lengths_in_place_of_values() {
        let copies = ["kubectl.kubernetes.io/last-applied-configuration", "kapp.k14s.io/original"];
        let secret = |password: &str| {
            json!({"metadata": {"annotations": {copies[0]: password, copies[1]: password, "team": "a"}},
                "data": {"password": password, "user": "YQ=="}})
        };
        let mut first = secret("aHVudGVyMg==");
        let known = mask_secret(&mut first, None, 5);
        assert_eq!(first["data"], json!({"password": "••• (7 bytes)", "user": "••• (1 bytes)"}));
        assert_eq!(
            first["metadata"]["annotations"],
            json!({copies[0]: "•••", copies[1]: "•••", "team": "a"})
        );
        let mut same = secret("aHVudGVyMg==");
        let known = mask_secret(&mut same, Some(&known), 6);
        assert_eq!(same, first);
        let mut other = secret("aHVudGVyMw==");
        let known = mask_secret(&mut other, Some(&known), 7);
        assert_eq!(other["data"]["password"], "••• (7 bytes, set at #7)");
        let mut kept = secret("aHVudGVyMw==");
        mask_secret(&mut kept, Some(&known), 8);
        assert_eq!(kept, other);
    }

    #[test]
    fn keys_certificates_and_tokens_are_hidden_in_any_object() {
        let mut object = json!({"data": {"ca.crt": "-----BEGIN CERTIFICATE-----\nMII", "mode": "fast"},
            "list": [{"caBundle": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0"}], "env": "TOKEN=eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.x"});
        mask_credentials(&mut object);
        let text = object.to_string();
        assert!(text.contains("fast"));
        for part in ["MII", "LS0t", "eyJ"] {
            assert!(!text.contains(part), "{text}");
        }
    }
}
