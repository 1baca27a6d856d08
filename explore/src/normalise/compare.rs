//! Differences between two normalised states.

use super::NormalState;
use crate::limits;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;

/// A difference between a reference and a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Slot of the object.
    pub slot: String,
    /// Path in the object; empty: the whole object.
    pub path: Vec<String>,
    /// Value in the reference; `None`: not there.
    pub reference: Option<Value>,
    /// Value in the run; `None`: not there.
    pub run: Option<Value>,
}

impl Difference {
    /// What of the difference is the same in each run that fails likewise: slot without its number, path, and which side has a value.
    pub fn fingerprint(&self) -> String {
        let side = |value: &Option<Value>| if value.is_some() { "+" } else { "-" };
        let slot = without_numbers(&self.slot);
        format!("{slot} {} {}{}", self.path.join("."), side(&self.reference), side(&self.run))
    }

    /// Whether the values differ only in the numbers of objects with generated names. Objects of equal contents have their numbers by
    /// chance, so that the next run that fails likewise may have others.
    pub fn is_of_numbers(&self) -> bool {
        let numbered = |value: &Value| without_numbers(&value.to_string());
        let values = (self.reference.as_ref().map(numbered), self.run.as_ref().map(numbered));
        matches!(&values, (Some(reference), Some(run)) if reference == run)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.join(".");
        match (&self.reference, &self.run, path.is_empty()) {
            (None, Some(_), true) => write!(f, "{} exists, and does not in the reference", self.slot),
            (Some(_), None, true) => write!(f, "{} does not exist, and does in the reference", self.slot),
            (reference, run, _) => {
                let shown = |value: &Option<Value>| {
                    value.as_ref().map_or_else(|| "nothing".to_owned(), |value| cut(&value.to_string()))
                };
                write!(f, "{} {path}: {}, and {} in the reference", self.slot, shown(run), shown(reference))
            }
        }
    }
}

/// A text without the numbers of slots of generated names, such as that in `<a->#1`.
fn without_numbers(text: &str) -> String {
    let mut parts = text.split(">#");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + ">" + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// A text of at most this many characters.
fn cut(text: &str) -> String {
    const MOST: usize = 200;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The differences between two states, at most [`limits::DIFFERENCES`].
pub fn differences(reference: &NormalState, run: &NormalState) -> Vec<Difference> {
    let mut found = Vec::new();
    let slots: BTreeSet<&String> = reference.objects.keys().chain(run.objects.keys()).collect();
    for slot in slots {
        let mut path = Vec::new();
        values(
            slot,
            &mut path,
            (reference.objects.get(slot), run.objects.get(slot)),
            &mut found,
            limits::DEPTH,
        );
    }
    found.truncate(limits::DIFFERENCES);
    found
}

fn values(
    slot: &str,
    path: &mut Vec<String>,
    (reference, run): (Option<&Value>, Option<&Value>),
    found: &mut Vec<Difference>,
    depth: usize,
) {
    match (reference, run) {
        (reference, run) if reference == run => {}
        (Some(Value::Object(old)), Some(Value::Object(new))) if depth > 0 => {
            let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for name in names {
                path.push(name.clone());
                values(slot, path, (old.get(name), new.get(name)), found, depth - 1);
                path.pop();
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) if depth > 0 && old.len() == new.len() => {
            for (at, pair) in old.iter().zip(new).enumerate() {
                path.push(at.to_string());
                values(slot, path, (Some(pair.0), Some(pair.1)), found, depth - 1);
                path.pop();
            }
        }
        (reference, run) => found.push(Difference {
            slot: slot.to_owned(),
            path: path.clone(),
            reference: reference.cloned(),
            run: run.cloned(),
        }),
    }
}
