//! Users, groups and permissions: impersonation, access reviews, and privilege escalation checks.

use super::{CONFIG_MAPS, ask, case, run, send};
use kstore_registry::user::UserInfo;
use kstore_tests::{Cluster, Reply, Rest, Setup, simulate};
use serde_json::{Value, json};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

fn jane(cluster: &Cluster) -> Rest {
    cluster.rest_as(UserInfo::new("jane", ["dev"]))
}

/// A SelfSubjectReview by the administrator with these headers.
async fn whoami(cluster: &Cluster, headers: &[(&str, &str)]) -> Reply {
    let request =
        http::Request::builder().method("POST").uri("/apis/authentication.k8s.io/v1/selfsubjectreviews");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    cluster.rest().send(request.body("{}".into()).unwrap()).await
}

#[test]
fn impersonation_sets_user_groups_uid_and_extras() {
    simulate(Setup::api_alone(), async |cluster| {
        let authenticated = "system:authenticated";
        for (headers, wanted) in [
            (vec![], json!({"username": "kubernetes-admin", "groups": ["system:masters", authenticated]})),
            (vec![("impersonate-user", "jane")], json!({"username": "jane", "groups": [authenticated]})),
            (
                vec![
                    ("impersonate-user", "jane"),
                    ("impersonate-group", "dev"),
                    ("impersonate-group", "ops"),
                    ("impersonate-uid", "7"),
                    ("impersonate-extra-a%2fb", "c"),
                ],
                json!({"username": "jane", "uid": "7", "groups": ["dev", "ops", authenticated], "extra": {"a/b": ["c"]}}),
            ),
            (
                vec![("impersonate-user", "system:serviceaccount:ns:robot")],
                json!({"username": "system:serviceaccount:ns:robot", "groups": ["system:serviceaccounts", "system:serviceaccounts:ns", authenticated]}),
            ),
            (
                vec![("impersonate-user", "system:anonymous")],
                json!({"username": "system:anonymous", "groups": ["system:unauthenticated"]}),
            ),
        ] {
            let reply = whoami(cluster, &headers).await;
            if headers.iter().any(|(_, name)| *name == "system:anonymous") {
                assert_eq!(reply.code, 403, "a stranger may not even ask");
                continue;
            }
            assert_eq!((reply.code, &reply.json()["status"]["userInfo"]), (201, &wanted), "{headers:?}");
        }
        let without_user = whoami(cluster, &[("impersonate-group", "dev")]).await;
        assert_eq!(
            (without_user.code, without_user.text("/message").as_str()),
            (
                400,
                "requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"dev\"}, Extra:map[string][]string(nil)} without \
                 impersonating a user name"
            )
        );
        let as_jane = ask(cluster, "GET", CONFIG_MAPS, &[("impersonate-user", "jane")]).await;
        assert!(
            as_jane.code == 403 && as_jane.text("/message").contains("User \"jane\" cannot list"),
            "{}",
            as_jane.text("/message")
        );
    });
}

#[test]
fn impersonation_of_each_attribute_needs_its_own_permission() {
    simulate(Setup::api_alone(), async |cluster| {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "actor"},
            "rules": [{"apiGroups": [""], "resources": ["users"], "resourceNames": ["joe"], "verbs": ["impersonate"]}]});
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "actor"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "actor"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]});
        cluster.create(role).await;
        cluster.create(binding).await;
        let review_as = async |headers: &[(&str, &str)]| {
            let request = http::Request::builder()
                .method("POST")
                .uri("/apis/authentication.k8s.io/v1/selfsubjectreviews");
            let request =
                headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
            jane(cluster).send(request.body("{}".into()).unwrap()).await
        };
        assert_eq!(review_as(&[("impersonate-user", "joe")]).await.text("/status/userInfo/username"), "joe");
        for (headers, resource, name) in [
            (vec![("impersonate-user", "jim")], "users", "jim"),
            (vec![("impersonate-user", "joe"), ("impersonate-group", "ops")], "groups", "ops"),
            (vec![("impersonate-user", "joe"), ("impersonate-uid", "7")], "uids.authentication.k8s.io", "7"),
            (
                vec![("impersonate-user", "joe"), ("impersonate-extra-scope", "all")],
                "userextras.authentication.k8s.io",
                "all",
            ),
            (vec![("impersonate-user", "system:serviceaccount:ns:robot")], "serviceaccounts", "robot"),
        ] {
            let reply = review_as(&headers).await;
            let begins =
                format!("{resource} \"{name}\" is forbidden: User \"jane\" cannot impersonate resource \"");
            assert_eq!(
                (reply.code, reply.text("/message").starts_with(&begins)),
                (403, true),
                "{headers:?}: {}",
                reply.text("/message")
            );
        }
    });
}

