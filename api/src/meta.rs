//! Access to the `metadata` of an object in JSON: getters, setters, and the fields that the system fills in.
//! Getters return the empty value for absent members and for members of the wrong type; types were checked by
//! schema before.

use crate::limits::GENERATED_BASE_MAX;
use crate::time::parse_utc;
use jiff::Timestamp;
use serde_json::{Map, Value};

const NAME: &str = "name";
const NAMESPACE: &str = "namespace";
const UID: &str = "uid";
const RESOURCE_VERSION: &str = "resourceVersion";
const GENERATION: &str = "generation";
const CREATED: &str = "creationTimestamp";
const DELETED: &str = "deletionTimestamp";
const GRACE: &str = "deletionGracePeriodSeconds";

/// Finalizer that keeps an owner until its dependents have lost their owner references.
pub const FINALIZER_ORPHAN: &str = "orphan";
/// Finalizer that keeps an owner until its dependents are deleted.
pub const FINALIZER_FOREGROUND: &str = "foregroundDeletion";

fn text<'o>(object: &'o Value, member: &str) -> &'o str {
    object["metadata"][member].as_str().unwrap_or_default()
}

/// `metadata.name`; empty if absent.
pub fn name(object: &Value) -> &str {
    text(object, NAME)
}

/// `metadata.generateName`; empty if absent.
pub fn generate_name(object: &Value) -> &str {
    text(object, "generateName")
}

/// `metadata.namespace`; empty if absent.
pub fn namespace(object: &Value) -> &str {
    text(object, NAMESPACE)
}

/// `metadata.uid`; empty if absent.
pub fn uid(object: &Value) -> &str {
    text(object, UID)
}

/// `metadata.resourceVersion`; empty if absent.
pub fn resource_version(object: &Value) -> &str {
    text(object, RESOURCE_VERSION)
}

/// Text of `metadata.creationTimestamp`; empty if absent.
pub fn creation_timestamp(object: &Value) -> &str {
    text(object, CREATED)
}

/// Text of `metadata.deletionTimestamp`; `None` if the object is not being deleted.
pub fn deletion_timestamp(object: &Value) -> Option<&str> {
    object["metadata"][DELETED].as_str()
}

/// Whether the object has a deletion timestamp: it was deleted, and finalizers or a grace period still keep
/// it.
pub fn is_being_deleted(object: &Value) -> bool {
    deletion_timestamp(object).is_some()
}

/// `metadata.deletionGracePeriodSeconds`.
pub fn deletion_grace_period(object: &Value) -> Option<i64> {
    object["metadata"][GRACE].as_i64()
}

/// `metadata.generation`; 0 for kinds that have none.
pub fn generation(object: &Value) -> i64 {
    object["metadata"][GENERATION].as_i64().unwrap_or_default()
}

/// `metadata.labels`.
pub fn labels(object: &Value) -> Option<&Map<String, Value>> {
    object["metadata"]["labels"].as_object()
}

/// Value of one label.
pub fn label<'o>(object: &'o Value, key: &str) -> Option<&'o str> {
    object["metadata"]["labels"][key].as_str()
}

/// `metadata.annotations`.
pub fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    object["metadata"]["annotations"].as_object()
}

/// Value of one annotation.
pub fn annotation<'o>(object: &'o Value, key: &str) -> Option<&'o str> {
    object["metadata"]["annotations"][key].as_str()
}

/// `metadata.ownerReferences`; empty if absent.
pub fn owner_references(object: &Value) -> &[Value] {
    object["metadata"]["ownerReferences"].as_array().map_or(&[], Vec::as_slice)
}

/// The owner reference with `controller: true`.
pub fn controller_of(object: &Value) -> Option<&Value> {
    owner_references(object).iter().find(|owner| owner["controller"] == true)
}

/// `metadata.finalizers`.
pub fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Whether the object has finalizers.
pub fn has_finalizers(object: &Value) -> bool {
    finalizers(object).next().is_some()
}

/// `metadata` for writing; added if absent or not an object.
///
/// # Panics
/// If `object` is not a JSON object.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    let members = object.as_object_mut().expect("an API object is a JSON object");
    let slot = members.entry("metadata").or_insert(Value::Null);
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    slot.as_object_mut().expect("made an object above")
}

/// Sets a member, or removes it if `value` is empty.
fn set_text(object: &mut Value, member: &str, value: &str) {
    let metadata = metadata_mut(object);
    if value.is_empty() {
        metadata.remove(member);
    } else {
        metadata.insert(member.to_owned(), value.into());
    }
}

/// Sets `metadata.name`.
pub fn set_name(object: &mut Value, value: &str) {
    set_text(object, NAME, value);
}

/// Sets `metadata.namespace`; empty removes it.
pub fn set_namespace(object: &mut Value, value: &str) {
    set_text(object, NAMESPACE, value);
}

/// Sets `metadata.uid`; empty removes it.
pub fn set_uid(object: &mut Value, value: &str) {
    set_text(object, UID, value);
}

/// Sets `metadata.resourceVersion`; empty removes it.
pub fn set_resource_version(object: &mut Value, value: &str) {
    set_text(object, RESOURCE_VERSION, value);
}

/// Sets `metadata.generation`; 0 removes it.
pub fn set_generation(object: &mut Value, value: i64) {
    let metadata = metadata_mut(object);
    if value == 0 {
        metadata.remove(GENERATION);
    } else {
        metadata.insert(GENERATION.to_owned(), value.into());
    }
}

/// Sets the deletion timestamp and grace period.
pub fn set_deletion(object: &mut Value, at: Timestamp, grace_seconds: i64) {
    let metadata = metadata_mut(object);
    metadata.insert(DELETED.to_owned(), format_time(at).into());
    metadata.insert(GRACE.to_owned(), grace_seconds.into());
}

