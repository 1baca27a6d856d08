//! Fuzz target for YAML bodies: arbitrary text is decoded as an object.

use super::{Expected, object, tree};
use crate::request::{Body, FieldValidation, Format};
use bytes::Bytes;
use kstore_api::{kind, yaml};
use serde::Deserialize as _;
use serde_json::Value;
use std::collections::BTreeSet;

const ROWS: [(&str, &str, &str); 4] = [
    ("", "v1", "pods"),
    ("", "v1", "configmaps"),
    ("apps", "v1", "deployments"),
    ("rbac.authorization.k8s.io", "v1", "roles"),
];

/// Checks the decoding of a text as YAML; its first byte chooses the expected kind. The validation level
/// decides only whether the text is refused, never the decoded object. The object must be the same after a
/// round trip through YAML and JSON.
pub fn yaml(bytes: &[u8]) {
    let Some((first, text)) = bytes.split_first() else { return };
    let (group, version, plural) = ROWS[usize::from(*first) % ROWS.len()];
    let expected = Expected::of(kind::lookup(group, version, plural).expect("the table has these rows"), "");
    let text = Bytes::copy_from_slice(text);
    compare_trees(&text);
    let read = |format, bytes, validation| {
        let mut warnings = Vec::new();
        object(expected, &Body { format, bytes }, validation, &mut warnings).map(|object| (object, warnings))
    };
    let ignored = read(Format::Yaml, text.clone(), FieldValidation::Ignore);
    let warned = read(Format::Yaml, text.clone(), FieldValidation::Warn);
    let strict = read(Format::Yaml, text, FieldValidation::Strict);
    let Ok((value, _)) = ignored else {
        assert!(warned.is_err() && strict.is_err(), "{ignored:?}, {warned:?}, {strict:?}");
        return;
    };
    let (same, warnings) = warned.expect("a warning refuses nothing");
    assert_eq!(same, value, "warnings change nothing");
    assert_eq!(strict.is_ok(), warnings.is_empty(), "{warnings:?} against {strict:?}");
    let written = [(Format::Yaml, kstore_api::yaml::encode(&value)), (Format::Json, value.to_string())];
    for (format, text) in written {
        let again = read(format, text.clone().into(), FieldValidation::Strict);
        assert_eq!(again, Ok((value.clone(), Vec::new())), "{text}");
    }
}

/// Compares our parse tree with another library's. Both must have the same maps and lists where both accept
/// the text, except for merge keys and tags, which the other library does not interpret. Scalars may differ,
/// since each library has its own rules for them.
fn compare_trees(text: &Bytes) {
    let ours = tree(&Body { format: Format::Yaml, bytes: text.clone() });
    if versions_differ(text) {
        return;
    }
    let first = serde_yaml_ng::Deserializer::from_slice(text).next();
    let theirs = first.map_or(Ok(Value::Null), Value::deserialize);
    if let (Ok(theirs), Ok(ours)) = (theirs, ours) {
        let holds = |value: &Value| value.is_object() || value.is_array();
        let both_scalars = !holds(&theirs) && !holds(&ours);
        assert!(both_scalars || have_same_shape(&theirs, &ours), "{ours} was read, not {theirs}");
    }
}

/// Whether the text has a construct that versions or parsers of YAML interpret differently.
fn versions_differ(text: &[u8]) -> bool {
    let is_usual = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n');
    let has_merge_keys = text.windows(2).any(|two| two == b"<<");
    let has_tags_or_directives = text.iter().any(|byte| matches!(byte, b'!' | b'%'));
    !text.iter().all(is_usual)
        || has_merge_keys
        || has_tags_or_directives
        || has_keys_without_blank(text)
        || has_unusual_anchors(text)
        || has_duplicate_anchors(text)
        || ends_in_blanks(text)
}

/// Whether a `?` is followed by another character than a blank: in a flow, YAML 1.1 reads a key and YAML 1.2
/// a text.
fn has_keys_without_blank(text: &[u8]) -> bool {
    text.windows(2).any(|two| two[0] == b'?' && !matches!(two[1], b' ' | b'\n'))
}

/// Whether two nodes have the same anchor. Our aliases refer to the anchor before them; the other library
/// uses the last one.
fn has_duplicate_anchors(text: &[u8]) -> bool {
    let mut names = BTreeSet::new();
    let anchors = text.split(|byte| *byte == b'&').skip(1);
    let name =
        |rest: &'_ [u8]| rest.iter().take_while(|b| b.is_ascii_alphanumeric()).copied().collect::<Vec<_>>();
    anchors.map(name).any(|name| !names.insert(name))
}

/// Whether the last line is not terminated and consists of blanks only: the parser does not report the end of
/// such a block scalar.
fn ends_in_blanks(text: &[u8]) -> bool {
    let last = text.rsplit(|byte| matches!(byte, b'\n' | b'\r')).next().unwrap_or_default();
    !last.is_empty() && last.iter().all(|byte| *byte == b' ')
}

/// Whether the name of an anchor has characters other than letters and digits; versions of YAML differ about
/// those.
fn has_unusual_anchors(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'&' | b'*')) {
        rest = &rest[at + 1..];
        let next = rest.iter().find(|byte| !byte.is_ascii_alphanumeric());
        if next.is_some_and(|byte| !matches!(byte, b' ' | b'\n' | b'\r' | b',' | b']' | b'}')) {
            return true;
        }
    }
    false
}

/// Whether two trees have the same shape, ignoring the meaning of scalars. Some keys of `theirs` may be one key
/// of `ours`.
fn have_same_shape(theirs: &Value, ours: &Value) -> bool {
    match (theirs, ours) {
        (Value::Array(theirs), Value::Array(ours)) => {
            theirs.len() == ours.len()
                && theirs.iter().zip(ours).all(|(theirs, ours)| have_same_shape(theirs, ours))
        }
        (Value::Object(theirs), Value::Object(ours)) => {
            // Keys such as 0 and 000 become one; the value of the last one counts.
            let merged = ours.len() < theirs.len();
            let is_alike = |key: &String, ours: &Value| {
                theirs.get(key).is_none_or(|theirs| have_same_shape(theirs, ours))
                    || merged && theirs.values().any(|theirs| have_same_shape(theirs, ours))
            };
            ours.len() <= theirs.len() && ours.iter().all(|(key, ours)| is_alike(key, ours))
        }
        (Value::Array(_) | Value::Object(_), _) | (_, Value::Array(_) | Value::Object(_)) => false,
        (Value::String(text), ours) => match scalar_of(text) {
            plain if plain == *ours => true,
            _ => ours == text.as_str(),
        },
        (Value::Number(theirs), Value::Number(ours)) => theirs.as_f64() == ours.as_f64(),
        // A number that is too large in its base is a text.
        (Value::Number(_), ours) => ours.is_string(),
        (Value::Bool(_) | Value::Null, _) => theirs == ours,
    }
}

/// The value of an unquoted text.
fn scalar_of(text: &str) -> Value {
    yaml::plain_scalar(text).unwrap_or_else(|_| Value::from(text))
}
