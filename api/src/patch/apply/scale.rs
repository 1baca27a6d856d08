//! Ownership of `spec.replicas` through the scale subresource. Scale and workload are two objects with the
//! same field and separate managed fields.

use serde_json::{Value, json};

use super::managed::{EntryFields, ManagedFields, OwnedFields, Owner};
use super::set::FieldSet;

/// Path of the replica count in a Scale and in every built-in workload.
const REPLICAS: [&str; 2] = ["f:spec", "f:replicas"];

const SCALE_VERSION: &str = "autoscaling/v1";

/// Sets the managed fields of a Scale to those entries of its workload that own the replica count.
pub fn managed_fields_of_scale(workload: &Value, scale: &mut Value) {
    let held = ManagedFields::stored(workload).0.into_iter().filter_map(|(owner, holding)| {
        holding.fields.set().has_path(&REPLICAS).then(|| in_version(owner, &holding, SCALE_VERSION))
    });
    ManagedFields(held.collect()).store(scale);
}

/// Transfers ownership of the replica count from a written Scale to its workload. Managers that lost the
/// field in the Scale lose it in the workload; managers that got it have an entry there.
pub fn managed_fields_of_workload(scale: &Value, workload: &mut Value, api_version: &str) {
    let mut theirs: ManagedFields = ManagedFields(
        ManagedFields::stored(scale)
            .0
            .into_iter()
            .map(|(owner, held)| in_version(owner, &held, api_version))
            .collect(),
    );
    let mut managed = ManagedFields::stored(workload);
    let number = FieldSet::of_names(&["spec.replicas"]);
    for (owner, holding) in &mut managed.0 {
        let fields = holding.fields.set();
        if fields.has_path(&REPLICAS) && theirs.0.remove(owner).is_none() {
            holding.fields = EntryFields::Set(fields.difference(&number));
        }
    }
    managed.settle();
    // The entries get no time: Kubernetes does not carry the time of the Scale's write over.
    managed.0.extend(
        theirs.0.into_iter().map(|(owner, held)| (owner, OwnedFields { time: String::new(), ..held })),
    );
    managed.store(workload);
}

/// An entry for the replica count alone, in the other object's version.
fn in_version(mut owner: Owner, holding: &OwnedFields, api_version: &str) -> (Owner, OwnedFields) {
    if !owner.api_version.is_empty() {
        api_version.clone_into(&mut owner.api_version);
    }
    let fields = EntryFields::Text(json!({"f:spec": {"f:replicas": {}}}));
    (owner, OwnedFields { fields, api_version: api_version.to_owned(), time: holding.time.clone() })
}