/// Sets one label.
pub fn set_label(object: &mut Value, key: &str, value: &str) {
    set_entry(object, "labels", key, value);
}

/// Sets one annotation.
pub fn set_annotation(object: &mut Value, key: &str, value: &str) {
    set_entry(object, "annotations", key, value);
}

fn set_entry(object: &mut Value, map: &str, key: &str, value: &str) {
    let slot = metadata_mut(object).entry(map).or_insert(Value::Null);
    if !slot.is_object() {
        *slot = Value::Object(Map::new());
    }
    slot[key] = value.into();
}

/// Sets the finalizers; an empty list removes the member.
pub fn set_finalizers<'f>(object: &mut Value, finalizers: impl IntoIterator<Item = &'f str>) {
    let list: Vec<Value> = finalizers.into_iter().map(Value::from).collect();
    if list.is_empty() {
        metadata_mut(object).remove("finalizers");
    } else {
        metadata_mut(object).insert("finalizers".to_owned(), list.into());
    }
}

/// Removes the fields that only the system may set. First step of a create.
pub fn wipe_system_fields(object: &mut Value) {
    let metadata = metadata_mut(object);
    for member in [UID, RESOURCE_VERSION, GENERATION, CREATED, DELETED, GRACE, "selfLink"] {
        metadata.remove(member);
    }
}

/// Sets uid and creation timestamp of a new object.
pub fn fill_system_fields(object: &mut Value, uid: &str, now: Timestamp) {
    set_uid(object, uid);
    set_text(object, CREATED, &format_time(now));
}

/// Copies the system fields from the stored object into an update. Clients cannot change them; a different
/// uid was refused before, and other differences are ignored.
pub fn carry_system_fields(new: &mut Value, old: &Value) {
    let metadata = metadata_mut(new);
    metadata.remove("selfLink");
    for member in [UID, GENERATION, CREATED, DELETED, GRACE] {
        match old["metadata"].get(member) {
            Some(value) => metadata.insert(member.to_owned(), value.clone()),
            None => metadata.remove(member),
        };
    }
}

/// A name from `generateName` and a random suffix. The base is truncated so that the result is a DNS label.
pub fn generated_name(base: &str, suffix: &str) -> String {
    let mut end = base.len().min(GENERATED_BASE_MAX);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", &base[..end])
}

/// Characters of random suffixes: no vowels and no similar characters, so that no words appear.
pub const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Formats a time like `metav1.Time`: RFC 3339, whole seconds, UTC.
pub fn format_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Formats a time like `metav1.MicroTime`: RFC 3339 with six fractional digits.
pub fn format_micro_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Parses an RFC 3339 time with any offset and precision. The last hours of the year 9999, which a [`Timestamp`] does not have, become
/// its maximum.
pub fn parse_time(text: &str) -> Option<Timestamp> {
    let at = parse_utc(text)?;
    Some(at.to_zoned(jiff::tz::TimeZone::UTC).map_or(Timestamp::MAX, |at| at.timestamp()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn system_fields_are_wiped_filled_and_carried() {
        let now: Timestamp = "2024-05-06T07:08:09.123456789Z".parse().unwrap();
        let mut object = json!({"metadata": {"name": "x", "uid": "theirs", "resourceVersion": "1", "generation": 9,
            "creationTimestamp": null, "deletionTimestamp": "2020-01-01T00:00:00Z", "selfLink": "/"}});
        wipe_system_fields(&mut object);
        assert_eq!(object, json!({"metadata": {"name": "x"}}));
        fill_system_fields(&mut object, "u", now);
        assert_eq!(
            object,
            json!({"metadata": {"name": "x", "uid": "u", "creationTimestamp": "2024-05-06T07:08:09Z"}})
        );
        let mut new = json!({"metadata": {"name": "x", "deletionTimestamp": "2020-01-01T00:00:00Z", "labels": {"a": "b"}}});
        carry_system_fields(&mut new, &object);
        object["metadata"]["labels"] = json!({"a": "b"});
        assert_eq!(new, object);
    }

    #[test]
    fn times_are_formatted_in_seconds_or_microseconds() {
        let now: Timestamp = "2024-05-06T07:08:09.0123456Z".parse().unwrap();
        assert_eq!(format_time(now), "2024-05-06T07:08:09Z");
        assert_eq!(format_micro_time(now), "2024-05-06T07:08:09.012345Z");
        assert_eq!(parse_time("2024-05-06T09:08:09.0123456+02:00"), Some(now));
        assert_eq!(parse_time("yesterday"), None);
    }

    #[test]
    fn generated_names_fit_a_label() {
        assert_eq!(generated_name("web-", "abcde"), "web-abcde");
        assert_eq!(generated_name(&"x".repeat(100), "abcde").len(), 63);
    }

    #[test]
    fn getters_return_what_setters_set() {
        let mut object = json!({});
        set_name(&mut object, "n");
        set_namespace(&mut object, "ns");
        set_label(&mut object, "a", "b");
        set_annotation(&mut object, "c", "d");
        set_finalizers(&mut object, ["x/y"]);
        set_generation(&mut object, 3);
        set_deletion(&mut object, Timestamp::UNIX_EPOCH, 30);
        assert_eq!((name(&object), namespace(&object), label(&object, "a")), ("n", "ns", Some("b")));
        assert_eq!((annotation(&object, "c"), generation(&object)), (Some("d"), 3));
        assert_eq!(deletion_timestamp(&object), Some("1970-01-01T00:00:00Z"));
        assert!(has_finalizers(&object) && is_being_deleted(&object));
        set_finalizers(&mut object, []);
        assert!(!has_finalizers(&object));
    }
}
