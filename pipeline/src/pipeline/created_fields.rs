//! [`CreatedFields`]: the managed fields of objects that were created before, by their shapes. The pods of a set and the events of a
//! component have few shapes, and to find out their fields takes longer than to copy them.

use kstore_api::patch::apply::{self, ObjectType, Write};
use kstore_api::resource::Resource;
use kstore_nondet::HashMap;
use kstore_storage::limits::{CREATED_SHAPE_BYTES, CREATED_SHAPES};
use parking_lot::RwLock;
use serde_json::Value;
use std::sync::Arc;

/// Fields by the row of the kind and the shape of the object.
#[derive(Default)]
pub(super) struct CreatedFields(RwLock<HashMap<Vec<u8>, Arc<Option<Value>>>>);

impl CreatedFields {
    /// Sets the managed fields of a new object of a built-in kind. The request states none.
    pub(super) fn track(
        &self,
        resource: &'static Resource,
        new: &mut Value,
        write: &Write<'_>,
        object: ObjectType<'_>,
    ) {
        // A row says the type and what its endpoint does not write.
        let mut shape = std::ptr::from_ref(resource).addr().to_le_bytes().to_vec();
        apply::shape_of(new, &mut shape);
        let known = self.0.read().get(&shape).cloned();
        let fields = known.unwrap_or_else(|| {
            let fields = Arc::new(apply::created_fields(new, write, object));
            if shape.len() <= CREATED_SHAPE_BYTES {
                let mut all = self.0.write();
                if all.len() >= CREATED_SHAPES {
                    all.clear();
                }
                all.insert(shape, Arc::clone(&fields));
            }
            fields
        });
        apply::track_creation(new, write, (*fields).clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::kind;
    use kstore_api::patch::apply::{reset_fields, track_update};
    use serde_json::json;

    #[test]
    fn the_fields_are_those_of_each_kind_and_shape_and_the_memory_is_bounded() {
        let rows = [("", "v1", "configmaps"), ("apps", "v1", "deployments")];
        let rows = rows.map(|(group, version, plural)| kind::lookup(group, version, plural).unwrap());
        let fields = CreatedFields::default();
        for n in 0..2 * CREATED_SHAPES {
            for row in rows {
                let object = json!({"apiVersion": row.api_version(), "kind": row.kind, "metadata": {"name": format!("a{n}"),
                    "labels": {format!("l{}", n / 3): "x"}}, "data": {"a": "b"}, "spec": {"replicas": n}});
                let api_version = row.api_version();
                let write = Write {
                    manager: "test",
                    subresource: "",
                    api_version: &api_version,
                    now: "2024-05-01T10:00:00Z",
                    reset: reset_fields(row, ""),
                };
                let ty =
                    ObjectType::BuiltIn(kstore_api::schema::of(row.group, row.version, row.kind).unwrap());
                let (mut remembered, mut fresh) = (object.clone(), object);
                fields.track(row, &mut remembered, &write, ty);
                track_update(None, &mut fresh, &write, ty);
                assert_eq!(remembered, fresh);
                assert!(fields.0.read().len() <= CREATED_SHAPES);
            }
        }
    }
}
