//! Partial JSON decoding: reads only the fields that selectors compare, or everything but the managed fields,
//! and skips the rest. A start with a hundred thousand stored pods must not build a hundred thousand trees,
//! and managed fields are half of many an object. Skipped parts are still checked to be JSON.

use kstore_api::kind;
use kstore_api::resource::Resource;
use kstore_api::selector::field;
use parking_lot::Mutex;
use serde::Deserialize as _;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::OnceLock;

type Path = &'static [&'static str];

/// Paths that are read of every kind.
const IDENTITY: [Path; 5] = [
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "uid"],
    &["metadata", "labels"],
    &["metadata", "initializers"],
];

/// Decodes only identity, labels and the selectable fields of the kind.
pub(super) fn read(bytes: &[u8], resource: &Resource) -> Result<Value, serde_json::Error> {
    let text = std::str::from_utf8(bytes).map_err(serde::de::Error::custom)?;
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = match resource.custom {
        // Rows of custom kinds come and go; making their projection costs less than decoding an object.
        Some(_) => (&FieldProjection::of_row(resource)).deserialize(&mut reader)?,
        None => FieldProjection::of_kind(resource).deserialize(&mut reader)?,
    };
    reader.end()?;
    Ok(value)
}

/// The paths that decide about a deletion: those that its plan reads or changes, and those that admission plugins read
/// of an object that is deleted.
const DELETION: [Path; 12] = [
    &["apiVersion"],
    &["kind"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "uid"],
    &["metadata", "generation"],
    &["metadata", "deletionTimestamp"],
    &["metadata", "deletionGracePeriodSeconds"],
    &["metadata", "finalizers"],
    &["spec", "nodeName"],
    &["spec", "terminationGracePeriodSeconds"],
    &["status", "phase"],
];

/// Decodes only what decides about a deletion.
///
/// # Errors
/// If the bytes are not JSON.
pub(super) fn read_for_deletion(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    static PROJECTION: OnceLock<FieldProjection> = OnceLock::new();
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = PROJECTION.get_or_init(|| FieldProjection::of(&DELETION)).deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// Decodes the object without `metadata.managedFields`.
///
/// # Errors
/// If the bytes are not JSON, or the object or its metadata is not a JSON object.
pub(super) fn without_managed_fields(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Without("metadata", Some(&Without("managedFields", None))).deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// Decodes a JSON object without one of its members, or with that member decoded without one of its own.
struct Without<'p>(&'static str, Option<&'p Without<'p>>);

impl<'de> DeserializeSeed<'de> for &Without<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &Without<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            let value = match self.1 {
                _ if name != self.0 => access.next_value()?,
                Some(below) => access.next_value_seed(below)?,
                None => {
                    access.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            members.insert(name, value);
        }
        Ok(Value::Object(members))
    }
}

/// The part of a value to decode: all of it, or some members of an object.
enum FieldProjection {
    All,
    Members(Vec<(&'static str, FieldProjection)>),
}

impl FieldProjection {
    /// The projection for a built-in kind; made once, not per object. Kinds that the default version of Kubernetes lacks are added when a
    /// server of another version reads the first of their objects.
    fn of_kind(resource: &Resource) -> &'static Self {
        type Row = (&'static str, &'static str, &'static str);
        static KINDS: OnceLock<BTreeMap<Row, FieldProjection>> = OnceLock::new();
        static OTHERS: Mutex<BTreeMap<Row, &'static FieldProjection>> = Mutex::new(BTreeMap::new());
        let row = |resource: &Resource| (resource.group, resource.version, resource.plural);
        let kinds = KINDS.get_or_init(|| kind::every().map(|kind| (row(kind), Self::of_row(kind))).collect());
        kinds.get(&row(resource)).unwrap_or_else(|| {
            let mut others = OTHERS.lock();
            others.entry(row(resource)).or_insert_with(|| Box::leak(Box::new(Self::of_row(resource))))
        })
    }

    fn of_row(resource: &Resource) -> Self {
        Self::of(&IDENTITY.into_iter().chain(field::own_paths(resource)).collect::<Vec<_>>())
    }

    /// The projection onto these paths.
    fn of(paths: &[Path]) -> Self {
        if paths.iter().any(|path| path.is_empty()) {
            return Self::All;
        }
        let mut below: BTreeMap<&'static str, Vec<Path>> = BTreeMap::new();
        paths.iter().for_each(|path| below.entry(path[0]).or_default().push(&path[1..]));
        Self::Members(below.into_iter().map(|(name, paths)| (name, Self::of(&paths))).collect())
    }
}

/// Reads a member's name and finds its projection, if the member is to be decoded.
struct Member<'w>(&'w [(&'static str, FieldProjection)]);

impl<'de, 'w> DeserializeSeed<'de> for Member<'w> {
    type Value = Option<&'w (&'static str, FieldProjection)>;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_str(self)
    }
}

impl<'w> Visitor<'_> for Member<'w> {
    type Value = Option<&'w (&'static str, FieldProjection)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().find(|(wanted, _)| *wanted == name))
    }
}