#[test]
fn constrained_impersonation_allows_what_roles_say_and_no_more() {
    simulate(Setup::api_alone(), async |cluster| {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "constrained"},
        "rules": [
            {"apiGroups": ["authentication.k8s.io"], "resources": ["users"], "resourceNames": ["joe"], "verbs": ["impersonate:user-info"]},
            {"apiGroups": ["authentication.k8s.io"], "resources": ["nodes"], "verbs": ["impersonate:arbitrary-node"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["impersonate-on:user-info:list"]},
            {"nonResourceURLs": ["/version"], "verbs": ["impersonate-on:user-info:get"]},
            {"apiGroups": [""], "resources": ["nodes"], "resourceNames": ["n1"], "verbs": ["impersonate-on:arbitrary-node:get"]},
        ]});
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "constrained"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "constrained"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]});
        cluster.create(role).await;
        cluster.create(binding).await;
        let get_as = async |path: &str, user: &str| {
            let request = http::Request::builder().method("GET").uri(path).header("impersonate-user", user);
            jane(cluster).send(request.body("".into()).unwrap()).await
        };
        // The impersonated user is the one that authorization names.
        for (path, user, code, message) in [
            (CONFIG_MAPS, "joe", 403, "User \"joe\" cannot list resource \"configmaps\""),
            ("/version", "joe", 200, ""),
            ("/api/v1/nodes/n1", "system:node:n1", 404, "nodes \"n1\" not found"),
            (
                CONFIG_MAPS,
                "jim",
                403,
                "users.authentication.k8s.io \"jim\" is forbidden: User \"jane\" cannot impersonate:user-info",
            ),
            (
                &format!("{CONFIG_MAPS}/a"),
                "joe",
                403,
                "User \"jane\" cannot impersonate-on:user-info:get resource \"configmaps\"",
            ),
            ("/metrics", "joe", 403, "User \"jane\" cannot impersonate-on:user-info:get path \"/metrics\""),
            (
                "/api/v1/nodes/n2",
                "system:node:n2",
                403,
                "User \"jane\" cannot impersonate-on:arbitrary-node:get resource \"nodes\"",
            ),
        ] {
            let reply = get_as(path, user).await;
            let shown = reply.text("/message");
            assert!(
                reply.code == code && shown.contains(message),
                "{path} as {user}: {} {shown}",
                reply.code
            );
        }
    });
}

#[test]
fn access_reviews_answer_with_a_reason_and_are_not_stored() {
    simulate(Setup::api_alone(), async |cluster| {
        let post = "/apis/authorization.k8s.io/v1";
        let access = |spec: Value| json!({ "spec": spec });
        let pods = json!({"namespace": "default", "verb": "get", "resource": "pods"});
        let before = cluster.store().revision();
        let subject = format!("{post}/subjectaccessreviews");
        let local = format!("{post}/namespaces/default/localsubjectaccessreviews");
        let own = format!("{post}/selfsubjectaccessreviews");
        run(cluster, [
            case("oneself", ("POST", &own), access(json!({"resourceAttributes": pods})), 201, json!({"kind": "SelfSubjectAccessReview", "status": {"allowed": true}})),
            case("a path", ("POST", &own), access(json!({"nonResourceAttributes": {"path": "/metrics", "verb": "get"}})), 201, json!({"status": {"allowed": true}})),
            case("a user", ("POST", &subject), access(json!({"user": "jane", "resourceAttributes": pods})), 201, json!({"status": {"allowed": false, "denied": null}})),
            case("a group", ("POST", &subject), access(json!({"groups": ["system:authenticated"], "user": "x", "nonResourceAttributes": {"path": "/version", "verb": "get"}})), 201,
                json!({"status": {"allowed": true, "reason": "~RBAC: allowed by ClusterRoleBinding \"system:"}})),
            case("both", ("POST", &own), access(json!({"resourceAttributes": pods, "nonResourceAttributes": {"path": "/", "verb": "get"}})), 422,
                json!({"message": "~spec.nonResourceAttributes: Invalid value: "})),
            case("neither", ("POST", &own), access(json!({})), 422, json!({"message": "~exactly one of nonResourceAttributes or resourceAttributes must be specified"})),
            case("no user or group", ("POST", &subject), access(json!({"resourceAttributes": pods})), 422, json!({"message": "~at least one of user or group must be specified"})),
            case("here", ("POST", &local), access(json!({"user": "jane", "resourceAttributes": pods})), 201, json!({"status": {"allowed": false}})),
            case("elsewhere", ("POST", &local), access(json!({"user": "jane", "resourceAttributes": {"namespace": "other", "verb": "get", "resource": "pods"}})), 422,
                json!({"reason": "Invalid"})),
            case("one's rules", ("POST", &format!("{post}/selfsubjectrulesreviews")), access(json!({"namespace": "default"})), 201,
                json!({"status": {"incomplete": false}})),
            case("reviews are not there to read", ("GET", &own), Value::Null, 405, json!({"reason": "MethodNotAllowed"})),
            case("an unknown token", ("POST", "/apis/authentication.k8s.io/v1/tokenreviews"), access(json!({"token": "nonsense"})), 201,
                json!({"kind": "TokenReview", "status": {"authenticated": null, "user": {}}})),
            case("no token", ("POST", "/apis/authentication.k8s.io/v1/tokenreviews"), access(json!({})), 400,
                json!({"message": "token is required for TokenReview in authentication"})),
        ]).await;
        let rules = send(
            cluster,
            "POST",
            &format!("{post}/selfsubjectrulesreviews"),
            &access(json!({"namespace": "default"})),
        )
        .await
        .json();
        let everything = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
        assert!(rules["status"]["resourceRules"].as_array().unwrap().contains(&everything), "{rules}");
        assert_eq!(cluster.store().revision(), before);
    });
}

