//! Objects that cannot be read, with and without the feature AllowUnsafeMalformedObjectDeletion.

use super::{CONFIG_MAPS, case, query, run};
use kstore_registry::user::UserInfo;
use kstore_tests::{Cluster, Setup, manifests, simulate};
use serde_json::{Value, json};

const OPTION: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
const VERB: &str = "unsafe-delete-ignore-read-errors";

/// Stores a value that is no object, in place of a ConfigMap.
async fn corrupt(cluster: &Cluster, name: &str) {
    cluster.store().put(&format!("/registry/configmaps/default/{name}"), b"{".to_vec()).await.unwrap();
}

#[test]
fn corrupt_objects_are_deleted_by_those_who_may_and_by_their_option_alone() {
    simulate(Setup::api_alone().unsafe_deletion(), async |cluster| {
        let start = cluster.create(manifests::config_map("whole", "1")).await;
        corrupt(cluster, "a").await;
        corrupt(cluster, "b").await;
        let one = format!("{CONFIG_MAPS}/a");
        let asked = json!({OPTION: true});
        let with = |member: &str, value: Value| json!({OPTION: true, member: value});
        run(cluster, [
            case("a read", ("GET", &one), Value::Null, 500, json!({"reason": "InternalError", "message": "~StorageError: corrupt object, Code: 7, Key: /configmaps/default/a"})),
            case("a list", ("GET", CONFIG_MAPS), Value::Null, 500, json!({"reason": "StorageReadError",
                "message": "~failed to read one or more configmaps from the storage: object not decodable", "details": {"kind": "configmaps", "name": "/registry/configmaps/"}})),
            case("without the option", ("DELETE", &one), Value::Null, 500, json!({})),
            case("a collection", ("DELETE", CONFIG_MAPS), asked.clone(), 422, json!({"reason": "Invalid",
                "message": "~Invalid value: true: is not allowed with DELETECOLLECTION, try again after removing the option"})),
            case("a grace period", ("DELETE", &one), with("gracePeriodSeconds", json!(0)), 422, json!({"message": "~cannot be set together with .gracePeriodSeconds"})),
            case("preconditions", ("DELETE", &one), with("preconditions", json!({"uid": "u"})), 422, json!({"message": "~cannot be set together with .preconditions"})),
            case("a readable object", ("DELETE", &format!("{CONFIG_MAPS}/whole")), asked.clone(), 422,
                json!({"message": "~is exclusively used to delete corrupt object(s), try again by removing this option"})),
            case("no object", ("DELETE", &format!("{CONFIG_MAPS}/none")), asked.clone(), 404, json!({})),
            case("a trial", ("DELETE", &format!("{one}?dryRun=All&{OPTION}=true")), Value::Null, 200, json!({"status": "Success"})),
            case("the object", ("DELETE", &one), asked.clone(), 200, json!({"kind": "Status", "status": "Success", "code": 200, "details": {"name": "a", "kind": "ConfigMap"}})),
            case("gone", ("GET", &one), Value::Null, 404, json!({})),
        ]).await;
        // A watch that meets one ends with the error, and so does one that would begin with one.
        let watch = query(cluster, CONFIG_MAPS, "watch=1&timeoutSeconds=1&resourceVersion=0").await;
        assert!(
            String::from_utf8_lossy(&watch.body).contains("\"reason\":\"StorageReadError\""),
            "{:?}",
            watch.body
        );
        let start = start["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let watch =
            query(cluster, CONFIG_MAPS, &format!("watch=1&timeoutSeconds=1&resourceVersion={start}")).await;
        assert_eq!(watch.code, 200, "the history has no object that cannot be read");
    });
}

#[test]
fn an_unsafe_deletion_needs_a_verb_of_its_own() {
    simulate(Setup::api_alone().unsafe_deletion(), async |cluster| {
        corrupt(cluster, "a").await;
        let rule = |verb: &str| json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": [verb]});
        let role = |name: &str, verb: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule(verb)]});
        let binding = |name: &str| {
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]})
        };
        let jane = cluster.rest_as(UserInfo::new("jane", ["dev"]));
        let delete = async || {
            jane.call("DELETE", &format!("{CONFIG_MAPS}/a"), json!({OPTION: true}).to_string()).await
        };
        cluster.create(role("deletes", "delete")).await;
        cluster.create(binding("deletes")).await;
        let refused = delete().await;
        let message = format!("configmaps \"a\" is forbidden: not permitted to do \"{VERB}\", reason: ");
        assert_eq!((refused.code, refused.text("/message")), (403, message));
        cluster.create(role("unsafely", VERB)).await;
        cluster.create(binding("unsafely")).await;
        assert_eq!(delete().await.code, 200);
    });
}

#[test]
fn without_the_feature_the_option_is_dropped_and_lists_leave_the_object_out() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(manifests::config_map("whole", "1")).await;
        corrupt(cluster, "a").await;
        run(
            cluster,
            [
                case("a list", ("GET", CONFIG_MAPS), Value::Null, 200, json!({"kind": "ConfigMapList"})),
                case(
                    "a collection",
                    ("DELETE", CONFIG_MAPS),
                    json!({OPTION: true}),
                    200,
                    json!({"kind": "ConfigMapList"}),
                ),
                case(
                    "the object",
                    ("DELETE", &format!("{CONFIG_MAPS}/a")),
                    json!({OPTION: true}),
                    200,
                    json!({"status": "Success"}),
                ),
                case("gone", ("GET", &format!("{CONFIG_MAPS}/a")), Value::Null, 404, json!({})),
            ],
        )
        .await;
    });
}
