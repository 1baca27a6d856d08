//! Decisions of the modes over a cluster with the bootstrap roles.

use super::policy::Policy;
use super::{Attributes, Authorizer, Decision, Mode, Modes, More, Target, bootstrap};
use kstore_registry::testing::MapLookup;
use kstore_registry::user::{MASTERS, UserInfo};
use serde_json::{Value, json};
use std::sync::Arc;

fn cluster() -> (Arc<MapLookup>, Authorizer) {
    let lookup = MapLookup::of(bootstrap::objects());
    (lookup.clone(), Authorizer::new(lookup))
}

fn bind(kind: &str, namespace: &str, role: (&str, &str), subject: Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
        "metadata": { "name": "test", "namespace": namespace },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": role.0, "name": role.1 },
        "subjects": [subject],
    })
}

/// `verb group/resource/subresource namespace` or `verb /path`.
fn ask(authorizer: &Authorizer, user: &UserInfo, question: &str) -> Decision {
    let words: Vec<&str> = question.split(' ').collect();
    let target = if words[1].starts_with('/') && words.len() == 2 {
        Target::Path(words[1])
    } else {
        let mut parts = words[1].splitn(3, '/');
        let mut next = || parts.next().unwrap_or_default();
        Target::Resource {
            group: next(),
            resource: next(),
            subresource: next(),
            namespace: words[2],
            name: "",
        }
    };
    authorizer.decide_now(&Attributes { user, verb: words[0], target, more: More::default() })
}

fn allowed(authorizer: &Authorizer, user: &UserInfo, question: &str) -> bool {
    matches!(ask(authorizer, user, question), Decision::Allow(_))
}

#[test]
fn bootstrap_roles_allow_only_what_their_subjects_need() {
    let (_, authorizer) = cluster();
    let none = [""; 0];
    let scheduler = UserInfo::new("system:kube-scheduler", none);
    let controllers = UserInfo::new("system:kube-controller-manager", none);
    let deployments = UserInfo::service_account("kube-system", "deployment-controller");
    let namespaces = UserInfo::service_account("kube-system", "namespace-controller");
    let kubelet = UserInfo::new("system:kstore:kubelet-sim", ["system:nodes"]);
    let authenticated = UserInfo::new("bob", none);
    let anonymous = UserInfo::anonymous();
    let admin = UserInfo::new("kubernetes-admin", [MASTERS]);
    let table = [
        (&admin, "delete /nodes ", true),
        (&admin, "post /anything", true),
        (&scheduler, "create /pods/binding default", true),
        (&scheduler, "create /pods default", false),
        (&scheduler, "watch storage.k8s.io/csinodes ", true),
        (&controllers, "watch example.com/gadgets ", true),
        (&controllers, "create /serviceaccounts/token kube-system", true),
        (&controllers, "create apps/replicasets default", false),
        (&controllers, "get /pods default", false),
        (&deployments, "create apps/replicasets default", true),
        (&deployments, "update apps/deployments/status default", true),
        (&deployments, "create /pods default", false),
        (&deployments, "delete apps/deployments default", false),
        (&namespaces, "deletecollection batch/jobs default", true),
        (&namespaces, "update /namespaces/finalize ", true),
        (&namespaces, "create /pods default", false),
        (&controllers, "create rbac.authorization.k8s.io/clusterroles ", false),
        (&kubelet, "patch /nodes/status ", true),
        (&kubelet, "patch /pods/status default", true),
        (&kubelet, "update coordination.k8s.io/leases kube-node-lease", true),
        (&kubelet, "create /pods default", false),
        (&authenticated, "get /apis/apps/v1", true),
        (&authenticated, "create authorization.k8s.io/selfsubjectaccessreviews ", true),
        (&authenticated, "list /pods default", false),
        (&anonymous, "get /version", true),
        (&anonymous, "get /readyz", true),
        (&anonymous, "get /api", false),
        (&anonymous, "get /metrics", false),
    ];
    for (user, question, expected) in table {
        assert_eq!(allowed(&authorizer, user, question), expected, "{} {question}", user.username);
    }
}

#[test]
fn a_role_binding_applies_in_its_namespace_and_is_the_reason() {
    let (lookup, authorizer) = cluster();
    let bob = UserInfo::new("bob", ["dev"]);
    assert!(!allowed(&authorizer, &bob, "list apps/deployments team"));
    lookup.put(bind(
        "RoleBinding",
        "team",
        ("ClusterRole", "view"),
        json!({ "kind": "Group", "name": "dev" }),
    ));
    assert!(allowed(&authorizer, &bob, "list apps/deployments team"));
    assert!(!allowed(&authorizer, &bob, "create apps/deployments team"));
    assert!(!allowed(&authorizer, &bob, "list /secrets team"));
    assert!(!allowed(&authorizer, &bob, "list apps/deployments other"));
    assert!(!allowed(&authorizer, &bob, "list apps/deployments "));
    let reason = r#"RBAC: allowed by RoleBinding "test/team" of ClusterRole "view" to Group "dev""#;
    assert_eq!(ask(&authorizer, &bob, "list apps/deployments team"), Decision::Allow(reason.into()));
}