#[test]
fn roles_cannot_grant_more_than_their_author_has_and_role_refs_are_immutable() {
    simulate(Setup::api_alone(), async |cluster| {
        let role = |name: &str, rules: Value| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules});
        let binding = |name: &str, role: &str, subject: &str| {
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": subject}]})
        };
        let rules = |verb: &str| json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": [verb]}]);
        let writer = json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles", "clusterrolebindings"], "verbs": ["create", "update"]},
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
        cluster.create(role("writer", writer)).await;
        cluster.create(binding("writer", "writer", "jane")).await;
        let jane = jane(cluster);
        let post = async |kind: &str, body: Value| {
            jane.call("POST", &format!("{RBAC}/{kind}"), body.to_string()).await
        };
        let denied = post("clusterroles", role("more", rules("delete"))).await;
        let text = "clusterroles.rbac.authorization.k8s.io \"more\" is forbidden: user \"jane\" (groups=[\"dev\" \"system:authenticated\"]) is attempting to grant RBAC \
            permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"delete\"]}";
        assert_eq!((denied.code, denied.text("/message").as_str()), (403, text));
        assert_eq!(post("clusterroles", role("same", rules("get"))).await.code, 201);
        assert_eq!(post("clusterrolebindings", binding("up", "cluster-admin", "jane")).await.code, 403);
        assert_eq!(post("clusterrolebindings", binding("same", "same", "joe")).await.code, 201);
        let moved = send(
            cluster,
            "PUT",
            &format!("{RBAC}/clusterrolebindings/same"),
            &binding("same", "view", "joe"),
        )
        .await;
        assert_eq!(
            (
                moved.code,
                moved.text("/message").contains("roleRef: Invalid value: ")
                    && moved.text("/message").ends_with("cannot change roleRef")
            ),
            (422, true),
            "{}",
            moved.text("/message")
        );
    });
}

#[test]
fn default_roles_exist() {
    simulate(Setup::api_alone(), async |cluster| {
        let locking =
            cluster.get("roles", "kube-system", "system::leader-locking-kube-scheduler").await.unwrap();
        assert_eq!(locking["rules"][0]["resources"], json!(["leases"]));
        let bound = cluster
            .get("rolebindings", "kube-system", "system::leader-locking-kube-scheduler")
            .await
            .unwrap();
        assert_eq!(
            bound["subjects"][1],
            json!({"kind": "ServiceAccount", "name": "kube-scheduler", "namespace": "kube-system"})
        );
        for name in [
            "cluster-admin",
            "admin",
            "edit",
            "view",
            "system:aggregate-to-admin",
            "system:aggregate-to-edit",
            "system:aggregate-to-view",
            "system:discovery",
            "system:basic-user",
            "system:public-info-viewer",
            "system:monitoring",
            "system:node",
            "system:kube-scheduler",
            "system:kube-controller-manager",
            "system:auth-delegator",
        ] {
            let role = cluster.get("clusterroles", "", name).await.unwrap_or_else(|| panic!("{name}"));
            assert_eq!(role["metadata"]["labels"]["kubernetes.io/bootstrapping"], "rbac-defaults", "{name}");
            assert_eq!(
                role["metadata"]["annotations"]["rbac.authorization.kubernetes.io/autoupdate"], "true",
                "{name}"
            );
        }
        for (name, subject) in [
            ("cluster-admin", "system:masters"),
            ("system:discovery", "system:authenticated"),
            ("system:basic-user", "system:authenticated"),
            ("system:public-info-viewer", "system:unauthenticated"),
            ("system:kube-scheduler", "system:kube-scheduler"),
            ("system:kube-controller-manager", "system:kube-controller-manager"),
            ("system:monitoring", "system:monitoring"),
        ] {
            let binding =
                cluster.get("clusterrolebindings", "", name).await.unwrap_or_else(|| panic!("{name}"));
            let subjects = binding["subjects"].as_array().unwrap();
            assert!(subjects.iter().any(|found| found["name"] == subject), "{binding}");
        }
    });
}
