//! Values of Secrets in what people read: reports, logs and messages show their lengths and digests instead. Pure.

use crate::normalise::Difference;
use crate::record::{RunRecord, StoredObject, digest};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Resource of Secrets.
const SECRETS: &str = "secrets";
/// Characters of the shortest value that is looked for in texts: shorter ones are parts of other words.
const SHORTEST: usize = 6;
/// Most values that are looked for.
const MOST: usize = 10_000;

/// The values of Secrets that are hidden in texts.
#[derive(Clone, Debug, Default)]
pub struct SecretValues {
    /// Texts with what is shown instead, the longest first.
    values: Vec<(String, String)>,
    /// Whether values are shown as they are.
    is_open: bool,
}

impl SecretValues {
    /// Hides nothing.
    pub fn shown() -> Self {
        Self { values: Vec::new(), is_open: true }
    }

    /// Values of the Secrets among these objects.
    pub fn of<'o>(objects: impl IntoIterator<Item = (&'o str, &'o Value)>) -> Self {
        let (mut found, mut names) = (BTreeMap::new(), BTreeSet::new());
        for (resource, object) in objects {
            for name in ["name", "namespace"] {
                names.extend(object["metadata"][name].as_str());
            }
            if resource == SECRETS {
                let members = ["data", "stringData"].into_iter().filter_map(|part| object[part].as_object());
                members
                    .flatten()
                    .filter_map(|(_, value)| value.as_str())
                    .for_each(|text| add(text, &mut found));
            }
        }
        // A user name that is the name of an object, too, would make every line about the object unreadable.
        found.retain(|text, _| !names.contains(text.as_str()));
        let mut values: Vec<(String, String)> = found.into_iter().take(MOST).collect();
        values.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        Self { values, is_open: false }
    }

    /// Values of all Secrets that there were in runs.
    pub fn of_records<'r>(records: impl IntoIterator<Item = &'r RunRecord>) -> Self {
        Self::of(records.into_iter().flat_map(|record| {
            let stored = record.initial.iter().chain(&record.end);
            let stored = stored.map(|StoredObject { resource, object }| (resource.as_str(), object));
            let written = record.writes.iter().flat_map(|write| {
                let objects = write.before.iter().chain(&write.after);
                objects.map(|object| (write.key.resource.as_str(), object))
            });
            stored.chain(written)
        }))
    }

    /// Values of all Secrets that there were in a run.
    pub fn of_record(record: &RunRecord) -> Self {
        Self::of_records([record])
    }

    /// The text without the values.
    pub fn hide(&self, text: &str) -> String {
        let mut hidden = text.to_owned();
        for (value, instead) in &self.values {
            if hidden.contains(value.as_str()) {
                hidden = hidden.replace(value.as_str(), instead);
            }
        }
        hidden
    }

    /// The difference without the values: those of a Secret itself are hidden however short they are.
    pub fn hide_difference(&self, difference: &Difference) -> Difference {
        let is_secret = difference.slot.starts_with("secrets/");
        let is_data =
            difference.path.first().is_none_or(|first| ["data", "stringData"].contains(&first.as_str()));
        let hidden = |value: &Value| match is_secret && is_data {
            _ if self.is_open => value.clone(),
            true => json!({"bytes": value.to_string().len(), "digest": digest(value)}),
            false => self.hide_value(value),
        };
        let (reference, run) = (difference.reference.as_ref(), difference.run.as_ref());
        Difference { reference: reference.map(hidden), run: run.map(hidden), ..difference.clone() }
    }

    fn hide_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.hide(text)),
            Value::Array(items) => items.iter().map(|item| self.hide_value(item)).collect(),
            Value::Object(members) => {
                members.iter().map(|(name, member)| (name.clone(), self.hide_value(member))).collect()
            }
            other => other.clone(),
        }
    }

    /// A text about differences without the values: each difference that it has is replaced by its hidden form.
    pub fn hide_in(&self, text: &str, differences: &[Difference]) -> String {
        let text = differences.iter().fold(text.to_owned(), |text, difference| {
            text.replace(&difference.to_string(), &self.hide_difference(difference).to_string())
        });
        self.hide(&text)
    }
}

