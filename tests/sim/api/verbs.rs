//! Create, get, update and patch: successes, and refusals with Kubernetes' messages.

use super::{CONFIG_MAPS, DEPLOYMENTS, PODS, case, run, send, send_with};
use kstore_registry::user::UserInfo;
use kstore_tests::{Setup, manifests, simulate};
use serde_json::{Value, json};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const MODIFIED: &str = "Operation cannot be fulfilled on configmaps \"there\": the object has been modified; please apply your changes to the latest version and try again";

fn map(metadata: Value) -> Value {
    json!({ "metadata": metadata })
}

#[test]
fn objects_are_created_at_the_kind_and_namespace_of_the_url() {
    simulate(Setup::api_alone(), async |cluster| {
        let create = ("POST", CONFIG_MAPS);
        run(cluster, [
            case("kind and namespace default to the URL's", create, map(json!({"name": "a"})), 201,
                json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"namespace": "default", "generation": null}})),
            case("the name is taken", create, map(json!({"name": "a"})), 409,
                json!({"reason": "AlreadyExists", "message": "configmaps \"a\" already exists", "details": {"name": "a", "kind": "configmaps"}})),
            case("another namespace", create, map(json!({"name": "b", "namespace": "other"})), 400,
                json!({"message": "the namespace of the provided object does not match the namespace sent on the request"})),
            case("no such namespace", ("POST", "/api/v1/namespaces/none/configmaps"), map(json!({"name": "b"})), 404,
                json!({"message": "namespaces \"none\" not found"})),
            case("over all namespaces one can only look", ("POST", "/api/v1/configmaps"), map(json!({"name": "b"})), 405,
                json!({"reason": "MethodNotAllowed", "message": "the server does not allow this method on the requested resource"})),
            case("system metadata is the server's", create,
                map(json!({"name": "c", "uid": "mine", "generation": 7, "selfLink": "/x", "deletionTimestamp": "2020-01-01T00:00:00Z",
                    "deletionGracePeriodSeconds": 3, "creationTimestamp": "2020-01-01T00:00:00Z"})), 201,
                json!({"metadata": {"generation": null, "selfLink": null, "deletionTimestamp": null, "deletionGracePeriodSeconds": null}})),
            case("a cluster-scoped object has no namespace", ("POST", "/api/v1/namespaces"),
                json!({"metadata": {"name": "n", "namespace": "default"}}), 201, json!({"metadata": {"name": "n", "namespace": null}})),
        ]).await;
        let stored = cluster.get("configmaps", "default", "c").await.unwrap();
        assert_ne!(stored["metadata"]["uid"], "mine");
        assert_ne!(stored["metadata"]["creationTimestamp"], "2020-01-01T00:00:00Z");
    });
}

/// Kubernetes' storage refuses the field in `Create`, before it looks up the name: after validation, and not
/// in a dry run.
#[test]
fn a_resource_version_on_create_is_refused_after_validation_and_echoed_by_a_dry_run() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(manifests::config_map("taken", "1")).await;
        let create = ("POST", CONFIG_MAPS);
        let dry = format!("{CONFIG_MAPS}?dryRun=All");
        let versioned = |name: &str, version: &str| map(json!({"name": name, "resourceVersion": version}));
        let refused = json!({"message": "resourceVersion should not be set on objects to be created"});
        run(
            cluster,
            [
                case(
                    "validation precedes it",
                    create,
                    versioned("A b", "7"),
                    422,
                    json!({"reason": "Invalid"}),
                ),
                case("a create is refused", create, versioned("b", "7"), 500, refused.clone()),
                case("also under a taken name", create, versioned("taken", "7"), 500, refused),
                case(
                    "zero is none",
                    create,
                    versioned("zero", "0"),
                    201,
                    json!({"metadata": {"name": "zero"}}),
                ),
                case(
                    "nor is a word",
                    create,
                    versioned("word", "abc"),
                    201,
                    json!({"metadata": {"name": "word"}}),
                ),
                case(
                    "a dry run echoes it",
                    ("POST", &dry),
                    versioned("b", "7"),
                    201,
                    json!({"metadata": {"resourceVersion": "7"}}),
                ),
                case(
                    "and finds a taken name",
                    ("POST", &dry),
                    versioned("taken", "7"),
                    409,
                    json!({"reason": "AlreadyExists"}),
                ),
            ],
        )
        .await;
        assert_eq!(cluster.get("configmaps", "default", "b").await, None, "nothing was stored");
    });
}

