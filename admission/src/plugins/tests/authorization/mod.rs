//! Properties of RBAC over random roles and bindings, and the reference authorizer: it scans all rules of all bindings, as the
//! documentation of RBAC describes a decision.

mod following;

use crate::admission::Admission;
use crate::plugins::tests::TestRequest;
use crate::subject::Subject;
use kstore_access::authz::policy::Policy;
use kstore_access::authz::{Attributes, Authorizer, Decision, More, Target};
use kstore_api::admission::Operation;
use kstore_api::kind;
use kstore_nondet::Nondet;
use kstore_registry::outbound::{Network, ServiceBackends};
use kstore_registry::testing::MapLookup;
use kstore_registry::user::UserInfo;
use proptest::collection::{SizeRange, vec};
use proptest::prelude::{ProptestConfig, Strategy, any, proptest};
use proptest::sample::{select, subsequence};
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{TestRng, TestRunner};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

const RBAC: &str = "rbac.authorization.k8s.io";
const NAMESPACES: [&str; 2] = ["a", "b"];
const NAMES: [&str; 3] = ["r0", "r1", "r2"];

fn users() -> Vec<UserInfo> {
    vec![
        UserInfo::new("ann", ["devs"]),
        UserInfo::new("bob", ["devs", "ops"]),
        UserInfo::new("cat", [""; 0]),
        UserInfo::service_account("a", "sa"),
    ]
}

/// A request of the finite universe over which policies are compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Request {
    user: usize,
    verb: &'static str,
    /// Group, resource and subresource; `None` for a path.
    resource: Option<(&'static str, &'static str, &'static str)>,
    namespace: &'static str,
    /// Object name, or the path.
    name: &'static str,
}

/// All requests that are decided.
fn requests() -> Vec<Request> {
    const VERBS: [&str; 5] = ["get", "create", "update", "bind", "escalate"];
    const RESOURCES: [(&str, &str, &str); 7] = [
        ("", "pods", ""),
        ("", "pods", "log"),
        ("apps", "deployments", "log"),
        (RBAC, "roles", ""),
        (RBAC, "clusterroles", ""),
        (RBAC, "rolebindings", ""),
        (RBAC, "clusterrolebindings", ""),
    ];
    let mut all = Vec::new();
    for user in 0..users().len() {
        for verb in VERBS {
            for resource in RESOURCES {
                for (namespace, name) in [("", ""), ("", "r0"), ("a", ""), ("a", "r0"), ("b", "r1")] {
                    all.push(Request { user, verb, resource: Some(resource), namespace, name });
                }
            }
            for name in ["/x", "/x/y", "/z"] {
                all.push(Request { user, verb, resource: None, namespace: "", name });
            }
        }
    }
    all
}

fn ask<T>(request: &Request, users: &[UserInfo], decide: impl FnOnce(&Attributes<'_>) -> T) -> T {
    let target = match request.resource {
        None => Target::Path(request.name),
        Some((group, resource, subresource)) => Target::Resource {
            group,
            resource,
            subresource,
            namespace: request.namespace,
            name: request.name,
        },
    };
    decide(&Attributes { user: &users[request.user], verb: request.verb, target, more: More::default() })
}

/// The requests of the universe that these objects allow.
fn allowed(objects: &[Value], users: &[UserInfo]) -> BTreeSet<Request> {
    let policy = Policy::compile(&*MapLookup::of(objects.iter().cloned()));
    requests()
        .into_iter()
        .filter(|request| ask(request, users, |attributes| policy.allows(attributes)))
        .collect()
}

/// The reference: whether any rule of any binding allows the request. Reads the objects as they are stored.
fn reference(objects: &[Value], attributes: &Attributes<'_>) -> bool {
    let strings = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
    };
    let rule_allows = |rule: &Value| {
        let has = |member: &str, wanted: &str| {
            strings(&rule[member]).iter().any(|held| held == "*" || held == wanted)
        };
        let target = match attributes.target {
            Target::Path(path) => strings(&rule["nonResourceURLs"]).iter().any(|url| {
                url == path || (url.ends_with('*') && path.starts_with(url.trim_end_matches('*')))
            }),
            Target::Resource { group, resource, subresource, name, .. } => {
                let full = [resource, subresource].join("/");
                let full = full.trim_end_matches('/');
                let names = strings(&rule["resourceNames"]);
                has("apiGroups", group)
                    && strings(&rule["resources"]).iter().any(|held| {
                        held == "*"
                            || held == full
                            || (!subresource.is_empty() && *held == format!("*/{subresource}"))
                    })
                    && (names.is_empty() || names.iter().any(|held| held == name))
            }
        };
        has("verbs", attributes.verb) && target
    };
    let is_subject = |binding: &Value, subject: &Value| {
        let name = subject["name"].as_str().unwrap();
        match subject["kind"].as_str().unwrap() {
            "User" => attributes.user.username == name,
            "Group" => attributes.user.groups.iter().any(|group| group == name),
            _ => {
                let home = subject["namespace"].as_str().or(binding["metadata"]["namespace"].as_str());
                attributes.user.username == format!("system:serviceaccount:{}:{name}", home.unwrap())
            }
        }
    };
    let namespace = match attributes.target {
        Target::Resource { namespace, .. } => namespace,
        Target::Path(_) => "",
    };
    objects.iter().filter(|binding| !binding["roleRef"].is_null()).any(|binding| {
        let home = binding["metadata"]["namespace"].as_str().unwrap_or_default();
        let role_home = if binding["roleRef"]["kind"] == "Role" { home } else { "" };
        (home.is_empty() || home == namespace)
            && binding["subjects"].as_array().unwrap().iter().any(|subject| is_subject(binding, subject))
            && objects.iter().any(|role| {
                role["kind"] == binding["roleRef"]["kind"]
                    && role["metadata"]["name"] == binding["roleRef"]["name"]
                    && role["metadata"]["namespace"].as_str().unwrap_or_default() == role_home
                    && role["rules"].as_array().into_iter().flatten().any(rule_allows)
            })
    })
}