/// Adds a value of a Secret, what it decodes to, and the values within.
fn add(encoded: &str, found: &mut BTreeMap<String, String>) {
    insert(encoded, found);
    let Some(text) = BASE64_STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok())
    else {
        return;
    };
    insert(&text, found);
    insert(text.trim_end(), found);
    if let Ok(value) = serde_yaml_ng::from_str::<Value>(&text) {
        leaves(&value, found, crate::limits::DEPTH);
    }
}

fn leaves(value: &Value, found: &mut BTreeMap<String, String>, depth: usize) {
    match value {
        _ if depth == 0 => {}
        Value::String(text) => insert(text, found),
        Value::Array(items) => items.iter().for_each(|item| leaves(item, found, depth - 1)),
        Value::Object(members) => members.values().for_each(|member| leaves(member, found, depth - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn insert(text: &str, found: &mut BTreeMap<String, String>) {
    if text.len() >= SHORTEST {
        let instead = format!("<{} bytes of a Secret, digest {}>", text.len(), digest(&json!(text)));
        found.insert(text.to_owned(), instead);
        // The value as it is in a quoted text.
        let quoted = json!(text).to_string();
        let escaped = quoted.trim_matches('"');
        if escaped != text {
            let instead = found[text].clone();
            found.insert(escaped.to_owned(), instead);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::RunRecord;

    fn secret(data: Value) -> StoredObject {
        let object = json!({"metadata": {"name": "postgres", "namespace": "default"}, "data": data});
        StoredObject { resource: SECRETS.to_owned(), object }
    }

    fn encoded(text: &str) -> Value {
        json!(BASE64_STANDARD.encode(text))
    }

    #[test]
    fn values_of_secrets_are_hidden_in_texts_encoded_and_decoded_and_within_documents() {
        let data = json!({"a": encoded("hunter2\n"), "user": encoded("postgres"), "b": encoded("p: s3cr3t!\nq: [x]\n"), "c": encoded("it's \"so\"")});
        let end = vec![secret(data)];
        let values = SecretValues::of_record(&RunRecord { end, ..RunRecord::empty() });
        let text = format!(
            "pw=hunter2 {} postgres x s3cr3t! {:?}",
            BASE64_STANDARD.encode("hunter2\n"),
            "it's \"so\""
        );
        let hidden = values.hide(&text);
        for value in ["hunter2", "s3cr3t!", "so", &BASE64_STANDARD.encode("hunter2\n")] {
            assert!(!hidden.contains(value), "{value} in {hidden}");
        }
        assert!(hidden.contains("pw=<7 bytes of a Secret, digest "), "{hidden}");
        assert!(
            hidden.contains(" postgres x "),
            "the name of an object, and a part of other words: {hidden}"
        );
        assert_eq!(SecretValues::shown().hide(&text), text);
    }

    #[test]
    fn differences_hide_values_of_secrets_however_short_and_their_copies_in_other_objects() {
        let values = SecretValues::of_record(&RunRecord {
            initial: vec![secret(json!({"a": encoded("hunter2")}))],
            ..RunRecord::empty()
        });
        let difference = |slot: &str, value: &str| Difference {
            slot: slot.to_owned(),
            path: vec!["data".to_owned(), "a".to_owned()],
            reference: Some(json!(value)),
            run: None,
        };
        let own = difference("secrets/default/postgres", "x");
        assert_eq!(values.hide_difference(&own).reference.unwrap()["bytes"], 3);
        let copy = difference("configmaps/default/c", "password hunter2");
        let text = format!("another: {own}; {copy}");
        let hidden = values.hide_in(&text, &[own.clone(), copy]);
        assert!(!hidden.contains("hunter2") && !hidden.contains("\"x\""), "{hidden}");
        assert_eq!(SecretValues::shown().hide_in(&text, &[own]), text);
    }
}