#[test]
fn generated_names_end_with_five_unambiguous_characters() {
    simulate(Setup::api_alone(), async |cluster| {
        let long = "x".repeat(80);
        for (prefix, kept) in [("web-", "web-"), (long.as_str(), &long[..58])] {
            let reply = send(cluster, "POST", CONFIG_MAPS, &map(json!({ "generateName": prefix }))).await;
            let name = reply.text("/metadata/name");
            let suffix = name.strip_prefix(kept).unwrap();
            assert!(
                suffix.len() == 5 && suffix.chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)),
                "{name}"
            );
            assert_eq!(reply.text("/metadata/generateName"), prefix, "it stays in the object");
        }
        let named = map(json!({ "name": "mine", "generateName": "web-" }));
        assert_eq!(send(cluster, "POST", CONFIG_MAPS, &named).await.text("/metadata/name"), "mine");
    });
}

#[test]
fn a_terminating_object_occupies_its_name() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": ["x/y"]}})).await;
        run(cluster, [
            case("it is marked", ("DELETE", &format!("{CONFIG_MAPS}/a")), Value::Null, 200, json!({"metadata": {"deletionGracePeriodSeconds": 0}})),
            case("its name is taken", ("POST", CONFIG_MAPS), map(json!({"name": "a"})), 409,
                json!({"reason": "AlreadyExists", "message": "object is being deleted: configmaps \"a\" already exists"})),
        ]).await;
    });
}

#[test]
fn head_behaves_like_get_with_its_options() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(manifests::config_map("a", "1")).await;
        let one = format!("{CONFIG_MAPS}/a");
        assert_eq!(send_with(cluster, "HEAD", &one, &[]).await.code, 200);
        assert_eq!(send_with(cluster, "HEAD", &format!("{one}x"), &[]).await.code, 404);
        run(cluster, [
            case("a namespaced object has no path outside", ("GET", "/api/v1/configmaps/a"), Value::Null, 404,
                json!({"reason": "NotFound", "message": "the server could not find the requested resource"})),
            case("from the future", ("GET", &format!("{one}?resourceVersion=99999")), Value::Null, 504,
                json!({"reason": "Timeout", "details": {"retryAfterSeconds": 1}})),
        ]).await;
    });
}

#[test]
fn an_update_must_name_its_object_and_may_name_its_revision() {
    simulate(Setup::api_alone(), async |cluster| {
        let stale = cluster.create(manifests::config_map("there", "1")).await;
        let there = cluster.merge("configmaps", "there", json!({"data": {"value": "2"}})).await;
        let put = format!("{CONFIG_MAPS}/there");
        let put = ("PUT", put.as_str());
        run(cluster, [
            case("another name", put, map(json!({"name": "else"})), 400,
                json!({"message": "the name of the object (else) does not match the name on the URL (there)"})),
            case("no name", put, map(json!({})), 400,
                json!({"message": "the name of the object (there based on URL) was undeterminable: name must be provided"})),
            case("another namespace", put, map(json!({"name": "there", "namespace": "other"})), 400,
                json!({"message": "the namespace of the object (other) does not match the namespace on the request (default)"})),
            case("an old revision", put, stale.clone(), 409, json!({"reason": "Conflict", "message": MODIFIED})),
            case("no number", put, map(json!({"name": "there", "resourceVersion": "new"})), 400, json!({"reason": "BadRequest"})),
            case("a foreign uid", put, map(json!({"name": "there", "uid": "else"})), 409,
                json!({"reason": "Conflict", "message": "~Precondition failed: UID in precondition: else, UID in object meta: "})),
            case("an absent name", ("PUT", &format!("{CONFIG_MAPS}/none")), map(json!({"name": "none"})), 404, json!({"reason": "NotFound"})),
            case("an unchanged object is not written", put, there.clone(), 200,
                json!({"metadata": {"resourceVersion": there["metadata"]["resourceVersion"]}})),
            case("without a revision the last write wins", put, manifests::config_map("there", "3"), 200, json!({"data": {"value": "3"}})),
            case("nor does zero name one", put, json!({"metadata": {"name": "there", "resourceVersion": "0"}}), 200, json!({"data": null})),
        ]).await;
    });
}

