//! Property tests of definitions: accepted names never overlap, waiting definitions are accepted, and nothing
//! panics.

use crate::crd::definition::Names;
use crate::crd::{Definition, columns, condition, deletion, discovery, names, strategy, validate};
use crate::meta;
use crate::openapi::definition as openapi;
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};
use proptest::prop_assert_eq;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const NOW: &str = "2026-01-01T00:00:00Z";

/// Write to a group: a definition with its names, or its deletion.
#[derive(Clone, Debug)]
struct Write {
    definition: usize,
    names: Option<[usize; 4]>,
}

fn write() -> impl Strategy<Value = Write> {
    let names = prop::option::weighted(0.85, prop::array::uniform4(0..4_usize));
    (0..4_usize, names).prop_map(|(definition, names)| Write { definition, names })
}

fn crd(write: &Write, at: usize) -> Value {
    let [singular, short, kind, list] = write.names.unwrap_or_default();
    json!({"metadata": {"name": format!("p{}.x.dev", write.definition),
            "creationTimestamp": format!("2026-01-01T00:00:{at:02}Z")},
        "spec": {"group": "x.dev", "names": {"plural": format!("p{}", write.definition),
            "singular": format!("n{singular}"), "shortNames": [format!("n{short}"), format!("s{short}")],
            "kind": format!("K{kind}"), "listKind": format!("K{list}List")}}})
}

fn resources(names: &Names) -> BTreeSet<String> {
    let own = [&names.plural, &names.singular].into_iter().chain(&names.short_names);
    own.filter(|name| !name.is_empty()).map(ToString::to_string).collect()
}

fn kinds(names: &Names) -> BTreeSet<String> {
    [&names.kind, &names.list_kind]
        .into_iter()
        .filter(|name| !name.is_empty())
        .map(ToString::to_string)
        .collect()
}

fn plan(group: &mut [Value]) {
    let all: Vec<&Value> = group.iter().collect();
    let changes = names::plan_names(&all, NOW);
    for (name, status) in changes {
        let own = group.iter_mut().find(|own| meta::name(own) == name).unwrap();
        own["status"] = status;
    }
}

fn check(group: &[Value]) {
    let accepted: Vec<Names> = group.iter().map(|own| Names::of(&own["status"]["acceptedNames"])).collect();
    for (i, own) in accepted.iter().enumerate() {
        for other in &accepted[i + 1..] {
            assert!(resources(own).is_disjoint(&resources(other)), "{own:?} {other:?}");
            assert!(kinds(own).is_disjoint(&kinds(other)), "{own:?} {other:?}");
        }
        let crd = &group[i];
        let wanted = Names::of(&crd["spec"]["names"]);
        assert_eq!(condition::is_true(crd, condition::NAMES_ACCEPTED), wanted == *own, "{crd}");
        // A definition waits only for names that another one has.
        let others: Vec<&Names> =
            accepted.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, own)| own).collect();
        let free = |name: &str| {
            others.iter().all(|own| !resources(own).contains(name) && !kinds(own).contains(name))
        };
        let all = [&wanted.plural, &wanted.singular, &wanted.kind, &wanted.list_kind];
        if all.into_iter().chain(&wanted.short_names).all(|name| free(name)) {
            assert_eq!(wanted, *own);
            assert!(condition::is_true(crd, condition::ESTABLISHED));
        }
    }
}

