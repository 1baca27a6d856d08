//! Validation of object metadata: owner references, finalizers, resource versions.

use super::{CONFIG_MAPS, case, run, send, warnings};
use kstore_api::version::Minor;
use kstore_tests::{Setup, manifests, simulate};
use serde_json::{Value, json};

fn owner(name: &str, uid: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": uid})
}

fn map(metadata: Value) -> Value {
    let mut map = json!({ "metadata": metadata });
    map["metadata"]["name"] = json!("a");
    map
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn owner_references_are_complete_and_at_most_one_is_the_controller() {
    let setup = Setup::api_alone();
    let (empty_reason, empty, no_version) = match setup.minor < Minor::V37 {
        true => ("FieldValueInvalid", "Invalid value: \"\": must not be empty", "version must not be empty"),
        false => (
            "FieldValueRequired",
            "Required value: must not be empty",
            "must be <group>/<version> or <version>",
        ),
    };
    simulate(setup, async |cluster| {
        let with_owners = |owners: Value| map(json!({ "ownerReferences": owners }));
        let of_reason = |reason: &str, field: &str, message: &str| json!({"reason": "Invalid", "details": {"causes": [{"reason": reason, "field": field, "message": message}]}});
        let cause = |field: &str, message: &str| of_reason("FieldValueInvalid", field, message);
        let with = |member: &str, value: Value| {
            let mut owner = owner("web", "1");
            owner[member] = value;
            with_owners(json!([owner]))
        };
        let mut first = owner("web", "1");
        first["controller"] = json!(true);
        let mut second = owner("db", "2");
        second["controller"] = json!(true);
        let both = format!(
            "Invalid value: {}: Only one reference can have Controller set to true. Found \"true\" in references for Deployment/web and Deployment/db",
            json!([first, second])
        );
        let create = ("POST", CONFIG_MAPS);
        run(
            cluster,
            [
                case(
                    "no version",
                    create,
                    with("apiVersion", json!("apps/")),
                    422,
                    cause(
                        "metadata.ownerReferences.apiVersion",
                        &format!("Invalid value: \"apps/\": {no_version}"),
                    ),
                ),
                case(
                    "no kind",
                    create,
                    with("kind", json!("")),
                    422,
                    of_reason(empty_reason, "metadata.ownerReferences.kind", empty),
                ),
                case(
                    "no name",
                    create,
                    with("name", json!("")),
                    422,
                    of_reason(empty_reason, "metadata.ownerReferences.name", empty),
                ),
                case(
                    "no uid",
                    create,
                    with("uid", json!("")),
                    422,
                    of_reason(empty_reason, "metadata.ownerReferences.uid", empty),
                ),
                case(
                    "an event",
                    create,
                    with_owners(json!([{"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "1"}])),
                    422,
                    json!({"message": "~/v1, Kind=Event is disallowed from being an owner"}),
                ),
                case(
                    "two controllers",
                    create,
                    with_owners(json!([first, second])),
                    422,
                    cause("metadata.ownerReferences", &both),
                ),
                case(
                    "an owner that does not exist",
                    create,
                    with_owners(json!([owner("missing", "1")])),
                    201,
                    json!({}),
                ),
            ],
        )
        .await;
    });
}

#[test]
fn duplicate_owner_references_are_removed_with_a_warning() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut other = owner("web", "1");
        other["blockOwnerDeletion"] = json!(true);
        let twice = json!([owner("web", "1"), other, owner("web", "1"), owner("db", "2"), owner("db", "2")]);
        let once = json!([owner("web", "1"), other, owner("db", "2")]);
        let said = |when: &str| {
            vec![format!(
                "299 - \".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, \
                and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: 1, 2\""
            )]
        };
        let made = send(cluster, "POST", CONFIG_MAPS, &map(json!({"ownerReferences": twice}))).await;
        assert_eq!(
            (made.code, warnings(&made), &made.json()["metadata"]["ownerReferences"]),
            (201, said(""), &once)
        );
        let one = format!("{CONFIG_MAPS}/a");
        let put = send(cluster, "PUT", &one, &map(json!({"ownerReferences": twice}))).await;
        assert_eq!(
            (put.code, warnings(&put), &put.json()["metadata"]["ownerReferences"]),
            (200, said(""), &once)
        );
        let patched = send(cluster, "PATCH", &one, &json!({"metadata": {"ownerReferences": twice}})).await;
        let when = " after mutating admission happens";
        assert_eq!(
            (patched.code, warnings(&patched), &patched.json()["metadata"]["ownerReferences"]),
            (200, said(when), &once)
        );
        assert_eq!(
            patched.text("/metadata/resourceVersion"),
            made.text("/metadata/resourceVersion"),
            "nothing changed"
        );
    });
}

#[test]
fn finalizers_are_qualified_or_standard_and_not_contradictory() {
    simulate(Setup::api_alone(), async |cluster| {
        let held = |finalizers: Value| map(json!({ "finalizers": finalizers }));
        let create = ("POST", CONFIG_MAPS);
        let one = format!("{CONFIG_MAPS}/a");
        let unknown = "metadata.finalizers[0]: Invalid value: \"mine\": name is neither a standard finalizer name nor is it fully qualified";
        run(
            cluster,
            [
                case(
                    "without a domain",
                    create,
                    held(json!(["mine"])),
                    422,
                    json!({"message": format!("ConfigMap \"a\" is invalid: {unknown}")}),
                ),
                case(
                    "no name at all",
                    create,
                    held(json!(["a/b/c"])),
                    422,
                    json!({"message": "~metadata.finalizers: Invalid value: \"a/b/c\": "}),
                ),
                case(
                    "both ways to delete",
                    create,
                    held(json!(["orphan", "foregroundDeletion"])),
                    422,
                    json!({"message": "~finalizer orphan and foregroundDeletion cannot be both set"}),
                ),
                case(
                    "good ones",
                    create,
                    held(json!(["example.com/a", "orphan"])),
                    201,
                    json!({"metadata": {"finalizers": ["example.com/a", "orphan"]}}),
                ),
                case(
                    "also an update keeps to it",
                    ("PATCH", &one),
                    json!({"metadata": {"finalizers": ["mine"]}}),
                    422,
                    json!({"message": format!("~{unknown}")}),
                ),
            ],
        )
        .await;
    });
}

#[test]
fn resource_versions_are_increasing_decimal_strings_over_all_kinds() {
    simulate(Setup::api_alone(), async |cluster| {
        let mut last = 0_u64;
        for name in ["a", "b", "c"] {
            for object in [manifests::config_map(name, "1"), manifests::namespace(&format!("n-{name}"))] {
                let made = cluster.create(object).await;
                let text = made["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
                let revision: u64 = text.parse().unwrap();
                assert!(revision > last && !text.starts_with('0'), "{text} after {last}");
                last = revision;
            }
        }
        let list = send(cluster, "GET", CONFIG_MAPS, &Value::Null).await;
        assert_eq!(
            list.text("/metadata/resourceVersion"),
            last.to_string(),
            "a list is of the newest revision of anything"
        );
    });
}

#[test]
fn new_objects_get_a_unique_uid_and_creation_time() {
    simulate(Setup::api_alone(), async |cluster| {
        let a = cluster.create(manifests::config_map("a", "1")).await;
        let b = cluster.create(manifests::config_map("b", "1")).await;
        let uid = |object: &Value| object["metadata"]["uid"].as_str().unwrap().to_owned();
        let is_random = |uid: &str| {
            let parts: Vec<&str> = uid.split('-').collect();
            let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
            lengths == [8, 4, 4, 4, 12]
                && parts[2].starts_with('4')
                && parts[3].starts_with(['8', '9', 'a', 'b'])
        };
        assert!(is_random(&uid(&a)) && is_random(&uid(&b)) && uid(&a) != uid(&b), "{a} {b}");
        let time = a["metadata"]["creationTimestamp"].as_str().unwrap();
        assert!(
            time.len() == 20 && time.ends_with('Z') && time.as_bytes()[10] == b'T',
            "{time}: whole seconds, UTC"
        );
        assert_eq!(a["metadata"].get("generation"), None, "a kind without generations shows none");
    });
}
