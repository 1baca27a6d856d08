//! Objects as JSON values: identity, and the stored form. Rules about fields are in `meta`, `defaults` and
//! `validate`.
//!
//! # The stored form
//!
//! Compact JSON that starts with these members, in this order:
//!
//! ```text
//! {"apiVersion":"apps/v1","kind":"Deployment","metadata":{…},…
//! ```
//!
//! `metadata` is always present and never has `resourceVersion`: the version is the revision of the write,
//! which is known only after the bytes are made. All other members, nested ones included, are sorted by name.
//! Numbers are written as Go writes them ([`json`]). Equal objects therefore have equal bytes, [`splice_revision`] inserts the version
//! without parsing, and a list item is a suffix of the stored bytes ([`without_type_meta`]).

use crate::{json, meta};
use bytes::Bytes;
use serde_json::{Map, Value};

/// Key of an object within its resource: namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

impl ObjectKey {
    /// A key from namespace and name.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        ObjectKey { namespace: namespace.into(), name: name.into() }
    }

    /// The key in an object's metadata.
    pub fn of(object: &Value) -> Self {
        Self::new(meta::namespace(object), meta::name(object))
    }
}

impl std::fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// The `apiVersion` of an object; empty if absent.
pub fn api_version(object: &Value) -> &str {
    object["apiVersion"].as_str().unwrap_or_default()
}

/// The `kind` of an object; empty if absent.
pub fn kind(object: &Value) -> &str {
    object["kind"].as_str().unwrap_or_default()
}

/// Sets `apiVersion` and `kind`.
///
/// # Panics
/// If `object` is not a JSON object.
pub fn set_type_meta(object: &mut Value, api_version: &str, kind: &str) {
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
}

