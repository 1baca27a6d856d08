//! Impersonation with a table of permissions in place of an authorizer.

use super::headers::{GROUP, UID, USER};
use super::*;
use crate::authz::{Attributes, Decision, Target};
use futures::FutureExt as _;
use http::{HeaderName, HeaderValue};
use kstore_registry::user::{ANONYMOUS, AUTHENTICATED, MASTERS, UNAUTHENTICATED};
use parking_lot::Mutex;

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pair =
        |(k, v): &(&'static str, &str)| (HeaderName::from_static(k), HeaderValue::from_str(v).unwrap());
    pairs.iter().map(pair).collect()
}

/// Permissions, each as `VERB RESOURCE[/SUBRESOURCE][.GROUP] NAMESPACE/NAME`, or a prefix of it; and the checks so far.
#[derive(Default)]
struct Permissions {
    granted: Vec<&'static str>,
    checked: Mutex<Vec<String>>,
}

impl Permissions {
    fn of(granted: &[&'static str]) -> Self {
        Self { granted: granted.to_vec(), checked: Mutex::default() }
    }

    fn take_checked(&self) -> Vec<String> {
        std::mem::take(&mut self.checked.lock())
    }
}

impl Decide for Permissions {
    async fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        let verb = attributes.verb;
        let check = match attributes.target {
            Target::Path(path) => format!("{verb} {path}"),
            Target::Resource { group, resource, subresource, namespace, name } => {
                let slash = if subresource.is_empty() { "" } else { "/" };
                let dot = if group.is_empty() { "" } else { "." };
                format!("{verb} {resource}{slash}{subresource}{dot}{group} {namespace}/{name}")
            }
        };
        let is_granted = self.granted.iter().any(|granted| check.starts_with(granted));
        self.checked.lock().push(check);
        if is_granted { Decision::Allow(String::new()) } else { Decision::NoOpinion(String::new()) }
    }
}

/// A request of `caller` for `GET url`, or one without a known URL.
fn identity(
    impersonation: &Impersonation,
    caller: &UserInfo,
    headers: &HeaderMap,
    url: &str,
    permissions: &Permissions,
) -> Result<Option<Impersonated>, Status> {
    let uri: Uri = if url.is_empty() { Uri::default() } else { url.parse().unwrap() };
    let request = (!url.is_empty()).then_some((&Method::GET, &uri));
    let identified = impersonation.identity(caller, headers, request, permissions);
    identified.now_or_never().expect("a table decides at once")
}

const PODS: &str = "/api/v1/namespaces/a/pods";

