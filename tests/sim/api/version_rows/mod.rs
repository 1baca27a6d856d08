//! Every row of the tables of kinds and fields by which versions of Kubernetes differ, against a server of each version. The objects
//! that are sent, and what each version must answer, are made from the rows (`tables`): a new row is tested without a line here.

mod facts;
mod tables;

use super::own_writes::{OBJECTS, base};
use kstore_api::kind::{self, Kinds, OptIn};
use kstore_api::resource::Resource;
use kstore_api::version::Minor;
use kstore_tests::{Rest, Setup, simulate};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use tables::Tables;

/// Types and members with marks that no object has which a server of these tests creates, with the reason.
const NOT_REACHED: &[(&str, &str)] = &[
    ("authentication/v1.TokenRequestSpec", "the body of a subresource"),
    ("core/v1.EphemeralContainerCommon", "its members are those of EphemeralContainer"),
    ("meta/v1.ListMeta", "in answers alone"),
];

/// The kinds that a server of the version has without flags.
pub(super) fn rows(minor: Minor) -> Vec<&'static Resource> {
    let kinds = Kinds::new(OptIn::version(minor), &[], &[]);
    let rows = kinds.groups().flat_map(|group| {
        let kinds = &kinds;
        kinds.versions(group).flat_map(move |version| kinds.resources_of(group, version))
    });
    rows.collect()
}

/// The name of a kind's type in the tables.
fn type_of(row: &Resource) -> String {
    let ty = row.object_type().expect("a built-in kind has a type");
    format!("{}.{}", ty.package.short, ty.name)
}

/// The fields that a refusal of a strict request calls unknown.
fn unknown_fields(message: &str) -> BTreeSet<String> {
    let named = message.split("unknown field \"").skip(1);
    named.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

fn each(mut test: impl AsyncFnMut(Minor, &Rest)) {
    for minor in Minor::SERVED {
        simulate(Setup::api_alone().kubernetes(minor), async |cluster| {
            let account =
                json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
            cluster.create(account).await;
            test(minor, &cluster.rest()).await;
        });
    }
}

#[test]
fn a_member_that_a_version_lacks_is_unknown_in_it_and_decoded_in_the_others() {
    let tables = Tables::read();
    let (mut reached, mut count) = (BTreeSet::new(), [0; Minor::ALL.len()]);
    each(async |minor, rest| {
        for row in rows(minor).into_iter().filter(|row| row.supports("create")) {
            let ty = type_of(row);
            let Some(mut object) = tables.probe(&ty, &[], &mut reached) else { continue };
            object["apiVersion"] = json!(row.api_version());
            object["kind"] = json!(row.kind);
            object["metadata"]["name"] = json!("a");
            let path = format!("{}?dryRun=All&fieldValidation=Strict", base(row));
            let reply = rest.call("POST", &path, object.to_string()).await;
            let (expected, message) = (tables.unknown(minor, &ty, &object, ""), reply.text("/message"));
            assert_eq!(unknown_fields(&message), expected, "{minor} {}: {message}", row.plural);
            assert!(expected.is_empty() || reply.code == 400, "{minor} {}: {}", row.plural, reply.code);
            assert!(!message.contains("unmarshal"), "{minor} {}: {message}", row.plural);
            count[minor as usize] += expected.len();
        }
    });
    let not_reached: BTreeMap<_, _> = NOT_REACHED.iter().copied().collect();
    let missed: Vec<_> = tables.marked().into_iter().filter(|member| !reached.contains(member)).collect();
    let unexpected: Vec<_> = missed
        .iter()
        .filter(|member| {
            !not_reached.keys().any(|named| *member == named || member.starts_with(&format!("{named}.")))
        })
        .collect();
    assert!(unexpected.is_empty(), "no object has {unexpected:#?}");
    // The newest version lacks only what Kubernetes removed.
    assert!(count.iter().all(|count| *count > 5), "unknown members by version: {count:?}");
}

/// The value at a path as a refusal spells it, such as `spec.containers[0].name`.
fn at<'v>(object: &'v Value, path: &str) -> Option<&'v Value> {
    let pointer = path.replace(['.', '['], "/").replace(']', "");
    object.pointer(&format!("/{pointer}")).filter(|value| !value.is_null())
}

