//! Laws of server-side apply, for fuzzers: random sequences of writes by a few managers, checked after each
//! write.

use super::managed::{ManagedFields, Operation, Owner};
use super::node::Node;
use super::set::FieldSet;
use super::{ObjectType, SYSTEM_FIELDS, Write, apply, keep_times, merge, track_update, walk};
use crate::dice::{Dice, kind};
use crate::resource::Reset;
use crate::schema::Type;
use crate::schema::decode::{Mode, normalize};
use crate::schema::fill::fill;
use serde_json::{Value, json};

/// Decodes the bytes into applies and updates and runs them.
pub(crate) fn fuzz(bytes: &[u8]) {
    let mut dice = Dice(bytes);
    let ty = kind(&mut dice);
    let mut live: Option<Value> = None;
    let mut only_applied = true;
    for step in 0..12 {
        if dice.is_empty() {
            return;
        }
        let now = format!("2024-05-01T10:00:{step:02}Z");
        let write = Write {
            manager: dice.pick(&["one", "two", "three"]),
            subresource: "",
            api_version: &ty.package.api_version(),
            now: &now,
            reset: Reset::Fields(&["status"]),
        };
        let body = stated(&mut dice, live.as_ref(), ty);
        let new = if dice.one_in(4) {
            only_applied = false;
            updated(live.as_ref(), &body, &write, ty)
        } else {
            let force = dice.one_in(2);
            let Ok(new) = apply(live.as_ref(), &body, &write, force, ObjectType::BuiltIn(ty)) else {
                assert!(!force, "what is forced is not refused");
                continue;
            };
            applied(live.as_ref(), &body, &new, &write, ty, only_applied);
            new
        };
        let new = stored(new, ty);
        readable(&new);
        live = Some(new);
    }
}

/// A generated object with its type and name, and scalars in canonical form.
fn stated(dice: &mut Dice<'_>, live: Option<&Value>, ty: &'static Type) -> Value {
    let mut object = match live {
        Some(live) if dice.one_in(2) => dice.variation(live, ty, 5),
        _ => dice.object(ty, 5),
    };
    object["apiVersion"] = json!(ty.package.api_version());
    object["kind"] = json!(ty.name);
    normalize(&mut object, ty, Mode::Partial).expect("its members have the right types");
    object["metadata"] = json!({"name": "x", "labels": {dice.pick(&["a", "b"]): dice.pick(&["1", "2"])}});
    object
}

/// The stored form of an object: zero values removed, and those that Kubernetes always prints added.
fn stored(mut object: Value, ty: &'static Type) -> Value {
    normalize(&mut object, ty, Mode::Whole).expect("its members have the right types");
    fill(&mut object, ty);
    object
}

/// Checks an update: no other manager owns the changed fields, and repeating the update changes nothing.
fn updated(live: Option<&Value>, body: &Value, write: &Write<'_>, ty: &'static Type) -> Value {
    let mut new = body.clone();
    normalize(&mut new, ty, Mode::Whole).expect("its members have the right types");
    track_update(live, &mut new, write, ObjectType::BuiltIn(ty));
    let new = stored(new, ty);
    let mut again = new.clone();
    track_update(
        Some(&new),
        &mut again,
        &Write { now: "2030-01-01T00:00:00Z", ..*write },
        ObjectType::BuiltIn(ty),
    );
    assert_eq!(again, new, "an update without a change");
    new
}

/// Checks the properties that hold after every apply.
fn applied(
    live: Option<&Value>,
    config: &Value,
    new: &Value,
    write: &Write<'_>,
    ty: &'static Type,
    only_applied: bool,
) {
    let (object, node) = (ObjectType::BuiltIn(ty), Node::Struct(ty));
    let later = Write { now: "2030-01-01T00:00:00Z", ..*write };
    let was = stored(new.clone(), ty);
    let again = apply(Some(&was), config, &later, false, object).expect("what is so is no conflict");
    let mut again = stored(again, ty);
    keep_times(&was, &mut again);
    assert_eq!(again, was, "the same configuration again");
    assert_eq!(stored(merge::merge(new, config, node), ty), was, "what is stated is so");
    let mut now = walk::fields(config, node);
    now.prune(&FieldSet::of_names(&["status"]));
    let now = now.difference(&FieldSet::of_names(SYSTEM_FIELDS));
    assert_eq!(owned_by(new, write.manager), now, "the manager owns what it states");
    let Some(live) = live.filter(|_| only_applied) else { return };
    let present = walk::fields(new, node);
    let mut others = FieldSet::default();
    for manager in
        ["one", "two", "three", super::BEFORE_FIRST_APPLY].iter().filter(|name| **name != write.manager)
    {
        others.extend(&owned_by(live, manager));
    }
    let wanted = now.union(&others).with_named(node);
    let left = owned_by(live, write.manager).difference(&wanted).intersection(&present);
    assert!(left.is_empty(), "nobody wants {:?} and it is there", left.paths());
}

fn owned_by(object: &Value, manager: &str) -> FieldSet {
    let owner = Owner::new(manager, Operation::Apply, "", "");
    ManagedFields::stored(object)
        .0
        .get(&owner)
        .map(|holding| holding.fields.set().into_owned())
        .unwrap_or_default()
}

/// Checks that managed fields survive decoding and encoding.
fn readable(object: &Value) {
    let managed = ManagedFields::sent(object).expect("managed fields of our own making can be decoded");
    let mut back = object.clone();
    managed.store(&mut back);
    assert_eq!(&back, object);
}