impl<'de> DeserializeSeed<'de> for &FieldProjection {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        match self {
            FieldProjection::All => Value::deserialize(reader),
            FieldProjection::Members(members) => reader.deserialize_any(Members(members)),
        }
    }
}

/// Decodes only these members of an object. A value that is not an object becomes null.
struct Members<'w>(&'w [(&'static str, FieldProjection)]);

impl<'de> Visitor<'de> for Members<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(member) = access.next_key_seed(Member(self.0))? {
            match member {
                None => drop(access.next_value::<IgnoredAny>()?),
                Some((name, below)) => {
                    drop(members.insert((*name).to_owned(), access.next_value_seed(below)?));
                }
            }
        }
        Ok(Value::Object(members))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        while access.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E>(self, _: &str) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::kind;
    use kstore_api::version::Minor;
    use serde_json::json;

    #[test]
    fn a_partial_decode_reads_only_selectable_fields() {
        let pods = kind::lookup("", "v1", "pods").unwrap();
        let pod = json!({"kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}, "annotations": {"x": "y"}},
            "spec": {"nodeName": "n", "containers": [{"name": "c"}]}, "status": {"podIPs": [{"ip": "1.2.3.4"}], "phase": "Running"}});
        let seen = read(pod.to_string().as_bytes(), pods).unwrap();
        let want = json!({"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"nodeName": "n"},
            "status": {"podIPs": [{"ip": "1.2.3.4"}], "phase": "Running"}});
        assert_eq!(seen, want);
        let odd = read(br#"{"metadata": 1, "spec": [2, {"nodeName": "x"}], "status": "s"}"#, pods).unwrap();
        assert_eq!(odd, json!({"metadata": null, "spec": null, "status": null}));
        for bad in ["", "{", "{}x", r#"{"spec": {"containers": [}}"#] {
            assert!(read(bad.as_bytes(), pods).is_err(), "{bad}");
        }
    }

    #[test]
    fn objects_of_kinds_that_the_default_version_lacks_are_read() {
        for minor in Minor::ALL {
            for row in kind::every_of(minor).filter(|row| row.is_stored()) {
                let seen = read(br#"{"metadata": {"name": "a", "annotations": {}}}"#, row).unwrap();
                assert_eq!(seen, json!({"metadata": {"name": "a"}}), "{minor} {}", row.plural);
            }
        }
    }

    #[test]
    fn decoding_without_managed_fields_keeps_everything_else() {
        let mut object = json!({"kind": "Pod", "managedFields": 1, "spec": {"metadata": {"managedFields": 2}},
            "metadata": {"name": "p", "annotations": {"a\n": "\u{fc}"}, "managedFields": [{"manager": "m"}]}});
        let read = |object: &Value| without_managed_fields(object.to_string().as_bytes());
        let seen = read(&object).unwrap();
        object["metadata"].as_object_mut().unwrap().remove("managedFields");
        assert_eq!((&seen, &read(&object).unwrap()), (&object, &object));
        for bad in ["", "[]", "{}x", r#"{"metadata": 1}"#] {
            assert!(without_managed_fields(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn partial_and_full_decoding_agree_on_the_selectable_fields_of_every_kind() {
        for resource in kind::RESOURCES {
            let mut object = json!({"metadata": {"name": "n", "namespace": "s"}});
            for path in field::own_paths(resource) {
                let member = path.iter().fold(&mut object, |value, member| &mut value[*member]);
                *member = json!(path.join("-"));
            }
            let seen = read(object.to_string().as_bytes(), resource).unwrap();
            let values = |object: &Value| {
                field::own_values(resource, object).map(|v| v.into_owned()).collect::<Vec<_>>()
            };
            assert_eq!(values(&seen), values(&object), "{}", resource.plural);
        }
    }
}
