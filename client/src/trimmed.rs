//! Decodes objects without `metadata.managedFields`: the text is skipped, so that neither the decoding nor the
//! cached object has it. Only programs that show field managers need it, and it is a third of many objects.

use k8s_openapi::Metadata;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kstore_api::lenient;
use serde::de::value::UnitDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use std::fmt;

/// Decodes an object like [`lenient::from_slice`], without its managed fields.
///
/// # Errors
/// The text is not JSON, or a member has the wrong type.
pub(crate) fn decode<K>(json: &[u8]) -> Result<K, serde_json::Error>
where
    K: DeserializeOwned + Metadata<Ty = ObjectMeta>,
{
    let mut text = serde_json::Deserializer::from_slice(json);
    let object = K::deserialize(Level { inner: &mut text, depth: Depth::Object });
    match object.and_then(|object| text.end().map(|()| object)) {
        Ok(object) => Ok(object),
        // Objects that lack required members are rare and decoded again.
        Err(_) => {
            let mut object: K = lenient::from_slice(json)?;
            object.metadata_mut().managed_fields = None;
            Ok(object)
        }
    }
}

/// Which map a [`Level`] decodes.
#[derive(Clone, Copy)]
enum Depth {
    Object,
    Metadata,
}

impl Depth {
    /// The member that is read differently: an object's metadata, and the managed fields of metadata.
    fn member(self) -> &'static str {
        match self {
            Self::Object => "metadata",
            Self::Metadata => "managedFields",
        }
    }
}

/// An object or its metadata; passes everything but one member through.
struct Level<D> {
    inner: D,
    depth: Depth,
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Level<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_map(Members { inner: visitor, depth: self.depth })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// A visitor of an object or its metadata, which reads one member of the map differently.
struct Members<T> {
    inner: T,
    depth: Depth,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Members<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(MemberAccess { inner: map, depth: self.depth, is_special: false })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(seq)
    }
}

struct MemberAccess<A> {
    inner: A,
    depth: Depth,
    /// Whether the last name is that of the special member.
    is_special: bool,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for MemberAccess<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let found = Name { inner: seed, name: self.depth.member(), is_it: &mut self.is_special };
        self.inner.next_key_seed(found)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        match (self.is_special, self.depth) {
            (false, _) => self.inner.next_value_seed(seed),
            (true, Depth::Object) => self.inner.next_value_seed(MetadataSeed(seed)),
            (true, Depth::Metadata) => {
                self.inner.next_value::<IgnoredAny>()?;
                seed.deserialize(UnitDeserializer::new())
            }
        }
    }
}

/// Decodes metadata without the managed fields.
struct MetadataSeed<S>(S);

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for MetadataSeed<S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(Level { inner: deserializer, depth: Depth::Metadata })
    }
}

/// A seed, deserializer or visitor of a member's name, which compares the name.
struct Name<'a, T> {
    inner: T,
    name: &'static str,
    is_it: &'a mut bool,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Name<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        let Self { inner, name, is_it } = self;
        inner.deserialize(Name { inner: deserializer, name, is_it })
    }
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Name<'_, D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        let Self { inner, name, is_it } = self;
        inner.deserialize_identifier(Name { inner: visitor, name, is_it })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Name<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<V::Value, E> {
        *self.is_it = text == self.name;
        self.inner.visit_borrowed_str(text)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<V::Value, E> {
        *self.is_it = text == self.name;
        self.inner.visit_str(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::apps::v1::Deployment;
    use serde_json::json;

    fn deployment() -> serde_json::Value {
        let fields = json!([{"manager": "m", "operation": "Update", "apiVersion": "apps/v1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]);
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "labels": {"managedFields": "kept"}, "managedFields": fields,
                "annotations": {"metadata": "kept \" \u{e9}"}, "uid": "u"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"metadata": "kept"}},
                "template": {"metadata": {"labels": {"metadata": "kept"}}}}})
    }

    #[test]
    fn all_members_but_managed_fields_are_decoded() {
        let mut expected: Deployment = serde_json::from_value(deployment()).unwrap();
        assert!(expected.metadata.managed_fields.take().is_some());
        let decoded: Deployment = decode(deployment().to_string().as_bytes()).unwrap();
        assert_eq!(decoded, expected);
    }

    #[test]
    fn objects_without_required_members_have_no_managed_fields_either() {
        let mut object = deployment();
        object["spec"].as_object_mut().unwrap().remove("selector");
        let decoded: Deployment = decode(object.to_string().as_bytes()).unwrap();
        assert!(decoded.metadata.managed_fields.is_none());
        assert_eq!(decoded.metadata.name.as_deref(), Some("web"));
    }

    #[test]
    fn text_that_is_no_object_is_an_error() {
        let text = deployment().to_string();
        for wrong in ["", "7", "{", r#"{"metadata": 7}"#, &text[..text.len() - 1], &format!("{text}}}")] {
            assert!(decode::<Deployment>(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