fn some(
    from: &'static [&'static str],
    size: impl Into<SizeRange>,
) -> impl Strategy<Value = Vec<&'static str>> {
    subsequence(from, size)
}

/// Any rule. With `is_tame` no rule grants `bind` or `escalate` on roles, which lift the checks of escalation.
fn rule(is_tame: bool) -> impl Strategy<Value = Value> {
    let verbs: &[&str] = if is_tame {
        &["get", "create", "update"]
    } else {
        &["*", "get", "create", "update", "bind", "escalate"]
    };
    let verbs: &'static [&'static str] = verbs.to_vec().leak();
    let resources =
        &["*", "pods", "pods/log", "*/log", "roles", "clusterroles", "rolebindings", "clusterrolebindings"];
    let resource = (
        some(verbs, 1..3),
        some(&["*", "", "apps", RBAC], 1..3),
        some(resources, 1..4),
        some(&["r0", "r1"], 0..2),
    );
    let resource = resource.prop_map(|(verbs, groups, resources, names)| {
        let mut rule = json!({"verbs": verbs, "apiGroups": groups, "resources": resources});
        if !names.is_empty() {
            rule["resourceNames"] = json!(names);
        }
        rule
    });
    let path = (some(verbs, 1..3), some(&["*", "/x", "/x/*", "/x*", "/z", "/x/**"], 1..3));
    let path = path.prop_map(|(verbs, urls)| json!({"verbs": verbs, "nonResourceURLs": urls}));
    let core = (some(&["*", "get"], 1..2), some(&["pods", "pods/log", "*"], 1..3))
        .prop_map(|(verbs, resources)| json!({"verbs": verbs, "apiGroups": [""], "resources": resources}));
    proptest::strategy::Union::new_weighted(vec![(5, resource.boxed()), (1, path.boxed()), (1, core.boxed())])
}

/// A Role of a namespace, or a ClusterRole.
fn role(is_tame: bool) -> impl Strategy<Value = Value> {
    (select(&["", "a", "b"][..]), select(&NAMES[..]), vec(rule(is_tame), 0..4)).prop_map(
        |(namespace, name, rules)| {
            let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
            object(kind, namespace, name, &json!({"rules": rules}))
        },
    )
}

fn object(kind: &str, namespace: &str, name: &str, rest: &Value) -> Value {
    let mut object = json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": {"name": name}});
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    object
}

fn subject() -> impl Strategy<Value = Value> {
    select(vec![
        json!({"kind": "User", "name": "ann"}),
        json!({"kind": "User", "name": "bob"}),
        json!({"kind": "User", "name": "cat"}),
        json!({"kind": "User", "name": "devs"}),
        json!({"kind": "Group", "name": "devs"}),
        json!({"kind": "Group", "name": "ops"}),
        json!({"kind": "Group", "name": "ann"}),
        json!({"kind": "Group", "name": "system:serviceaccounts:a"}),
        json!({"kind": "ServiceAccount", "namespace": "a", "name": "sa"}),
        json!({"kind": "ServiceAccount", "namespace": "b", "name": "sa"}),
    ])
}

/// A RoleBinding of a Role or ClusterRole, or a ClusterRoleBinding; the role need not exist.
fn binding() -> impl Strategy<Value = Value> {
    let of = (
        select(&["", "a", "b"][..]),
        any::<bool>(),
        select(&NAMES[..]),
        select(&NAMES[..]),
        vec(subject(), 1..3),
    );
    of.prop_map(|(namespace, to_role, name, role, subjects)| {
        let kind = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
        let role_kind = if to_role && !namespace.is_empty() { "Role" } else { "ClusterRole" };
        let role = json!({"apiGroup": RBAC, "kind": role_kind, "name": role});
        object(kind, namespace, name, &json!({"roleRef": role, "subjects": subjects}))
    })
}