/// Arbitrary JSON, often with members of definitions.
fn json_like() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z.\\[\\]'(@?*:]{0,8}".prop_map(Value::from),
        prop_oneof![Just("object"), Just("array"), Just("string"), Just("map"), Just("set"), Just("v1")]
            .prop_map(Value::from),
    ];
    let member = prop_oneof![
        Just("spec"),
        Just("status"),
        Just("metadata"),
        Just("name"),
        Just("names"),
        Just("versions"),
        Just("schema"),
        Just("openAPIV3Schema"),
        Just("properties"),
        Just("items"),
        Just("type"),
        Just("default"),
        Just("allOf"),
        Just("additionalProperties"),
        Just("x-kubernetes-list-type"),
        Just("x-kubernetes-list-map-keys"),
        Just("x-kubernetes-embedded-resource"),
        Just("x-kubernetes-validations"),
        Just("rule"),
        Just("conditions"),
        Just("acceptedNames"),
        Just("storage"),
        Just("group"),
        Just("kind"),
        Just("plural"),
        Just("conversion"),
        Just("selectableFields"),
        Just("jsonPath"),
        Just("additionalPrinterColumns"),
        Just("finalizers"),
    ];
    leaf.prop_recursive(8, 96, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((member.clone(), inner), 0..6).prop_map(|members| {
                Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
            }),
        ]
    })
}

/// A definition that compiles, with arbitrary schema, columns and fields.
fn plausible(schema: &Value, rest: &Value) -> Value {
    json!({"metadata": {"name": "foos.x.dev"}, "spec": {"group": "x.dev", "scope": "Namespaced",
        "names": {"plural": "foos", "singular": "foo", "kind": "Foo", "listKind": "FooList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            "additionalPrinterColumns": [rest], "selectableFields": [rest], "subresources": rest}]}})
}

fn use_everything(crd: &Value, old: &Value) {
    let mut own = crd.clone();
    strategy::set_defaults(&mut own);
    let once = own.clone();
    strategy::set_defaults(&mut own);
    assert_eq!(own, once);
    drop((validate::create(crd), validate::update(crd, old), validate::update_status(crd)));
    drop(validate::check_rules(crd, Some(old)));
    drop((strategy::warnings(crd, Some(old)), names::plan_names(&[crd, old], NOW)));
    strategy::prepare_create(&mut own);
    strategy::prepare_update(&mut own, old);
    strategy::prepare_status_update(&mut own, old);
    if own.is_object() {
        deletion::begin(&mut own, NOW);
        deletion::finish(&mut own, deletion::Progress::Completed, NOW);
    }
    let Ok(definition) = Definition::compile(crd) else { return };
    for version in &definition.versions {
        let now = meta::parse_time(NOW).unwrap();
        assert_eq!(columns::cells(&version.columns, old, now).len(), version.columns.len());
        version.selectable.iter().for_each(|field| drop(field.value(old)));
        if let Some(scale) = &version.scale {
            drop((scale.of(old), scale.check_spec(old), scale.check_status(old)));
            drop(scale.apply(&json!({"spec": {"replicas": 1}}), &mut old.clone()));
        }
        drop((
            discovery::api_resources(&definition, version),
            discovery::aggregated_resource(&definition, version),
        ));
        drop((openapi::v3(&definition, crd, &version.name), openapi::v2(&definition, crd, &version.name)));
    }
}

proptest! {
    #[test]
    fn accepted_names_never_overlap_and_waiting_definitions_are_accepted(writes in prop::collection::vec(write(), 1..24)) {
        let mut group: Vec<Value> = Vec::new();
        for (at, write) in writes.iter().enumerate() {
            let mut new = crd(write, at);
            let old = group.iter().position(|own| meta::name(own) == meta::name(&new));
            match (old, write.names) {
                (Some(old), None) => drop(group.remove(old)),
                (None, None) => {}
                (Some(old), Some(_)) => {
                    new["metadata"] = group[old]["metadata"].clone();
                    new["status"] = group[old]["status"].clone();
                    group[old] = new;
                }
                (None, Some(_)) => group.push(new),
            }
            plan(&mut group);
            check(&group);
            let all: Vec<&Value> = group.iter().collect();
            prop_assert_eq!(names::plan_names(&all, "2027-01-01T00:00:00Z"), vec![]);
        }
    }

    #[test]
    fn arbitrary_json_never_panics(crd in json_like(), old in json_like(), rest in json_like()) {
        use_everything(&crd, &old);
        use_everything(&plausible(&crd, &rest), &old);
    }
}
