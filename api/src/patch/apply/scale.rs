//! Ownership of the replica count through the scale subresource. Scale and workload are two objects with the
//! same value, in `spec.replicas` of the Scale and at a path of the workload, and have separate managed fields.

use super::managed::{EntryFields, ManagedFields, OwnedFields, Owner};
use super::set::FieldSet;
use serde_json::{Value, json};

const SCALE_VERSION: &str = "autoscaling/v1";

/// Path of the replica count in a Scale and in every built-in workload.
pub const REPLICAS: [&str; 2] = ["spec", "replicas"];

/// Path of the replica count in a workload, as names of members.
#[derive(Clone, Debug)]
pub struct ReplicasPath(Vec<String>);

impl ReplicasPath {
    /// A path from the names of the members.
    pub fn new<'s>(names: impl IntoIterator<Item = &'s str>) -> Self {
        Self(names.into_iter().map(|name| format!("f:{name}")).collect())
    }

    fn is_in(&self, set: &FieldSet) -> bool {
        set.has_path(&self.0.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The set of this field alone, as an entry has it.
    fn fields(&self) -> Value {
        self.0.iter().rev().fold(json!({}), |below, element| json!({element: below}))
    }
}

/// Sets the managed fields of a Scale to those entries of its workload that own the replica count, which is at `path`.
pub fn managed_fields_of_scale(workload: &Value, path: &ReplicasPath, scale: &mut Value) {
    let own = ReplicasPath::new(REPLICAS);
    let owners = ManagedFields::stored(workload).0.into_iter().filter_map(|(owner, holding)| {
        path.is_in(&holding.fields.set()).then(|| in_version(owner, &holding, SCALE_VERSION, &own))
    });
    ManagedFields(owners.collect()).store(scale);
}

/// Transfers ownership of the replica count from a written Scale to its workload, where it is at `path`. Managers that lost the
/// field in the Scale lose it in the workload; managers that got it have an entry there.
pub fn managed_fields_of_workload(
    scale: &Value,
    workload: &mut Value,
    path: &ReplicasPath,
    api_version: &str,
) {
    let mut theirs: ManagedFields = ManagedFields(
        ManagedFields::stored(scale)
            .0
            .into_iter()
            .map(|(owner, owners)| in_version(owner, &owners, api_version, path))
            .collect(),
    );
    let mut managed = ManagedFields::stored(workload);
    let mut number = FieldSet::default();
    number.insert(&path.0);
    for (owner, holding) in &mut managed.0 {
        let fields = holding.fields.set();
        if path.is_in(&fields) && theirs.0.remove(owner).is_none() {
            holding.fields = EntryFields::Set(fields.difference(&number));
        }
    }
    managed.settle();
    // The entries get no time: Kubernetes does not carry the time of the Scale's write over.
    managed.0.extend(
        theirs.0.into_iter().map(|(owner, owners)| (owner, OwnedFields { time: String::new(), ..owners })),
    );
    managed.store(workload);
}

/// An entry for the replica count alone, in the other object's version and at its path there.
fn in_version(
    mut owner: Owner,
    holding: &OwnedFields,
    api_version: &str,
    path: &ReplicasPath,
) -> (Owner, OwnedFields) {
    if !owner.api_version.is_empty() {
        api_version.clone_into(&mut owner.api_version);
    }
    let fields = EntryFields::Text(path.fields());
    (owner, OwnedFields { fields, api_version: api_version.to_owned(), time: holding.time.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The count of a custom resource may be anywhere; a scaler owns it there.
    #[test]
    fn a_scaler_owns_the_replica_count_at_the_path_of_its_definition() {
        let path = ReplicasPath::new(["spec", "size", "count"]);
        let entry = |manager: &str, operation: &str, fields: Value| json!({"manager": manager, "operation": operation, "apiVersion": "e.io/v1", "fieldsType": "FieldsV1", "fieldsV1": fields});
        let count = json!({"f:spec": {"f:size": {"f:count": {}}}});
        let one = entry("one", "Apply", json!({"f:spec": {"f:name": {}, "f:size": {"f:count": {}}}}));
        let mut workload =
            json!({"metadata": {"managedFields": [one]}, "spec": {"name": "x", "size": {"count": 1}}});
        let mut scale = json!({"metadata": {}, "spec": {"replicas": 1}});
        managed_fields_of_scale(&workload, &path, &mut scale);
        let entries = &scale["metadata"]["managedFields"];
        assert_eq!(entries[0]["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}), "{entries}");
        assert_eq!(entries[0]["apiVersion"], SCALE_VERSION);
        let mut scaler = entry("scaler", "Update", json!({"f:spec": {"f:replicas": {}}}));
        scaler["subresource"] = "scale".into();
        scale["metadata"]["managedFields"] = json!([scaler]);
        managed_fields_of_workload(&scale, &mut workload, &path, "e.io/v1");
        let fields = |manager: &str| {
            let entries = workload["metadata"]["managedFields"].as_array().unwrap();
            entries.iter().find(|entry| entry["manager"] == manager).map(|entry| entry["fieldsV1"].clone())
        };
        assert_eq!(fields("one"), Some(json!({"f:spec": {"f:name": {}}})));
        assert_eq!(fields("scaler"), Some(count));
    }
}