/// Roles and bindings with distinct names: of two with the same one, the later.
fn policy(is_tame: bool) -> impl Strategy<Value = Vec<Value>> {
    (vec(role(is_tame), 1..5), vec(binding(), 1..5)).prop_map(|(roles, bindings)| {
        roles.into_iter().chain(bindings).fold(Vec::new(), |objects, new| with(&objects, new))
    })
}

/// The objects with `new` in the place of the one of its name.
fn with(objects: &[Value], new: Value) -> Vec<Value> {
    let is_other = |old: &&Value| old["kind"] != new["kind"] || old["metadata"] != new["metadata"];
    objects.iter().filter(is_other).cloned().chain([new.clone()]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_compiled_authorizer_equals_the_scan_of_all_rules(objects in policy(false)) {
        let users = users();
        let compiled = Policy::compile(&*MapLookup::of(objects.iter().cloned()));
        for request in requests() {
            ask(&request, &users, |attributes| {
                let expected = reference(&objects, attributes);
                assert_eq!(compiled.allows(attributes), expected, "{request:?}");
                assert_eq!(matches!(compiled.decide(attributes), Decision::Allow(_)), expected, "{request:?}");
            });
        }
    }

    #[test]
    fn a_policy_compiled_after_another_one_equals_a_new_one(before in policy(false), after in policy(false)) {
        let users = users();
        let [first, second] = [&before, &after].map(|objects| MapLookup::of(objects.iter().cloned()));
        let recompiled = Policy::compile_after(&*second, Some(&Policy::compile(&*first)));
        let new = allowed(&after, &users);
        for request in requests() {
            let is_allowed = ask(&request, &users, |attributes| recompiled.allows(attributes));
            assert_eq!(is_allowed, new.contains(&request), "{request:?}");
        }
    }

    #[test]
    fn adding_a_rule_a_subject_or_a_binding_removes_no_permission(
        objects in policy(false), new_rule in rule(false), new_subject in subject(), at in any::<usize>(),
        role_ref in select(&NAMES[..]),
    ) {
        let users = users();
        let before = allowed(&objects, &users);
        let mut wider = objects.clone();
        let index = at % wider.len();
        let (member, addition) = match wider[index]["roleRef"].is_null() {
            true => ("rules", new_rule),
            false => ("subjects", new_subject.clone()),
        };
        wider[index][member].as_array_mut().unwrap().push(addition);
        assert!(before.is_subset(&allowed(&wider, &users)), "{:?}", wider[index]);
        let role = json!({"apiGroup": RBAC, "kind": "ClusterRole", "name": role_ref});
        let rest = json!({"roleRef": role, "subjects": [new_subject]});
        for (kind, namespace) in [("ClusterRoleBinding", ""), ("RoleBinding", "a")] {
            let bound = with(&objects, object(kind, namespace, "new", &rest));
            assert!(before.is_subset(&allowed(&bound, &users)), "{kind}");
        }
    }
}

/// A cluster with real authorization and admission of its roles and bindings.
struct Cluster {
    lookup: Arc<MapLookup>,
    authorizer: Authorizer,
    admission: Admission,
    objects: Vec<Value>,
}

impl Cluster {
    fn new(objects: Vec<Value>) -> Self {
        let namespace = |name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}, "status": {"phase": "Active"}});
        let lookup = MapLookup::of(NAMESPACES.map(namespace).into_iter().chain(objects.iter().cloned()));
        let network = Arc::new(Network::new(ServiceBackends::default()));
        let admitting = Arc::new(Authorizer::new(lookup.clone()));
        let admission = Admission::new(lookup.clone(), admitting, network, Nondet::simulated(1));
        Self { authorizer: Authorizer::new(lookup.clone()), lookup, admission, objects }
    }

    /// Creates or updates an object in the name of a user; whether that was allowed.
    fn write(&mut self, user: &UserInfo, mut new: Value) -> bool {
        let old = self
            .objects
            .iter()
            .find(|old| old["kind"] == new["kind"] && old["metadata"] == new["metadata"])
            .cloned();
        let (namespace, name) =
            (kstore_api::meta::namespace(&new).to_owned(), kstore_api::meta::name(&new).to_owned());
        let row =
            kind::lookup_api_version(new["apiVersion"].as_str().unwrap(), new["kind"].as_str().unwrap())
                .unwrap();
        let (verb, asked_name) = if old.is_some() { ("update", name.as_str()) } else { ("create", "") };
        let target = Target::Resource {
            group: RBAC,
            resource: row.plural,
            subresource: "",
            namespace: &namespace,
            name: asked_name,
        };
        let decision = self.authorizer.decide_now(&Attributes { user, verb, target, more: More::default() });
        if !matches!(decision, Decision::Allow(_)) {
            return false;
        }
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        let (resource, subresource) = (row, "");
        let subject =
            Subject { user, operation, resource, subresource, namespace: &namespace, name: &name, seed: 1 };
        let request = TestRequest::new(&self.admission, subject);
        let is_admitted = request.mutate(&mut new, old.as_ref()).is_ok()
            && request.validate(Some(&new), old.as_ref()).is_ok();
        if is_admitted {
            self.lookup.put(new.clone());
            self.objects = with(&self.objects, new);
        }
        is_admitted
    }
}

