//! A door for fuzzers: texts that claim to be YAML.

use super::{Expected, object, tree};
use crate::request::{Body, FieldValidation, Format};
use bytes::Bytes;
use kstore_api::kind;
use serde_json::Value;

const ROWS: [(&str, &str, &str); 4] = [
    ("", "v1", "pods"),
    ("", "v1", "configmaps"),
    ("apps", "v1", "deployments"),
    ("rbac.authorization.k8s.io", "v1", "roles"),
];

/// The first byte says which kind is expected. A text is an object or a refusal; how strictly it is read decides which of the two,
/// never what the object is; and the object means the same when it is written as YAML or as JSON.
pub(crate) fn yaml(bytes: &[u8]) {
    let Some((first, text)) = bytes.split_first() else { return };
    let (group, version, plural) = ROWS[usize::from(*first) % ROWS.len()];
    let expected = Expected::of(kind::lookup(group, version, plural).expect("the table has these rows"), "");
    let text = Bytes::copy_from_slice(text);
    as_a_tree(&text);
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
    let written = [
        (Format::Yaml, serde_yaml_ng::to_string(&value).expect("a value is YAML")),
        (Format::Json, value.to_string()),
    ];
    for (format, text) in written {
        let again = read(format, text.clone().into(), FieldValidation::Strict);
        assert_eq!(again, Ok((value.clone(), Vec::new())), "{text}");
    }
}

/// What the library reads by itself is what we read, but for texts that unfold into too much and numbers that JSON does not have.
fn as_a_tree(text: &Bytes) {
    let ours = tree(&Body { format: Format::Yaml, bytes: text.clone() });
    match (serde_yaml_ng::from_slice::<Value>(text), ours) {
        (Ok(theirs), Ok(ours)) => assert_eq!(ours, theirs),
        (Ok(_), Err(refused)) => {
            let ours = ["excessive aliasing", "JSON has no such number"];
            assert!(ours.iter().any(|why| refused.message.contains(why)), "{refused:?}");
        }
        (Err(_), Err(_)) => {}
        (Err(error), Ok(ours)) => panic!("{ours} was read, though: {error}"),
    }
}
