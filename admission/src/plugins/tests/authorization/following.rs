//! A policy that follows changes equals one that is compiled anew, and its reasons are those of the first
//! grant in the documented order.

use super::*;
use kstore_access::authz::rbac::Rbac;
use kstore_registry::lookup::Lookup as _;

#[derive(Clone, Debug)]
enum Step {
    Put(Value),
    Delete(Value),
    /// A request that brings the policy up to date.
    Decide,
}

fn step() -> impl Strategy<Value = Step> {
    let object = || proptest::strategy::Union::new([role(false).boxed(), binding().boxed()]);
    proptest::strategy::Union::new_weighted(vec![
        (4, object().prop_map(Step::Put).boxed()),
        (2, object().prop_map(Step::Delete).boxed()),
        (1, proptest::strategy::Just(Step::Decide).boxed()),
    ])
}

/// All roles and bindings, cluster-wide ones first, in name order.
fn objects(lookup: &MapLookup) -> Vec<Value> {
    let plurals = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"];
    let kinds = plurals.map(|plural| kind::lookup(RBAC, "v1", plural).unwrap());
    kinds.iter().flat_map(|kind| lookup.list(kind, "")).map(|object| (*object).clone()).collect()
}

/// The decision with the first grant: of the user, then of each group; of each first the cluster-wide ones.
fn first_grant(objects: &[Value], attributes: &Attributes<'_>) -> Decision {
    let is_role = |object: &&Value| object["roleRef"].is_null();
    let roles: Vec<Value> = objects.iter().filter(is_role).cloned().collect();
    let alone = |username: &str, groups: &[String]| UserInfo {
        username: username.to_owned(),
        groups: groups.to_vec(),
        ..UserInfo::default()
    };
    let user = attributes.user;
    let by_group = user.groups.iter().map(|group| alone("", std::slice::from_ref(group)));
    for subject in [alone(&user.username, &[])].into_iter().chain(by_group) {
        let attributes = Attributes { user: &subject, ..*attributes };
        for binding in objects.iter().filter(|object| !is_role(object)) {
            let one = [&roles[..], std::slice::from_ref(binding)].concat();
            if reference(&one, &attributes) {
                let name = binding["metadata"]["name"].as_str().unwrap();
                let binding_name = match binding["metadata"]["namespace"].as_str() {
                    Some(namespace) => format!("RoleBinding \"{name}/{namespace}\""),
                    None => format!("ClusterRoleBinding \"{name}\""),
                };
                let subject = match subject.groups.first() {
                    Some(group) => format!("Group \"{group}\""),
                    None if subject.username == "system:serviceaccount:a:sa" => {
                        "ServiceAccount \"sa/a\"".to_owned()
                    }
                    None => format!("User \"{}\"", subject.username),
                };
                let (kind, role) = (&binding["roleRef"]["kind"], &binding["roleRef"]["name"]);
                let (kind, role) = (kind.as_str().unwrap(), role.as_str().unwrap());
                return Decision::Allow(format!(
                    "RBAC: allowed by {binding_name} of {kind} \"{role}\" to {subject}"
                ));
            }
        }
    }
    Decision::NoOpinion(String::new())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn a_policy_that_follows_changes_equals_one_compiled_anew(
        initial in policy(false), steps in vec(step(), 1..40), offset in 0..13usize,
    ) {
        let users = users();
        let lookup = MapLookup::of(initial);
        let rbac = Rbac::new(lookup.clone());
        for step in steps {
            match step {
                Step::Put(object) => lookup.put(object),
                Step::Delete(object) => lookup.delete(&object),
                Step::Decide => drop(rbac.policy()),
            }
        }
        let (followed, anew) = (rbac.policy(), Policy::compile(&*lookup));
        let all = objects(&lookup);
        for (number, request) in requests().into_iter().enumerate() {
            ask(&request, &users, |attributes| {
                let decision = followed.decide(attributes);
                assert_eq!(decision, anew.decide(attributes), "{request:?}");
                if number % 13 == offset {
                    assert_eq!(decision, first_grant(&all, attributes), "{request:?}");
                }
            });
        }
        for namespace in ["", "a", "b"] {
            for user in &users {
                let rules = |policy: &Policy| policy.rules_of(user, namespace).cloned().collect::<Vec<_>>();
                assert_eq!(rules(&followed), rules(&anew), "{} in {namespace:?}", user.username);
            }
            for name in NAMES {
                assert_eq!(followed.role(namespace, name), anew.role(namespace, name), "{namespace}/{name}");
            }
        }
    }
}

/// Names with separators and lengths of the index inside do not make subjects or namespaces equal.
#[test]
fn subjects_are_distinguished_whatever_their_names_contain() {
    let names = ["", "a", "a0:", "a1:b", "1:a", "b", "a\0b", "a0:b"];
    let allow = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    let role = object("ClusterRole", "", "r", &json!({"rules": allow}));
    for bound in names {
        let role_ref = json!({"apiGroup": RBAC, "kind": "ClusterRole", "name": "r"});
        let subjects = json!([{"kind": "User", "name": bound}]);
        let binding = object("RoleBinding", "a", "b", &json!({"roleRef": role_ref, "subjects": subjects}));
        let policy = Policy::compile(&*MapLookup::of([role.clone(), binding]));
        for asking in names {
            for namespace in ["a", "", "b", "a0:", "ab"] {
                let user = UserInfo { username: asking.to_owned(), ..UserInfo::default() };
                let target =
                    Target::Resource { group: "", resource: "pods", subresource: "", namespace, name: "" };
                let attributes = Attributes { user: &user, verb: "get", target, more: More::default() };
                let expected = asking == bound && namespace == "a";
                assert_eq!(policy.allows(&attributes), expected, "{bound:?} {asking:?} {namespace:?}");
            }
        }
    }
}