#[test]
fn a_service_account_is_a_subject_with_a_namespace() {
    let (lookup, authorizer) = cluster();
    let account = json!({ "kind": "ServiceAccount", "name": "builder", "namespace": "ci" });
    lookup.put(bind("ClusterRoleBinding", "", ("ClusterRole", "edit"), account));
    let builder = UserInfo::new("system:serviceaccount:ci:builder", [""; 0]);
    assert!(allowed(&authorizer, &builder, "create /pods anywhere"));
    let reason =
        r#"RBAC: allowed by ClusterRoleBinding "test" of ClusterRole "edit" to ServiceAccount "builder/ci""#;
    assert_eq!(ask(&authorizer, &builder, "create /pods x"), Decision::Allow(reason.into()));
}

#[test]
fn an_aggregating_role_grants_its_stored_rules() {
    let (lookup, authorizer) = cluster();
    let ann = UserInfo::new("ann", [""; 0]);
    let user = json!({ "kind": "User", "name": "ann" });
    lookup.put(bind("ClusterRoleBinding", "", ("ClusterRole", "admin"), user));
    assert!(allowed(&authorizer, &ann, "create rbac.authorization.k8s.io/roles x"));
    assert!(allowed(&authorizer, &ann, "create apps/deployments x"));
    assert!(allowed(&authorizer, &ann, "get /pods x"));
    lookup.put(json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": "gadgets", "labels": { "rbac.authorization.k8s.io/aggregate-to-admin": "true" } },
        "rules": [{ "verbs": ["get"], "apiGroups": ["example.com"], "resources": ["gadgets"] }],
    }));
    assert!(
        !allowed(&authorizer, &ann, "get example.com/gadgets x"),
        "the controller has not aggregated it yet"
    );
}

#[tokio::test]
async fn a_refusal_names_user_verb_resource_and_scope() {
    let (_, authorizer) = cluster();
    let bob = UserInfo::new("bob", [""; 0]);
    let target = Target::Resource {
        group: "apps",
        resource: "deployments",
        subresource: "scale",
        namespace: "a",
        name: "x",
    };
    let attributes = Attributes { user: &bob, verb: "get", target, more: More::default() };
    let refused = authorizer.check(&attributes).await.unwrap_err();
    let expected = r#"deployments.apps "x" is forbidden: User "bob" cannot get resource "deployments/scale" in API group "apps" in the namespace "a""#;
    assert_eq!(refused.message, expected);
    let path =
        Attributes { user: &bob, verb: "get", target: Target::Path("/metrics"), more: More::default() };
    let refused = authorizer.check(&path).await.unwrap_err();
    assert_eq!(refused.message, r#"forbidden: User "bob" cannot get path "/metrics""#);
}

#[tokio::test]
async fn always_allow_and_always_deny_exempt_masters_and_health_paths() {
    let user = UserInfo::new("ann", [""; 0]);
    let admin = UserInfo::new("root", [MASTERS]);
    for (mode, expected) in [(Mode::AlwaysAllow, true), (Mode::AlwaysDeny, false), (Mode::Rbac, false)] {
        let authorizer =
            Authorizer::of_modes(MapLookup::of(bootstrap::objects()), Modes::new([mode.clone()]));
        assert_eq!(allowed(&authorizer, &user, "list /pods default"), expected, "{mode:?}");
        let target =
            Target::Resource { group: "", resource: "pods", subresource: "", namespace: "", name: "" };
        let attributes = Attributes { user: &user, verb: "list", target, more: More::default() };
        assert_eq!(authorizer.check(&attributes).await.is_ok(), expected, "{mode:?}");
        assert!(allowed(&authorizer, &admin, "list /pods default"), "{mode:?}");
        assert!(allowed(&authorizer, &UserInfo::anonymous(), "get /healthz"), "{mode:?}");
    }
}

#[test]
fn recompiled_policies_share_the_rules_of_unchanged_roles() {
    let (lookup, _) = cluster();
    let first = Policy::compile(&*lookup);
    let rules = |verb: &str| json!([{ "verbs": [verb], "apiGroups": [""], "resources": ["pods"] }]);
    let role = |verb: &str| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": { "name": "view" }, "rules": rules(verb),
        })
    };
    lookup.put(role("get"));
    let second = Policy::compile_after(&*lookup, Some(&first));
    let at = |policy: &Policy, name: &str| policy.role("", name).unwrap().as_ptr();
    assert_eq!(at(&first, "edit"), at(&second, "edit"), "an unchanged role is shared");
    assert_ne!(at(&first, "view"), at(&second, "view"));
    assert_eq!(second.role("", "view").unwrap()[0].verbs, ["get"]);
    lookup.put(role("list"));
    let third = Policy::compile_after(&*lookup, Some(&second));
    assert_eq!(third.role("", "view").unwrap()[0].verbs, ["list"], "a changed role is compiled");
}

#[test]
fn an_authorizer_over_a_copy_of_the_cluster_starts_with_the_compiled_policy() {
    let ((_, authorizer), (copy, _)) = (cluster(), cluster());
    let forked = authorizer.image().over(copy.clone());
    assert!(Arc::ptr_eq(&forked.policy(), &authorizer.policy()));
    copy.put(bind(
        "ClusterRoleBinding",
        "",
        ("ClusterRole", "view"),
        json!({ "kind": "User", "name": "bob" }),
    ));
    let bob = UserInfo::new("bob", [""; 0]);
    assert!(allowed(&forked, &bob, "list /pods a") && !allowed(&authorizer, &bob, "list /pods a"));
}
