//! Ownership of `spec.replicas` seen through the scale of a workload: the same field under two names, in two objects with books of
//! their own.

use serde_json::{Value, json};

use super::managed::{Fields, Holding, Managed, Owner};
use super::set::FieldSet;

/// Where a Scale, and every workload of the table, has its number.
const REPLICAS: [&str; 2] = ["f:spec", "f:replicas"];

const SCALE_VERSION: &str = "autoscaling/v1";

/// Gives a Scale the books of its workload, as far as they are about the number.
pub fn books_of_scale(workload: &Value, scale: &mut Value) {
    let held = Managed::stored(workload).0.into_iter().filter_map(|(owner, holding)| {
        holding.fields.set().has_path(&REPLICAS).then(|| in_version(owner, &holding, SCALE_VERSION))
    });
    Managed(held.collect()).store(scale);
}

/// Brings what a write to the Scale did to its books into those of the workload: who lost the number there loses it here, who got
/// it there has an entry for it here.
pub fn books_of_workload(scale: &Value, workload: &mut Value, api_version: &str) {
    let mut theirs: Managed = Managed(
        Managed::stored(scale)
            .0
            .into_iter()
            .map(|(owner, held)| in_version(owner, &held, api_version))
            .collect(),
    );
    let mut books = Managed::stored(workload);
    let number = FieldSet::of_names(&["spec.replicas"]);
    for (owner, holding) in &mut books.0 {
        let fields = holding.fields.set();
        if fields.has_path(&REPLICAS) && theirs.0.remove(owner).is_none() {
            holding.fields = Fields::Set(fields.difference(&number));
        }
    }
    books.settle();
    // The moment is that of the write to the Scale, which Kubernetes does not carry over.
    books
        .0
        .extend(theirs.0.into_iter().map(|(owner, held)| (owner, Holding { time: String::new(), ..held })));
    books.store(workload);
}

/// An entry about the number alone, in the words of the other object.
fn in_version(mut owner: Owner, holding: &Holding, api_version: &str) -> (Owner, Holding) {
    if !owner.api_version.is_empty() {
        api_version.clone_into(&mut owner.api_version);
    }
    let fields = Fields::Text(json!({"f:spec": {"f:replicas": {}}}));
    (owner, Holding { fields, api_version: api_version.to_owned(), time: holding.time.clone() })
}
