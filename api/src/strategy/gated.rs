//! Drops the members of features that a version of Kubernetes has and that are off in it, silently, as `PrepareForCreate` and
//! `PrepareForUpdate` do. The field table says which gates a member needs.

use crate::gate;
use crate::resource::Resource;
use crate::schema::marked::MarkedFields;
use crate::schema::{Field, Shape, Type};
use crate::version::Minor;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// The gates of a member, which name one feature together.
type Feature = &'static [&'static str];

/// Gates that other code decides: `Features`, since an operator can turn them on, and `claim`, which drops more than the member.
const ELSEWHERE: [&str; 3] =
    ["CrossNamespaceVolumeDataSource", "ClusterTrustBundleProjection", "GenericWorkload"];

/// Drops disabled members of an object. `old` is the object that an update replaces: a feature that it uses may stay in use.
pub(super) fn drop_gated(resource: &Resource, object: &mut Value, old: Option<&Value>) {
    let Some(ty) = resource.object_type() else { return };
    let types = disabled_fields(resource.minor);
    let mut disabled = BTreeSet::new();
    visit(types, object, ty, &mut |field, _| {
        disabled.insert(field.gates());
    });
    if disabled.is_empty() {
        return;
    }
    if let Some(old) = old {
        visit(types, old, ty, &mut |field, member| {
            if !member.is_null() {
                disabled.remove(field.gates());
            }
        });
    }
    remove(types, object, ty, &disabled);
}

/// Where objects of a version have members of disabled features. Few types have any: a write looks at these alone.
fn disabled_fields(minor: Minor) -> &'static MarkedFields {
    static ALL: [OnceLock<MarkedFields>; Minor::ALL.len()] = [const { OnceLock::new() }; Minor::ALL.len()];
    ALL[minor as usize].get_or_init(|| {
        let is_disabled = |field: &&Field| field.gates().iter().any(|gate| is_off(minor, gate));
        MarkedFields::find(minor, |ty| ty.fields.iter().filter(is_disabled).collect())
    })
}

/// Whether a feature is off in a version.
fn is_off(minor: Minor, gate: &str) -> bool {
    !ELSEWHERE.contains(&gate) && gate::find(minor, gate).is_some_and(|gate| !gate.is_on)
}