#[test]
fn unconditional_updates_and_create_on_update_depend_on_the_kind() {
    simulate(Setup::api_alone(), async |cluster| {
        let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
        let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}});
        let one = format!("{budgets}/b");
        let lease = format!("{LEASES}/l");
        let named = |name: &str| json!({"metadata": {"name": name}});
        let required = json!({"reason": "Invalid", "details": {"kind": "poddisruptionbudgets", "group": "policy"},
            "message": "poddisruptionbudgets.policy \"b\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update"});
        run(cluster, [
            case("no creation by PUT", ("PUT", &one), budget.clone(), 404, json!({"reason": "NotFound"})),
            case("created", ("POST", budgets), budget.clone(), 201, json!({"metadata": {"generation": 1}})),
            case("PUT without a revision", ("PUT", &one), budget.clone(), 422, required.clone()),
            case("nor of its status", ("PUT", &format!("{one}/status")), budget.clone(), 422, required),
            case("a patch needs none", ("PATCH", &one), json!({"spec": {"minAvailable": 2}}), 200, json!({"spec": {"minAvailable": 2}})),
            case("PUT creates a Lease", ("PUT", &lease), named("l"), 201, json!({"kind": "Lease"})),
            case("with a revision it never had", ("PUT", &format!("{LEASES}/m")), json!({"metadata": {"name": "m", "resourceVersion": "7"}}), 201, json!({})),
            case("but not with the uid of a deleted object", ("PUT", &format!("{LEASES}/n")), json!({"metadata": {"name": "n", "uid": "old"}}), 409,
                json!({"message": "~Precondition failed: UID in precondition: old, UID in object meta: "})),
            case("the second PUT is an update", ("PUT", &lease), named("l"), 422, json!({"reason": "Invalid"})),
        ]).await;
    });
}

#[test]
fn a_put_that_creates_needs_permission_to_create() {
    simulate(Setup::api_alone(), async |cluster| {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "updater"},
            "rules": [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["update"]}]});
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "jane"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "updater"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]});
        cluster.create(role).await;
        cluster.create(binding).await;
        let jane = cluster.rest_as(UserInfo::new("jane", ["system:authenticated"]));
        let lease = json!({"metadata": {"name": "l"}});
        let reply = jane.call("PUT", &format!("{LEASES}/l"), lease.to_string()).await;
        assert_eq!(reply.code, 403, "{}", reply.text("/message"));
        assert!(reply.text("/message").contains("cannot create resource \"leases\""));
        assert_eq!(reply.headers["x-content-type-options"], "nosniff");
    });
}

#[test]
fn a_patch_cannot_change_kind_name_or_namespace() {
    simulate(Setup::api_alone(), async |cluster| {
        cluster.create(manifests::config_map("there", "1")).await;
        let there = cluster.merge("configmaps", "there", json!({"data": {"value": "2"}})).await;
        let path = format!("{CONFIG_MAPS}/there");
        let patch = ("PATCH", path.as_str());
        let version = &there["metadata"]["resourceVersion"];
        run(cluster, [
            case("another name", patch, json!({"metadata": {"name": "else"}}), 400,
                json!({"message": "the name of the object (else) does not match the name on the URL (there)"})),
            case("no name", patch, json!({"metadata": {"name": null}}), 400, json!({"message": "~name must be provided"})),
            case("another namespace", patch, json!({"metadata": {"namespace": "other"}}), 400,
                json!({"message": "~does not match the namespace"})),
            case("another uid", patch, json!({"metadata": {"uid": "else"}}), 422,
                json!({"reason": "Invalid", "message": "~metadata.uid: Invalid value: \"else\": field is immutable"})),
            case("an old revision", patch, json!({"metadata": {"resourceVersion": "1"}, "data": {"value": "9"}}), 409, json!({"message": MODIFIED})),
            case("the current one", patch, json!({"metadata": {"resourceVersion": version}, "data": {"value": "3"}}), 200, json!({"data": {"value": "3"}})),
            case("none", patch, json!([{"op": "replace", "path": "/data/value", "value": "4"}]), 200, json!({"data": {"value": "4"}})),
            case("an absent object", ("PATCH", &format!("{CONFIG_MAPS}/none")), json!({"data": {"a": "b"}}), 404, json!({"reason": "NotFound"})),
            case("status is not written here", ("POST", DEPLOYMENTS), manifests::deployment("web", 1), 201, json!({})),
            case("nor by a patch", ("PATCH", &format!("{DEPLOYMENTS}/web")), json!({"status": {"replicas": 7}}), 200, json!({"status": {"replicas": null}})),
            case("a pod's spec hardly moves", ("POST", PODS), manifests::pod("p", json!({})), 201, json!({"status": {"phase": "Pending"}})),
        ]).await;
        let before = cluster.store().revision();
        let same = send(cluster, "PATCH", &path, &json!({"data": {"value": "4"}})).await;
        assert_eq!(same.code, 200);
        assert_eq!(cluster.store().revision(), before, "a patch that changes nothing makes no revision");
    });
}
