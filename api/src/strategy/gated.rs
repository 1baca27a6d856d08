//! Drops the members of features that a version of Kubernetes has and that are off in the server, silently, as `PrepareForCreate` and
//! `PrepareForUpdate` do. The field table says which gates a member needs.

use crate::gate::GateSet;
use crate::resource::Resource;
use crate::schema::marked::MarkedFields;
use crate::schema::{Field, Shape, Type, all_minor};
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
    let (minor, gates) = (resource.minor, resource.gates);
    let types = match gates.is_default() {
        true => disabled_fields(minor),
        false => gated_fields(minor),
    };
    let mut disabled = BTreeSet::new();
    visit(types, object, ty, &mut |field, _| {
        if is_disabled(field, minor, gates) {
            disabled.insert(field.gates());
        }
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

/// Where objects of a version have members of features that are off by default. Few types have any: a write looks at these alone.
fn disabled_fields(minor: Minor) -> &'static MarkedFields {
    static ALL: [OnceLock<MarkedFields>; Minor::ALL.len()] = [const { OnceLock::new() }; Minor::ALL.len()];
    ALL[minor as usize].get_or_init(|| {
        let marked = |field: &&Field| is_disabled(field, minor, GateSet::DEFAULT);
        MarkedFields::find(minor, |ty| ty.fields.iter().filter(marked).collect())
    })
}

/// Where objects of a version have members of features that a server may have or not. Servers with other gates than those by default look
/// at all of them, so that one table serves every set of gates.
fn gated_fields(minor: Minor) -> &'static MarkedFields {
    static ALL: [OnceLock<MarkedFields>; Minor::ALL.len()] = [const { OnceLock::new() }; Minor::ALL.len()];
    ALL[minor as usize].get_or_init(|| {
        MarkedFields::find(minor, |ty| ty.fields.iter().filter(|field| !field.gates().is_empty()).collect())
    })
}

/// Whether a gate of a member is off, and decides about it here.
fn is_disabled(field: &Field, minor: Minor, gates: GateSet) -> bool {
    field.gates().iter().any(|gate| !ELSEWHERE.contains(gate) && gates.lacks(minor, gate))
}