/// Shows each member of a disabled feature that a value of a type has. Its depth is that of the types, whose circles are JSON schemas
/// alone.
fn visit(
    types: &MarkedFields,
    value: &Value,
    ty: &'static Type,
    show: &mut dyn FnMut(&'static Field, &Value),
) {
    let (Some(fields), Some(members)) = (types.of(ty), value.as_object()) else { return };
    for field in &fields.own {
        if let Some(member) = members.get(field.name) {
            show(field, member);
        }
    }
    for field in &fields.below {
        let (Some(member), Some(below)) = (members.get(field.name), field.struct_type()) else { continue };
        match (field.shape, member) {
            (Shape::One, one) => visit(types, one, below, show),
            (_, Value::Array(items)) => items.iter().for_each(|item| visit(types, item, below, show)),
            (_, Value::Object(items)) => items.values().for_each(|item| visit(types, item, below, show)),
            _ => {}
        }
    }
}

/// Removes the members of these features, at any depth.
fn remove(types: &MarkedFields, value: &mut Value, ty: &'static Type, disabled: &BTreeSet<Feature>) {
    let (Some(fields), Some(members)) = (types.of(ty), value.as_object_mut()) else { return };
    for field in fields.own.iter().filter(|field| disabled.contains(field.gates())) {
        members.remove(field.name);
    }
    for field in &fields.below {
        let (Some(member), Some(below)) = (members.get_mut(field.name), field.struct_type()) else {
            continue;
        };
        match (field.shape, member) {
            (Shape::One, one) => remove(types, one, below, disabled),
            (_, Value::Array(items)) => {
                items.iter_mut().for_each(|item| remove(types, item, below, disabled));
            }
            (_, Value::Object(items)) => {
                items.values_mut().for_each(|item| remove(types, item, below, disabled));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::{Kinds, OptIn};
    use crate::schema::{all_minor, of_minor};
    use crate::strategy::{prepare_create, prepare_update};
    use serde_json::json;

    fn pods(minor: Minor) -> &'static Resource {
        Kinds::new(OptIn::version(minor), &[], &[]).lookup("", "v1", "pods").unwrap()
    }

    fn pod() -> Value {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
            "spec": {
                "hostnameOverride": "b",
                "resources": {"limits": {"cpu": "1"}},
                "containers": [{"name": "c", "image": "d", "restartPolicyRules": [{"action": "Restart"}]}],
            },
        })
    }

    #[test]
    fn members_are_dropped_where_their_gate_is_off_and_kept_where_it_is_on() {
        let kept = |minor: Minor| {
            let mut object = pod();
            prepare_create(pods(minor), &mut object);
            let spec = &object["spec"];
            let has = |value: &Value| u8::from(!value.is_null());
            let rules = &spec["containers"][0]["restartPolicyRules"];
            (has(&spec["hostnameOverride"]), has(&spec["resources"]), has(rules))
        };
        // A version that does not have a member refuses it earlier; the gates of members that it has decide here.
        assert_eq!(kept(Minor::V33).1, 0);
        assert_eq!(kept(Minor::V34), (0, 1, 0));
        assert_eq!(kept(Minor::V35), (1, 1, 1));
        assert_eq!(kept(Minor::V36), (1, 1, 1));
    }

    #[test]
    fn an_update_keeps_the_features_that_the_stored_object_uses() {
        let row = pods(Minor::V34);
        let old = json!({"metadata": {}, "spec": {
            "containers": [{"name": "e", "restartPolicyRules": [{"action": "Restart"}]}],
        }});
        let mut new = pod();
        prepare_update(row, "", &mut new, &old);
        assert!(new["spec"]["hostnameOverride"].is_null());
        let rules = &new["spec"]["containers"][0]["restartPolicyRules"];
        assert!(rules.is_array(), "any container with the field keeps it for all");
    }

    #[test]
    fn members_of_the_status_are_dropped_through_every_endpoint() {
        let row = pods(Minor::V33);
        let status = json!({"phase": "Running", "observedGeneration": 1});
        let old = json!({"metadata": {"name": "a"}, "spec": {}, "status": {"phase": "Pending"}});
        let mut new = json!({"metadata": {"name": "a"}, "spec": {}, "status": status});
        prepare_update(row, "status", &mut new, &old);
        assert_eq!(new["status"], json!({"phase": "Running"}));
    }

    #[test]
    fn dropping_again_changes_nothing_for_every_member_with_a_gate() {
        let mut count = 0;
        for minor in Minor::ALL {
            let types = disabled_fields(minor);
            let kinds = all_minor(minor).filter(|ty| ty.has_kind && ty.field("spec").is_some());
            for ty in kinds {
                let Some(spec) = ty.field("spec").and_then(Field::struct_type) else { continue };
                for field in spec.fields.iter().filter(|field| !field.gates().is_empty()) {
                    let mut object = json!({"spec": {field.name: 1}});
                    let off = field.gates().iter().any(|gate| is_off(minor, gate));
                    let disabled = BTreeSet::from([field.gates()]);
                    remove(types, &mut object, ty, &disabled);
                    assert_eq!(object["spec"].get(field.name).is_none(), off, "{minor} {}", field.name);
                    let once = object.clone();
                    remove(types, &mut object, ty, &disabled);
                    assert_eq!(object, once);
                    count += 1;
                }
            }
        }
        assert!(count > 10, "{count} members");
    }

    #[test]
    fn few_types_have_members_of_disabled_features() {
        for minor in Minor::ALL {
            let (with, all) = (disabled_fields(minor).len(), all_minor(minor).count());
            assert!((1..all / 3).contains(&with), "{minor}: {with} of {all} types");
            let maps = of_minor(minor, "", "v1", "ConfigMap").unwrap();
            assert!(disabled_fields(minor).of(maps).is_none(), "writes of it look at nothing");
        }
    }

    /// The members behind gates below a type, each with the fields on its way. JSON schemas, which contain themselves, have none.
    fn gated_paths(ty: &'static Type, way: &[&'static Field], found: &mut Vec<Vec<&'static Field>>) {
        for field in ty.fields {
            let own = [way, &[field]].concat();
            if !field.gates().is_empty() {
                found.push(own.clone());
            }
            if let Some(below) = field.struct_type().filter(|ty| ty.name != "JSONSchemaProps") {
                gated_paths(below, &own, found);
            }
        }
    }

    fn object_of(way: &[&'static Field]) -> Value {
        way.iter().rev().fold(json!("1"), |value, field| {
            let value = match field.shape {
                Shape::One => value,
                Shape::List => json!([value]),
                Shape::Map => json!({"k": value}),
            };
            json!({field.name: value})
        })
    }

    fn has(object: &Value, way: &[&'static Field]) -> bool {
        let found = way.iter().try_fold(object, |value, field| {
            let member = value.get(field.name)?;
            match field.shape {
                Shape::One => Some(member),
                Shape::List => member.get(0),
                Shape::Map => member.get("k"),
            }
        });
        found.is_some_and(|value| !value.is_null())
    }

    /// Members that gates do not decide here, by the end of their paths.
    const OTHERWISE: [(&str, &str); 4] = [
        (".projected.sources.clusterTrustBundle", "`Features` decides, since an operator can turn it on"),
        (".schedulingGroup", "`Features` decides, since an operator can turn it on"),
        (".workloadRef", "the same, in 1.35"),
        (".dataSourceRef.namespace", "in a template of claims, it is decided when the claim is made"),
    ];

    #[test]
    fn members_of_every_kind_are_kept_where_their_gates_are_on_and_dropped_where_they_are_not() {
        let (mut wrong, mut count) = (Vec::new(), 0);
        for minor in Minor::ALL {
            let kinds = Kinds::new(OptIn::version(minor), &[], &[]);
            let groups = kinds.groups().flat_map(|group| kinds.versions(group).map(move |own| (group, own)));
            let rows = groups.flat_map(|(group, version)| kinds.resources_of(group, version));
            for row in rows.filter(|row| row.is_stored()) {
                let mut ways = Vec::new();
                gated_paths(row.object_type().unwrap(), &[], &mut ways);
                for way in ways {
                    let path = way.iter().map(|field| field.name).collect::<Vec<_>>().join(".");
                    let is_off = |gate: &&str| gate::find(minor, gate).is_some_and(|gate| !gate.is_on);
                    let is_on = way.iter().all(|field| !field.gates().iter().any(is_off));
                    let mut object = object_of(&way);
                    if path.starts_with("status.") {
                        let old = json!({"metadata": {}, "spec": {}});
                        prepare_update(row, "status", &mut object, &old);
                    } else {
                        prepare_create(row, &mut object);
                    }
                    if has(&object, &way) != is_on {
                        wrong.push(format!("{minor} {}: {path}: expected {is_on}", row.kind));
                    }
                    count += 1;
                }
            }
        }
        wrong.retain(|line| !OTHERWISE.iter().any(|(path, _)| line.contains(path)));
        assert!(wrong.is_empty(), "{} of {count}: {wrong:#?}", wrong.len());
        assert!(count > 1000, "{count} members");
    }
}