/// A ClusterRole with `rule`, bound to some of the users in all namespaces or in one.
fn bound(name: &'static str, rule: Value) -> impl Strategy<Value = Vec<Value>> {
    let users = vec![
        json!({"kind": "Group", "name": "devs"}),
        json!({"kind": "User", "name": "cat"}),
        json!({"kind": "ServiceAccount", "namespace": "a", "name": "sa"}),
    ];
    (subsequence(users, 1..=3), select(&["", "a"][..])).prop_map(move |(subjects, namespace)| {
        let kind = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
        let role_ref = json!({"apiGroup": RBAC, "kind": "ClusterRole", "name": name});
        let binding = object(kind, namespace, name, &json!({"roleRef": role_ref, "subjects": subjects}));
        vec![object("ClusterRole", "", name, &json!({"rules": [rule]})), binding]
    })
}

/// An initial policy without `bind` and `escalate`, in which some users may also write roles and bindings, or read and write most
/// things; and writes: the index of their user and the object.
fn history() -> impl Strategy<Value = (Vec<Value>, Vec<(usize, Value)>)> {
    let kinds = ["roles", "clusterroles", "rolebindings", "clusterrolebindings"];
    let writer =
        bound("writer", json!({"verbs": ["create", "update"], "apiGroups": [RBAC], "resources": kinds}));
    const VERBS: [&str; 3] = ["get", "create", "update"];
    let holder = bound("holder", json!({"verbs": VERBS, "apiGroups": ["", "apps"], "resources": ["*"]}));
    let narrow = (
        select(&["", "a", "b"][..]),
        select(&NAMES[..]),
        select(&VERBS[..]),
        select(&["pods", "pods/log"][..]),
    );
    let narrow = narrow.prop_map(|(namespace, name, verb, resource)| {
        let kind = if namespace.is_empty() { "ClusterRole" } else { "Role" };
        let rule = json!({"verbs": [verb], "apiGroups": [""], "resources": [resource]});
        object(kind, namespace, name, &json!({"rules": [rule]}))
    });
    let written = proptest::strategy::Union::new_weighted(vec![
        (3, narrow.boxed()),
        (1, role(true).boxed()),
        (1, role(false).boxed()),
        (3, binding().boxed()),
    ]);
    let initial = (policy(true), writer, holder)
        .prop_map(|(objects, writer, holder)| [objects, writer, holder].concat());
    (initial, vec((0..4usize, written), 1..16))
}

/// Plays a history. After it, each user may do only what that user, or one of those whose writes were allowed, could do before it.
/// Returns the numbers of allowed and of refused writes.
fn play((initial, writes): (Vec<Value>, Vec<(usize, Value)>)) -> (usize, usize) {
    let users = users();
    let before = allowed(&initial, &users);
    let mut cluster = Cluster::new(initial);
    let (mut granters, mut refused) = (Vec::new(), 0);
    for (user, object) in writes {
        match cluster.write(&users[user], object) {
            true => granters.push(user),
            false => refused += 1,
        }
    }
    for request in allowed(&cluster.objects, &users) {
        let could = |user: &usize| before.contains(&Request { user: *user, ..request.clone() });
        assert!(
            could(&request.user) || granters.iter().any(could),
            "{request:?} became allowed, and none of {granters:?} could do that: {:#?}",
            cluster.objects
        );
    }
    (granters.len(), refused)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_allowed_writes_gives_a_user_more_than_the_writers_had(history in history()) {
        play(history);
    }
}

/// The histories above contain allowed and refused writes, and grants.
#[test]
fn random_histories_of_writes_have_allowed_and_refused_ones() {
    let rng = TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(ProptestConfig::default(), rng);
    let (mut allowed, mut refused) = (0, 0);
    for _ in 0..60 {
        let (granted, denied) = play(history().new_tree(&mut runner).unwrap().current());
        (allowed, refused) = (allowed + granted, refused + denied);
    }
    assert!(allowed > 20 && refused > 100, "{allowed} writes were allowed, {refused} refused");
}