#[test]
fn complete_objects_keep_the_members_that_the_version_has_and_whose_gates_are_on() {
    let tables = Tables::read();
    let (mut sent, mut compared) = (0, [[0; 2]; Minor::ALL.len()]);
    let entries = OBJECTS.iter().flat_map(|file| serde_json::from_str::<Vec<Value>>(file).expect("objects"));
    let entries: Vec<Value> = entries.filter(|entry| !entry["variants"].is_object()).collect();
    each(async |minor, rest| {
        let kinds = Kinds::new(OptIn::version(minor), &[], &[]);
        for mut object in entries.iter().map(|entry| entry["object"].clone()) {
            let text = |member: &str| object[member].as_str().expect("an object names its kind").to_owned();
            let row = kinds.lookup_api_version(&text("apiVersion"), &text("kind"));
            let Some(row) = row.filter(|row| row.is_served()) else { continue };
            if row.namespaced {
                object["metadata"]["namespace"] = json!("default");
            }
            let path = format!("{}?dryRun=All&fieldValidation=Warn", base(row));
            let reply = rest.call("POST", &path, object.to_string()).await;
            if reply.code != 201 {
                // A rule of this version about values; the members are those of the test above.
                continue;
            }
            let (ty, answer) = (type_of(row), reply.json());
            for path in tables.unknown(minor, &ty, &object, "") {
                assert!(at(&answer, &path).is_none(), "{minor} {}: {path} is not dropped", row.kind);
                compared[minor as usize][0] += 1;
            }
            for (path, is_on) in tables.gated(minor, &ty, &object) {
                let is_kept = at(&answer, &path).is_some();
                let is_below_status = path.starts_with("status");
                assert!(is_kept == is_on || is_below_status, "{minor} {}: {path}: {is_kept}", row.kind);
                compared[minor as usize][1] += 1;
            }
            sent += 1;
        }
    });
    assert!(sent > 300, "{sent} objects were accepted; compared: {compared:?}");
    assert!(compared.iter().all(|[_, gated]| *gated > 3), "{compared:?}");
}

#[test]
fn a_kind_is_served_by_the_versions_whose_rows_have_it_and_by_no_others() {
    let all: BTreeMap<String, &Resource> = Minor::SERVED
        .into_iter()
        .flat_map(rows)
        .filter(|row| row.supports("list"))
        .map(|row| (base(row), row))
        .collect();
    let mut differing = BTreeSet::new();
    each(async |minor, rest| {
        let own: BTreeSet<String> = rows(minor).into_iter().map(base).collect();
        for (path, row) in &all {
            let is_served = own.contains(path);
            let reply = rest.call("GET", path, "").await;
            assert_eq!(reply.code, if is_served { 200 } else { 404 }, "{minor} {path}");
            let discovery = path.split("/namespaces/").next().expect("a text has a first part");
            let root = discovery.strip_suffix(&format!("/{}", row.plural)).unwrap_or(discovery);
            let listed = rest.call("GET", root, "").await.json();
            let resources = listed["resources"].as_array().map(Vec::as_slice).unwrap_or_default();
            let is_listed = resources.iter().any(|resource| resource["name"] == row.plural);
            assert_eq!(is_listed, is_served, "{minor} {root} {}", row.plural);
            if !is_served {
                differing.insert(path.clone());
            }
        }
    });
    assert!(differing.len() > 8, "{differing:?}");
    assert!(kind::RESOURCES.iter().all(|row| !row.supports("list") || all.contains_key(&base(row))));
}