/// As [`identity`], at a new server, for a list of pods.
fn list_pods(
    caller: &UserInfo,
    headers: &HeaderMap,
    granted: &[&'static str],
) -> Result<Option<Impersonated>, Status> {
    identity(&Impersonation::new(ServedModes::All), caller, headers, PODS, &Permissions::of(granted))
}

fn bob() -> UserInfo {
    UserInfo::new("bob", [""; 0])
}

/// A service account whose token is bound to a pod on node `n1`.
fn agent() -> UserInfo {
    let extra = [
        ("authentication.kubernetes.io/node-name".to_owned(), vec!["n1".to_owned()]),
        ("authentication.kubernetes.io/pod-name".to_owned(), vec!["p".to_owned()]),
    ];
    UserInfo { extra: extra.into(), ..UserInfo::service_account("ns", "agent") }
}

/// The permissions of the verb `impersonate` for everything.
const LEGACY: &[&str] = &["impersonate "];

#[test]
fn without_headers_a_caller_keeps_its_identity() {
    assert_eq!(list_pods(&bob(), &HeaderMap::new(), &[]), Ok(None));
}

#[test]
fn an_allowed_caller_acts_as_the_other_user_and_service_accounts_get_their_groups() {
    let user =
        |pairs: &[(&'static str, &str)]| list_pods(&bob(), &headers(pairs), LEGACY).unwrap().unwrap().user;
    let jane = user(&[(USER, "jane"), (GROUP, "dev"), (UID, "7"), ("impersonate-extra-a%2fb", "c")]);
    assert_eq!((jane.username.as_str(), jane.uid.as_str()), ("jane", "7"));
    assert_eq!(jane.groups, ["dev", AUTHENTICATED]);
    assert_eq!(jane.extra["a/b"], ["c"]);
    let account = user(&[(USER, "system:serviceaccount:ns:sa")]);
    assert_eq!(account.groups, ["system:serviceaccounts", "system:serviceaccounts:ns", AUTHENTICATED]);
    let node = user(&[(USER, "system:node:n1")]);
    assert_eq!(node.groups, [AUTHENTICATED], "the verb impersonate implies no group of nodes");
    let anonymous = user(&[(USER, ANONYMOUS)]);
    assert_eq!(anonymous.groups, [UNAUTHENTICATED]);
}

#[test]
fn an_impersonated_user_in_system_unauthenticated_is_not_in_system_authenticated() {
    for (name, group) in [("jane", UNAUTHENTICATED), (ANONYMOUS, AUTHENTICATED)] {
        let found = list_pods(&bob(), &headers(&[(USER, name), (GROUP, group)]), LEGACY);
        assert_eq!(found.unwrap().unwrap().user.groups, [group]);
    }
}

#[test]
fn permission_for_service_accounts_does_not_cover_names_that_no_service_account_can_have() {
    let accounts =
        &["impersonate serviceaccounts ", "impersonate:serviceaccount ", "impersonate-on:serviceaccount:"];
    assert!(list_pods(&bob(), &headers(&[(USER, "system:serviceaccount:ns:sa")]), accounts).is_ok());
    for name in ["ns:a:b", "ns:", ":sa", "NS:sa", "n.s:sa", "ns"] {
        let shown = headers(&[(USER, &format!("system:serviceaccount:{name}"))]);
        let refused = list_pods(&bob(), &shown, accounts).unwrap_err();
        assert!(refused.message.contains("impersonate-on:user-info:list"), "{}", refused.message);
    }
}

#[test]
fn constrained_modes_need_a_permission_for_the_identity_and_one_for_the_request() {
    use ImpersonationMode::{ArbitraryNode, AssociatedNode, Legacy, ServiceAccount, UserInfo as Info};
    let nodes = ["system:nodes", AUTHENTICATED];
    let accounts = ["system:serviceaccounts", "system:serviceaccounts:ns", AUTHENTICATED];
    let on = |mode: &str| format!("impersonate-on:{mode}:list pods a/");
    for (caller, wanted, granted, mode, groups) in [
        (
            bob(),
            vec![(USER, "jane")],
            [
                "impersonate-on:user-info:list pods a/",
                "impersonate:user-info users.authentication.k8s.io /jane",
            ],
            Info,
            &[AUTHENTICATED][..],
        ),
        (
            bob(),
            vec![(USER, "system:node:n1")],
            [
                "impersonate-on:arbitrary-node:list pods",
                "impersonate:arbitrary-node nodes.authentication.k8s.io /n1",
            ],
            ArbitraryNode,
            &nodes,
        ),
        (
            agent(),
            vec![(USER, "system:node:n1")],
            [
                "impersonate-on:associated-node:list pods",
                "impersonate:associated-node nodes.authentication.k8s.io /*",
            ],
            AssociatedNode,
            &nodes,
        ),
        (
            bob(),
            vec![(USER, "system:serviceaccount:ns:sa")],
            [
                "impersonate-on:serviceaccount:list pods",
                "impersonate:serviceaccount serviceaccounts.authentication.k8s.io ns/sa",
            ],
            ServiceAccount,
            &accounts,
        ),
        (bob(), vec![(USER, "jane")], ["impersonate users /jane", "none"], Legacy, &[AUTHENTICATED]),
        // Groups are no part of the modes of nodes and service accounts.
        (
            bob(),
            vec![(USER, "system:node:n1"), (GROUP, "g")],
            ["impersonate users /system:node:n1", "impersonate groups /g"],
            Legacy,
            &["g", AUTHENTICATED],
        ),
    ] {
        let shown = headers(&wanted);
        let found = list_pods(&caller, &shown, &granted).unwrap().unwrap();
        assert_eq!(
            (found.mode, &found.user.groups[..]),
            (mode, &groups.iter().map(|g| (*g).to_owned()).collect::<Vec<_>>()[..]),
            "{wanted:?}"
        );
        assert_eq!(found.mode.constraint().is_some(), mode != Legacy);
        for missing in granted.iter().filter(|granted| **granted != "none") {
            let rest: Vec<_> = granted.iter().copied().filter(|granted| granted != missing).collect();
            let refused = list_pods(&caller, &shown, &rest).unwrap_err();
            assert_eq!(refused.code, 403, "{wanted:?} without {missing}");
        }
    }
    assert_eq!(on("user-info"), "impersonate-on:user-info:list pods a/");
}

#[test]
fn a_service_account_is_associated_with_the_node_of_its_token_alone() {
    let granted = &["impersonate-on:associated-node:", "impersonate:associated-node "];
    let node = |name: &str| headers(&[(USER, &format!("system:node:{name}"))]);
    let found = list_pods(&agent(), &node("n1"), granted).unwrap().unwrap();
    assert_eq!(
        (found.user.username.as_str(), found.mode),
        ("system:node:n1", ImpersonationMode::AssociatedNode)
    );
    let other = list_pods(&agent(), &node("n2"), granted).unwrap_err();
    assert!(other.message.contains("impersonate-on:arbitrary-node:list"), "{}", other.message);
    let user = UserInfo { extra: agent().extra, ..bob() };
    assert!(list_pods(&user, &node("n1"), granted).is_err(), "the caller is no service account");
    let mut two = agent();
    two.extra.values_mut().for_each(|values| values.push("n1".into()));
    assert!(list_pods(&two, &node("n1"), granted).is_err(), "an ambiguous node is none");
    let requester = ImpersonationMode::AssociatedNode.requester(&agent()).into_owned();
    let keys = ["authentication.kubernetes.io/node-name", "authentication.kubernetes.io/pod-name"];
    assert_eq!(requester.extra["authentication.kubernetes.io/associated-node-keys"], keys);
    assert_eq!(requester.extra.len(), 1, "authorizers do not see the node");
}

#[test]
fn refusals_are_those_of_the_first_mode_that_was_tried() {
    let forbidden = |rest: &str| format!("{rest} at the cluster scope");
    for (url, granted, message) in [
        (PODS, &[][..], r#"pods is forbidden: User "bob" cannot impersonate-on:user-info:list resource "pods" in API group "" in the namespace "a""#.to_owned()),
        ("/version", &[], r#"forbidden: User "bob" cannot impersonate-on:user-info:get path "/version""#.to_owned()),
        (PODS, &["impersonate-on:"], forbidden(r#"users.authentication.k8s.io "jane" is forbidden: User "bob" cannot impersonate:user-info resource "users" in API group "authentication.k8s.io""#)),
        // A call whose request is not known, such as one over gRPC.
        ("", &["impersonate-on:", "impersonate:"], forbidden(r#"users "jane" is forbidden: User "bob" cannot impersonate resource "users" in API group """#)),
    ] {
        let all = Impersonation::new(ServedModes::All);
        let refused = identity(&all, &bob(), &headers(&[(USER, "jane")]), url, &Permissions::of(granted)).unwrap_err();
        assert_eq!((refused.code, refused.message), (403, message));
    }
    assert_eq!(list_pods(&bob(), &headers(&[(GROUP, "dev")]), LEGACY).unwrap_err().code, 400);
}

#[test]
fn constrained_impersonation_refuses_identities_that_no_role_may_grant() {
    let granted = &["impersonate-on:", "impersonate:user-info "];
    for (name, value, fault) in [
        (GROUP, MASTERS, "impersonating the system:masters group is not allowed"),
        (GROUP, "", "impersonating the empty string group is not allowed"),
        (
            "impersonate-extra-scope",
            "all",
            r#"impersonating an invalid key in extra is not allowed: extra.key: Invalid value: "scope": must be a domain-prefixed path (such as "acme.io/foo")"#,
        ),
        ("impersonate-extra-", "all", "impersonating the empty string key in extra is not allowed"),
        (
            "impersonate-extra-a.io%2f%42",
            "all",
            "impersonating a non-lowercase key in extra is not allowed: \"a.io/B\"",
        ),
        ("impersonate-extra-a.io%2fb", "", "impersonating the empty string value in extra is not allowed"),
    ] {
        let refused = list_pods(&bob(), &headers(&[(USER, "jane"), (name, value)]), granted).unwrap_err();
        assert!(refused.message.ends_with(fault), "{}", refused.message);
    }
    let masters = list_pods(&bob(), &headers(&[(USER, "jane"), (GROUP, MASTERS)]), LEGACY);
    assert_eq!(
        masters.unwrap().unwrap().mode,
        ImpersonationMode::Legacy,
        "the verb impersonate is as before"
    );
}

#[test]
fn many_groups_or_extra_values_need_one_check_if_all_are_granted() {
    const ON: [&str; 2] = ["impersonate-on:user-info:", "impersonate:user-info users"];
    let groups = [(USER, "jane"), (GROUP, "a"), (GROUP, "b"), (GROUP, "c"), (GROUP, "d")];
    let extra = [
        (USER, "jane"),
        ("impersonate-extra-a.io%2fx", "1"),
        ("impersonate-extra-a.io%2fx", "2"),
        ("impersonate-extra-a.io%2fy", "3"),
        ("impersonate-extra-a.io%2fy", "4"),
    ];
    for (wanted, all, one, checks) in [
        (
            &groups[..],
            "impersonate:user-info groups.authentication.k8s.io /*",
            "impersonate:user-info groups",
            [3, 7, 5],
        ),
        (
            &extra[..],
            "impersonate:user-info userextras/*.authentication.k8s.io /*",
            "impersonate:user-info userextras/a.io/",
            [3, 7, 5],
        ),
    ] {
        let allowed = |headers: &HeaderMap, granted: &'static str| {
            let permissions = Permissions::of(&[ON[0], ON[1], granted]);
            let server = Impersonation::new(ServedModes::All);
            let found = identity(&server, &bob(), headers, PODS, &permissions);
            (found.is_ok(), permissions.take_checked().len())
        };
        let [with_all, with_each, few] = checks;
        assert_eq!(allowed(&headers(wanted), all), (true, with_all));
        let each = allowed(&headers(wanted), one);
        assert!(each == (true, with_each) || each == (true, with_all), "{each:?}");
        assert_eq!(allowed(&headers(&wanted[..4]), one), (true, few));
        assert!(!allowed(&headers(&wanted[..4]), all).0, "three need a permission each");
    }
}

#[test]
fn the_mode_that_allowed_a_caller_last_is_tried_first() {
    let server = Impersonation::new(ServedModes::All);
    let jane = headers(&[(USER, "jane")]);
    let permissions = Permissions::of(LEGACY);
    let check = |expected: &[&str]| {
        let found = identity(&server, &bob(), &jane, PODS, &permissions).unwrap().unwrap();
        assert_eq!(found.mode, ImpersonationMode::Legacy);
        assert_eq!(permissions.take_checked(), expected);
    };
    check(&["impersonate-on:user-info:list pods a/", "impersonate users /jane"]);
    check(&["impersonate users /jane"]);
    let refused = identity(&server, &bob(), &jane, PODS, &Permissions::default()).unwrap_err();
    assert!(refused.message.contains("cannot impersonate resource \"users\""), "{}", refused.message);
    let mut page = String::new();
    server.count_refusal(Duration::from_millis(1));
    server.render_metrics(&mut Page::new(&mut page));
    for line in [
        "apiserver_impersonation_attempts_total{decision=\"allowed\",mode=\"legacy\"} 2",
        "apiserver_impersonation_attempts_total{decision=\"denied\",mode=\"\"} 1",
        "apiserver_impersonation_authorization_attempts_total{decision=\"denied\",mode=\"user-info\"} 2",
        "apiserver_impersonation_attempts_duration_seconds_count{decision=\"denied\",mode=\"\"} 1",
    ] {
        assert!(page.contains(line), "{line}: {page}");
    }
}

#[test]
fn a_server_without_constrained_modes_knows_the_verb_impersonate_alone() {
    let server = Impersonation::new(ServedModes::Legacy);
    let permissions = Permissions::of(&["impersonate-on:", "impersonate:"]);
    let refused = identity(&server, &bob(), &headers(&[(USER, "jane")]), PODS, &permissions).unwrap_err();
    let expected = r#"users "jane" is forbidden: User "bob" cannot impersonate resource "users" in API group "" at the cluster scope"#;
    assert_eq!(refused.message, expected);
    assert_eq!(permissions.take_checked(), ["impersonate users /jane"]);
}