/// Whether the gate decides about members of objects in a version.
pub(crate) fn is_of_members(minor: Minor, gate: &str) -> bool {
    all_minor(minor).any(|ty| ty.fields.iter().any(|field| field.gates().contains(&gate)))
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
                    let off = is_disabled(field, minor, GateSet::DEFAULT);
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

    /// A member behind gates, and its kind in a version.
    struct Gated {
        row: &'static Resource,
        way: Vec<&'static Field>,
    }

    impl Gated {
        fn path(&self) -> String {
            self.way.iter().map(|field| field.name).collect::<Vec<_>>().join(".")
        }

        /// Whether every gate of the member, and of those around it, is on.
        fn is_on(&self, gates: GateSet) -> bool {
            let mut all = self.way.iter().flat_map(|field| field.gates());
            all.all(|gate| !gates.lacks(self.row.minor, gate))
        }

        /// The member's fault if a write through a server with these gates does not keep or drop it as they say.
        fn fault(&self, gates: GateSet) -> Option<String> {
            let row = &*Box::leak(Box::new(self.row.of_view(self.row.minor, gates, false)));
            let (path, is_on) = (self.path(), self.is_on(gates));
            let mut object = object_of(&self.way);
            if path.starts_with("status.") {
                prepare_update(row, "status", &mut object, &json!({"metadata": {}, "spec": {}}));
            } else {
                prepare_create(row, &mut object);
            }
            let is_otherwise = OTHERWISE.iter().any(|(end, _)| path.contains(end));
            (has(&object, &self.way) != is_on && !is_otherwise)
                .then(|| format!("{} {}: {path}: expected {is_on}", row.minor, row.kind))
        }
    }

    /// The members behind gates of every stored kind of a version.
    fn all_gated(minor: Minor) -> Vec<Gated> {
        let kinds = Kinds::new(OptIn::version(minor), &[], &[]);
        let groups = kinds.groups().flat_map(|group| kinds.versions(group).map(move |own| (group, own)));
        let rows = groups.flat_map(|(group, version)| kinds.resources_of(group, version));
        let mut all = Vec::new();
        for row in rows.filter(|row| row.is_stored()) {
            let mut ways = Vec::new();
            gated_paths(row.object_type().unwrap(), &[], &mut ways);
            all.extend(ways.into_iter().map(|way| Gated { row, way }));
        }
        all
    }

    #[test]
    fn members_of_every_kind_are_kept_where_their_gates_are_on_and_dropped_where_they_are_not() {
        let (mut wrong, mut count) = (Vec::new(), 0);
        for member in Minor::ALL.into_iter().flat_map(all_gated) {
            wrong.extend(member.fault(GateSet::DEFAULT));
            count += 1;
        }
        assert!(wrong.is_empty(), "{} of {count}: {wrong:#?}", wrong.len());
        assert!(count > 1000, "{count} members");
    }

    #[test]
    fn an_operator_turns_the_members_of_each_gate_on_and_off() {
        let (mut wrong, mut turned) = (Vec::new(), [0, 0]);
        for minor in Minor::ALL {
            let every = GateSet::of(minor, |gate| gate.is_on || !gate.is_locked);
            let none = GateSet::of(minor, |gate| gate.is_on && gate.is_locked);
            for member in all_gated(minor) {
                wrong.extend([every, none].into_iter().filter_map(|gates| member.fault(gates)));
                for name in member.way.iter().flat_map(|field| field.gates()) {
                    let other =
                        GateSet::of(minor, |gate| gate.is_on != (gate.name == *name && !gate.is_locked));
                    wrong.extend(member.fault(other));
                    let is_turned = member.is_on(other) != member.is_on(GateSet::DEFAULT);
                    turned[usize::from(member.is_on(other))] += usize::from(is_turned);
                }
            }
        }
        assert!(wrong.is_empty(), "{}: {wrong:#?}", wrong.len());
        assert!(turned.iter().all(|count| *count > 200), "{turned:?} members turned off, and on");
    }

    #[test]
    fn members_of_a_feature_that_an_operator_turned_off_stay_where_they_are_in_use() {
        let gates = GateSet::of(Minor::V36, |gate| gate.is_on && gate.name != "ContainerRestartRules");
        let kinds = Kinds::new(OptIn::version(Minor::V36).with_gates(gates), &[], &[]);
        let row = kinds.lookup("", "v1", "pods").unwrap();
        let rules = |object: &Value| !object["spec"]["containers"][0]["restartPolicyRules"].is_null();
        let (mut made, mut kept, old) = (pod(), pod(), pod());
        prepare_create(row, &mut made);
        prepare_update(row, "", &mut kept, &old);
        assert!(!rules(&made) && rules(&kept) && made["spec"]["hostnameOverride"] == "b");
    }

    #[test]
    fn stop_signals_and_foreign_sources_follow_their_gates() {
        let with = |names: &'static [&'static str], plural: &str, object: &Value| {
            let gates = GateSet::of(Minor::V37, |gate| gate.is_on || names.contains(&gate.name));
            let kinds = Kinds::new(OptIn::default().with_gates(gates), &[], &[]);
            let mut object = object.clone();
            prepare_create(kinds.lookup("", "v1", plural).unwrap(), &mut object);
            object
        };
        let pod = json!({"metadata": {}, "spec": {"containers": [
            {"name": "a", "lifecycle": {"stopSignal": "SIGUSR1"}},
        ]}});
        let signals: &[&str] = &["ContainerStopSignals"];
        let lifecycle = |gates| with(gates, "pods", &pod)["spec"]["containers"][0]["lifecycle"].clone();
        assert_eq!((lifecycle(&[]), lifecycle(signals)), (Value::Null, json!({"stopSignal": "SIGUSR1"})));
        let source = json!({"kind": "PersistentVolumeClaim", "name": "b", "namespace": "c"});
        let claim = json!({"metadata": {}, "spec": {"dataSourceRef": source}});
        let found = |gates| with(gates, "persistentvolumeclaims", &claim)["spec"]["dataSourceRef"].clone();
        assert_eq!((found(&[]), found(&["CrossNamespaceVolumeDataSource"])), (Value::Null, source));
    }
}