/// Text of a value; empty if it is not a string.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Integer of a value; 0 if it is not an integer.
pub fn int(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

/// Items of a value; empty if it is not a list.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Error: the bytes are not in the stored form, so another program wrote them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bytes are not an object in the stored form; parse and encode them again")]
pub struct NotStoredForm;

/// Encodes an object in the stored form, without `metadata.resourceVersion`. The module documents the form.
///
/// # Panics
/// If `object` is not a JSON object.
pub fn encode_stored(object: &Value) -> Vec<u8> {
    let members = object.as_object().expect("an API object is a JSON object");
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(b"{\"apiVersion\":");
    json::write_string(&mut out, api_version(object));
    out.extend_from_slice(b",\"kind\":");
    json::write_string(&mut out, kind(object));
    out.extend_from_slice(b",\"metadata\":{");
    let none = Map::new();
    let metadata = members.get("metadata").and_then(Value::as_object).unwrap_or(&none);
    write_members(&mut out, metadata, &["resourceVersion"]);
    out.push(b'}');
    if members.keys().any(|name| !HEAD.contains(&name.as_str())) {
        out.push(b',');
        write_members(&mut out, members, HEAD);
    }
    out.push(b'}');
    out
}

const HEAD: &[&str] = &["apiVersion", "kind", "metadata"];

fn write_members(out: &mut Vec<u8>, members: &Map<String, Value>, except: &[&str]) {
    json::write_members(out, members.iter().filter(|(name, _)| !except.contains(&name.as_str())));
}

/// Offset of `"metadata":{` in stored bytes, found without parsing.
fn metadata_offset(stored: &[u8]) -> Result<usize, NotStoredForm> {
    let mut at = expect(stored, 0, b"{\"apiVersion\":\"")?;
    at = end_of_string(stored, at)?;
    at = expect(stored, at, b",\"kind\":\"")?;
    at = end_of_string(stored, at)?;
    at = expect(stored, at, b",")?;
    expect(stored, at, METADATA)?;
    Ok(at)
}

const METADATA: &[u8] = b"\"metadata\":{";

fn expect(bytes: &[u8], at: usize, text: &[u8]) -> Result<usize, NotStoredForm> {
    if bytes[at..].starts_with(text) { Ok(at + text.len()) } else { Err(NotStoredForm) }
}

/// Offset after the closing quote of a type name. Type names have no escapes; bytes with escapes are not in
/// the stored form.
fn end_of_string(bytes: &[u8], from: usize) -> Result<usize, NotStoredForm> {
    let length = bytes[from..].iter().position(|b| matches!(b, b'"' | b'\\')).ok_or(NotStoredForm)?;
    if bytes[from + length] == b'"' { Ok(from + length + 1) } else { Err(NotStoredForm) }
}

/// Inserts `"resourceVersion":"N"` as the first member of metadata, for responses to clients. Copies the
/// bytes once, without parsing.
///
/// # Errors
/// The bytes are not in the stored form; only their first members are checked.
pub fn splice_revision(stored: &[u8], revision: u64) -> Result<Bytes, NotStoredForm> {
    let at = metadata_offset(stored)? + METADATA.len();
    let empty = stored.get(at) == Some(&b'}');
    let member = format!("\"resourceVersion\":\"{revision}\"{}", if empty { "" } else { "," });
    let mut out = Vec::with_capacity(stored.len() + member.len());
    out.extend_from_slice(&stored[..at]);
    out.extend_from_slice(member.as_bytes());
    out.extend_from_slice(&stored[at..]);
    Ok(out.into())
}

/// The bytes after `apiVersion` and `kind`, starting at `"metadata":{`; prefixed with `{` they are a list
/// item. Works with and without an inserted revision.
///
/// # Errors
/// The bytes are not in the stored form.
pub fn without_type_meta(stored: &[u8]) -> Result<&[u8], NotStoredForm> {
    metadata_offset(stored).map(|at| &stored[at..])
}

/// The metadata object of an item from [`without_type_meta`], found without parsing.
///
/// # Errors
/// The bytes are not an item.
pub fn metadata_of(item: &[u8]) -> Result<&[u8], NotStoredForm> {
    let from = expect(item, 0, METADATA)? - 1;
    let (mut depth, mut at) = (0_usize, from);
    loop {
        match item.get(at).ok_or(NotStoredForm)? {
            b'"' => at = end_of_text(item, at + 1)?,
            b'{' | b'[' => (depth, at) = (depth + 1, at + 1),
            b'}' | b']' => (depth, at) = (depth - 1, at + 1),
            _ => at += 1,
        }
        if depth == 0 {
            return Ok(&item[from..at]);
        }
    }
}

/// Offset after the closing quote of a string that may have escapes.
fn end_of_text(bytes: &[u8], from: usize) -> Result<usize, NotStoredForm> {
    let mut at = from;
    loop {
        match bytes.get(at).ok_or(NotStoredForm)? {
            b'"' => return Ok(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Whether two values are equal for the API: absent, `null`, `{}` and `[]` are equal.
pub fn semantically_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let other = |map: &Map<String, Value>, key: &str, value: &Value| match map.get(key) {
                Some(theirs) => semantically_equal(value, theirs),
                None => is_empty(value),
            };
            a.iter().all(|(k, v)| other(b, k, v)) && b.iter().all(|(k, v)| a.contains_key(k) || is_empty(v))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| semantically_equal(a, b))
        }
        _ => a == b || (is_empty(a) && is_empty(b)),
    }
}

/// Whether a value equals absence for the API: `null`, `[]`, `{}`, and objects with only such members.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.values().all(is_empty),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod() -> Value {
        json!({"spec": {"b": 1, "a": 2}, "apiVersion": "v1", "kind": "Pod", "data": "x",
            "metadata": {"name": "p", "resourceVersion": "7", "labels": {"a": "\"metadata\":{"}}})
    }

    const STORED: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"\"metadata\":{"},"name":"p"},"data":"x","spec":{"a":2,"b":1}}"#;

    #[test]
    fn stored_form_starts_with_type_and_metadata_and_has_no_version() {
        assert_eq!(String::from_utf8(encode_stored(&pod())).unwrap(), STORED);
        assert_eq!(encode_stored(&json!({})), br#"{"apiVersion":"","kind":"","metadata":{}}"#);
    }

    #[test]
    fn revision_is_inserted_as_first_member_of_metadata() {
        let bytes = splice_revision(STORED.as_bytes(), 42).unwrap();
        assert!(
            bytes.starts_with(
                br#"{"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"42","labels"#
            )
        );
        let mut want = pod();
        want["metadata"]["resourceVersion"] = "42".into();
        assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), want);
        let empty = splice_revision(br#"{"apiVersion":"","kind":"","metadata":{}}"#, 1).unwrap();
        assert_eq!(&empty[..], br#"{"apiVersion":"","kind":"","metadata":{"resourceVersion":"1"}}"#);
    }

    #[test]
    fn list_items_have_no_type() {
        let bytes = splice_revision(STORED.as_bytes(), 42).unwrap();
        let item = [b"{", without_type_meta(&bytes).unwrap()].concat();
        let item: Value = serde_json::from_slice(&item).unwrap();
        assert_eq!((&item["apiVersion"], &item["metadata"]["name"]), (&Value::Null, &json!("p")));
    }

    #[test]
    fn metadata_of_an_item_is_found_without_parsing() {
        let item = without_type_meta(STORED.as_bytes()).unwrap();
        assert_eq!(metadata_of(item).unwrap(), br#"{"labels":{"a":"\"metadata\":{"},"name":"p"}"#);
        for cut in 0..item.len() - 40 {
            let _ = metadata_of(&item[..cut]).is_ok();
        }
        assert_eq!(metadata_of(br#""metadata":{"a":"\"#), Err(NotStoredForm));
    }

    #[test]
    fn bytes_outside_the_stored_form_are_refused_without_panic() {
        for cut in 0..STORED.find("labels").unwrap() - 1 {
            assert_eq!(splice_revision(&STORED.as_bytes()[..cut], 1), Err(NotStoredForm), "cut at {cut}");
        }
        for bytes in [
            "k8s\0\n",
            r#"{"kind":"Pod","apiVersion":"v1"}"#,
            r#"{"apiVersion":"\"","kind":"","metadata":{}}"#,
        ] {
            assert_eq!(without_type_meta(bytes.as_bytes()), Err(NotStoredForm));
        }
    }

    #[test]
    fn absent_null_and_empty_are_equal() {
        let same =
            |a: Value, b: Value| assert!(semantically_equal(&a, &b) && semantically_equal(&b, &a), "{a} {b}");
        same(json!({"a": 1, "b": {}}), json!({"a": 1, "c": [], "d": null}));
        same(json!({"a": {"b": {"c": null}}}), json!({}));
        same(Value::Null, json!([]));
        for (a, b) in [(json!({"a": 0}), json!({})), (json!([1]), json!([1, 2])), (json!(""), Value::Null)] {
            assert!(!semantically_equal(&a, &b) && !semantically_equal(&b, &a), "{a} {b}");
        }
    }

    proptest::proptest! {
        #[test]
        fn objects_survive_the_stored_form_with_their_revision(
            name in ".{0,12}", label in ".{0,12}", data in ".{0,12}", revision in 1u64..,
        ) {
            let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {&data: &name},
                "metadata": {"name": &name, "labels": {&label: &data}, "resourceVersion": "old"}});
            let bytes = splice_revision(&encode_stored(&object), revision).unwrap();
            object["metadata"]["resourceVersion"] = revision.to_string().into();
            proptest::prop_assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), object);
        }

        #[test]
        fn splicing_arbitrary_bytes_never_panics(bytes: Vec<u8>) {
            let _ = splice_revision(&bytes, 1).is_ok();
        }
    }
}
