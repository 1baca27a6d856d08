//! Members of stored objects that a version of Kubernetes does not have: a server of a newer version wrote them. A server whose rows say
//! that there may be such data drops them when it reads the object, as kube-apiserver does, and the next write of the object removes them
//! from the storage.

use crate::schema::{Elem, Field, Shape, Type};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::fmt;

/// The members of a stored object that the type lacks, each as its path without indexes and keys, such as `spec.containers.x`. A text that
/// is not JSON has none.
pub fn unknown_members(ty: &'static Type, json: &[u8]) -> Vec<String> {
    let (mut path, mut unknown) = (Vec::new(), Vec::new());
    let walk = Members { shape: Shape::One, ty, path: &mut path, unknown: &mut unknown };
    let mut text = serde_json::Deserializer::from_slice(json);
    // What is malformed is reported by those who decode the object.
    let _ = walk.deserialize(&mut text);
    unknown.sort_unstable();
    unknown.dedup();
    unknown
}

/// Removes the members that the type lacks.
pub(super) fn remove_unknown(value: &mut Value, ty: &'static Type) {
    let Some(members) = value.as_object_mut() else { return };
    members.retain(|name, member| {
        let Some(field) = ty.field(name) else { return false };
        if let Some(inner) = struct_of(field) {
            match (field.shape, member) {
                (Shape::One, one) => remove_unknown(one, inner),
                (_, Value::Array(items)) => items.iter_mut().for_each(|item| remove_unknown(item, inner)),
                (_, Value::Object(items)) => {
                    items.values_mut().for_each(|item| remove_unknown(item, inner));
                }
                _ => {}
            }
        }
        true
    });
}

/// The struct type of a field whose members are looked at: those of JSON schemas and of embedded objects are of no version.
fn struct_of(field: &Field) -> Option<&'static Type> {
    match field.elem {
        Elem::Struct(id) => Some(id.get()),
        _ => None,
    }
}

/// A walk over the members of a value of a type, which allocates nothing for known ones.
struct Members<'w> {
    shape: Shape,
    ty: &'static Type,
    path: &'w mut Vec<&'static str>,
    unknown: &'w mut Vec<String>,
}

impl Members<'_> {
    /// The walk of a part of the value.
    fn part(&mut self, shape: Shape, ty: &'static Type) -> Members<'_> {
        Members { shape, ty, path: &mut *self.path, unknown: &mut *self.unknown }
    }

    fn report(&mut self, name: &str) {
        let mut path = self.path.clone().join(".");
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(name);
        self.unknown.push(path);
    }
}

impl<'de> DeserializeSeed<'de> for Members<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let ty = self.ty;
        if self.shape == Shape::Map {
            while map.next_key::<IgnoredAny>()?.is_some() {
                map.next_value_seed(self.part(Shape::One, ty))?;
            }
            return Ok(());
        }
        while let Some(member) = map.next_key_seed(Name(ty))? {
            match member.map(|field| (field, struct_of(field))) {
                Ok((field, Some(inner))) => {
                    self.path.push(field.name);
                    map.next_value_seed(self.part(field.shape, inner))?;
                    self.path.pop();
                }
                Ok((_, None)) => {
                    map.next_value::<IgnoredAny>()?;
                }
                Err(name) => {
                    self.report(&name);
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        let ty = self.ty;
        while items.next_element_seed(self.part(Shape::One, ty))?.is_some() {}
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// The name of a member of a type: its field, or the name of an unknown one.
struct Name(&'static Type);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Result<&'static Field, String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Result<&'static Field, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.field(name).ok_or_else(|| name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{Kinds, OptIn};
    use crate::schema;
    use crate::stored;
    use crate::version::Minor;
    use serde_json::json;

    fn pod(minor: Minor) -> &'static Type {
        schema::of_minor(minor, "", "v1", "Pod").unwrap()
    }

    fn newer() -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"x": "y"}, "managedFields": [
            {"fieldsV1": {"f:spec": {"f:hostnameOverride": {}}}}]},
            "spec": {"hostnameOverride": "h", "priority": 1, "nodeName": null, "schedulingGroup": {"podGroupName": "g"},
                "containers": [{"name": "c", "restartPolicyRules": [{"action": "Restart"}], "ports": []},
                    {"name": "d", "env": [{"name": "e", "valueFrom": {"fileKeyRef": {"path": "p"}}}]}],
                "volumes": [{"name": "v", "projected": {"sources": [{"podCertificate": {"signerName": "s"}}]}}]},
            "status": {}})
    }

    #[test]
    fn members_that_a_version_lacks_are_found_at_any_depth() {
        let found = |minor| unknown_members(pod(minor), newer().to_string().as_bytes());
        let expected = [
            "spec.containers.env.valueFrom.fileKeyRef",
            "spec.containers.restartPolicyRules",
            "spec.hostnameOverride",
            "spec.schedulingGroup",
            "spec.volumes.projected.sources.podCertificate",
        ];
        assert_eq!(found(Minor::V33), expected);
        assert_eq!(found(Minor::V34), ["spec.schedulingGroup"]);
        assert_eq!(found(Minor::V36), [""; 0]);
        assert_eq!(unknown_members(pod(Minor::V33), b"{\"spec\": 1, \"status\": tru"), [""; 0]);
        assert_eq!(unknown_members(pod(Minor::V33), b"not JSON"), [""; 0]);
    }

    #[test]
    fn reads_of_newer_data_drop_them_and_keep_the_rest() {
        let pods = |opt_in| Kinds::new(opt_in, &[], &[]).lookup("", "v1", "pods").unwrap();
        let bytes = crate::object::encode_stored(&newer());
        let own = pods(OptIn::version(Minor::V33));
        assert!(stored::read(own, &bytes).unwrap().is_none(), "its own data have no such members");
        let newest = pods(OptIn::version(Minor::V36).with_newer_data());
        assert!(stored::read(newest, &bytes).unwrap().is_none(), "it has all members");
        let older = pods(OptIn::version(Minor::V33).with_newer_data());
        let read = stored::read(older, &bytes).unwrap().unwrap();
        let object: Value = serde_json::from_slice(&read).unwrap();
        let spec = json!({"priority": 1, "nodeName": null, "containers": [{"name": "c", "ports": []},
            {"name": "d", "env": [{"name": "e", "valueFrom": {}}]}],
            "volumes": [{"name": "v", "projected": {"sources": [{}]}}]});
        assert_eq!(object["spec"], spec);
        assert_eq!(object["metadata"], newer()["metadata"], "names in other members stay");
        assert!(stored::read(older, &read).unwrap().is_none(), "nothing is left to drop");
        let written = crate::wire::protobuf::encode(&newer()).unwrap();
        let read = stored::read(older, &written).unwrap().unwrap();
        assert_eq!(unknown_members(pod(Minor::V33), &read), [""; 0], "protobuf of kube-apiserver");
    }
}
