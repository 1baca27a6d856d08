//! Managed fields of new objects. Which fields a creation owns depends on the shape of the object alone, and the objects of one program
//! have few shapes. So callers may remember the fields of a shape.

use super::managed::{EntryFields, ManagedFields, Operation, OwnedFields};
use super::walk::Difference;
use super::{ObjectType, VersionDifferences, Write, system_fields};
use serde_json::{Value, json};

/// Appends the shape of a new object to `out`: names of members, lists, and of other values only whether they are zero. Objects of the same
/// type and shape, created through the same endpoint, have the same [`created_fields`].
pub fn shape_of(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(b'n'),
        Value::Bool(false) => out.push(b'f'),
        Value::Bool(true) => out.push(b't'),
        Value::Number(number) => out.push(match number.is_f64() {
            true if number.as_f64() == Some(0.0) => b'y',
            false if number.as_u64() == Some(0) => b'z',
            _ => b'#',
        }),
        Value::String(text) => out.push(match &**text {
            "" => b'e',
            // The zero of a quantity.
            "0" => b'0',
            _ => b's',
        }),
        Value::Object(members) => {
            out.push(b'{');
            for (name, value) in members {
                out.extend(name.len().to_le_bytes());
                out.extend(name.as_bytes());
                shape_of(value, out);
            }
            out.push(b'}');
        }
        // Elements may be identified by any of their values.
        Value::Array(_) => {
            out.push(b'[');
            serde_json::to_writer(&mut *out, value).expect("a vector takes everything");
            out.push(b']');
        }
    }
}

/// Whether [`track_creation`] may set the managed fields of this new object: the request states none.
pub fn states_no_managed_fields(new: &Value) -> bool {
    new["metadata"].as_object().is_some_and(|metadata| !metadata.contains_key("managedFields"))
}

/// The fields that the creation of an object owns, as the JSON of an entry; `None` if it owns none.
pub fn created_fields(new: &Value, write: &Write<'_>, object: ObjectType<'_>) -> Option<Value> {
    let empty = json!({"metadata": {}});
    let created = VersionDifferences::new(&empty, new, write, object).into_own();
    let Difference { added: mut fields, modified, .. } = created;
    fields.append(modified);
    fields.subtract(system_fields());
    (!fields.is_empty()).then(|| fields.into_json())
}

/// Sets the managed fields of a new object to these [`created_fields`], as [`super::track_update`] does.
pub fn track_creation(new: &mut Value, write: &Write<'_>, fields: Option<Value>) {
    let mut managed = ManagedFields::default();
    if let Some(fields) = fields {
        let (api_version, time) = (write.api_version.to_owned(), write.now.to_owned());
        let owned = OwnedFields { fields: EntryFields::Text(fields), api_version, time };
        managed.0.insert(write.owner(Operation::Update), owned);
    }
    managed.store(new);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::{Dice, kind};
    use crate::patch::apply::track_update;
    use crate::resource::Reset;
    use crate::schema::Type;
    use crate::schema::decode::{Mode, normalize};
    use proptest::prelude::*;

    fn write<'a>(api_version: &'a str) -> Write<'a> {
        let (manager, now) = ("one", "2024-05-01T10:00:00Z");
        Write { manager, subresource: "", api_version, now, reset: Reset::Fields(&["status"]) }
    }

    fn object(dice: &mut Dice<'_>, ty: &'static Type) -> Value {
        let mut object = dice.object(ty, 5);
        object["apiVersion"] = json!(ty.package.api_version());
        object["kind"] = json!(ty.name);
        normalize(&mut object, ty, Mode::Partial).expect("its members have the right types");
        object["metadata"] =
            json!({"name": "x", "labels": {dice.pick(&["a", "b"]): dice.pick(&["1", "0", ""])}});
        object
    }

    /// Gives scalars outside of lists other values that are as zero as before.
    fn vary(value: &mut Value) {
        match value {
            Value::Object(members) => members.values_mut().for_each(vary),
            Value::String(text) if !matches!(&**text, "" | "0") => text.push('x'),
            Value::Number(number) if number.as_i64().is_some_and(|number| number > 0) => {
                *value = json!(number.as_i64().unwrap_or(1).saturating_add(1));
            }
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn objects_of_one_shape_own_the_fields_that_an_update_from_nothing_adds(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let mut dice = Dice(&bytes);
            let ty = kind(&mut dice);
            let (api_version, built_in) = (ty.package.api_version(), ObjectType::BuiltIn(ty));
            let write = write(&api_version);
            let one = object(&mut dice, ty);
            let mut other = one.clone();
            vary(&mut other);
            let shape = |object: &Value| {
                let mut shape = Vec::new();
                shape_of(object, &mut shape);
                shape
            };
            prop_assert_eq!(shape(&one), shape(&other));
            let fields = created_fields(&one, &write, built_in);
            prop_assert_eq!(&fields, &created_fields(&other, &write, built_in));
            let mut tracked = other.clone();
            track_update(None, &mut tracked, &write, built_in);
            prop_assert!(states_no_managed_fields(&other));
            track_creation(&mut other, &write, fields);
            prop_assert_eq!(other, tracked);
        }
    }

    #[test]
    fn shapes_differ_where_fields_may() {
        let shapes = [
            json!({}),
            json!({"a": 1}),
            json!({"a": 0}),
            json!({"a": 0.0}),
            json!({"a": null}),
            json!({"a": ""}),
            json!({"a": "0"}),
            json!({"a": "x"}),
            json!({"a": true}),
            json!({"a": false}),
            json!({"a": {}}),
            json!({"a": []}),
            json!({"a": [1]}),
            json!({"a": [2]}),
            json!({"a": {"b": 1}}),
            json!({"a": 1, "b": 1}),
            json!({"ab": 1}),
        ];
        let shape = |object: &Value| {
            let mut shape = Vec::new();
            shape_of(object, &mut shape);
            shape
        };
        for (at, one) in shapes.iter().enumerate() {
            for other in &shapes[at + 1..] {
                assert_ne!(shape(one), shape(other), "{one} {other}");
            }
        }
    }
}
