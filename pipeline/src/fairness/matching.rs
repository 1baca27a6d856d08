//! Flow schemas in the form in which requests are matched, and the rules of matching. Pure.

use kstore_api::object::{list, text};
use kstore_registry::user::UserInfo;
use serde_json::Value;

/// The parts of a request that flow schemas match.
#[derive(Clone, Copy, Debug)]
pub struct RequestDigest<'a> {
    /// The caller.
    pub user: &'a UserInfo,
    /// The verb for authorization.
    pub verb: &'a str,
    /// What it is about.
    pub target: DigestTarget<'a>,
}

/// What a request is about.
#[derive(Clone, Copy, Debug)]
pub enum DigestTarget<'a> {
    /// An object or a collection.
    Resource {
        /// The group, "" for the core group.
        group: &'a str,
        /// The plural of the resource.
        resource: &'a str,
        /// The subresource, or "".
        subresource: &'a str,
        /// The namespace, or "". That of a request about a Namespace object is the object's name.
        namespace: &'a str,
    },
    /// A path outside the resource API.
    Path(&'a str),
}

/// How the requests of one schema are divided into flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Distinguisher {
    ByUser,
    ByNamespace,
}

impl Distinguisher {
    /// The part of a request that distinguishes its flow from others of its schema.
    pub(super) fn value<'a>(self, request: &RequestDigest<'a>) -> &'a str {
        match (self, request.target) {
            (Self::ByUser, _) => &request.user.username,
            (Self::ByNamespace, DigestTarget::Resource { namespace, .. }) => namespace,
            (Self::ByNamespace, DigestTarget::Path(_)) => "",
        }
    }
}

/// A name, or any name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Any,
    OneOf(Vec<String>),
}

impl Pattern {
    fn read(values: &Value) -> Self {
        let values = list(values);
        match values.iter().any(|value| value == "*") {
            true => Self::Any,
            false => Self::OneOf(values.iter().map(|value| text(value).to_owned()).collect()),
        }
    }

    fn matches(&self, value: &str) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(values) => values.iter().any(|own| own == value),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    User(String),
    AnyUser,
    Group(String),
    AnyGroup,
    ServiceAccount { namespace: String, name: String },
    ServiceAccounts { namespace: String },
}

impl Subject {
    fn read(subject: &Value) -> Option<Self> {
        let name = |member: &str| text(&subject[member]["name"]).to_owned();
        Some(match text(&subject["kind"]) {
            "User" if name("user") == "*" => Self::AnyUser,
            "User" => Self::User(name("user")),
            "Group" if name("group") == "*" => Self::AnyGroup,
            "Group" => Self::Group(name("group")),
            "ServiceAccount" => {
                let namespace = text(&subject["serviceAccount"]["namespace"]).to_owned();
                match name("serviceAccount") {
                    all if all == "*" => Self::ServiceAccounts { namespace },
                    name => Self::ServiceAccount { namespace, name },
                }
            }
            _ => return None,
        })
    }

    fn matches(&self, user: &UserInfo) -> bool {
        let account = || user.username.strip_prefix("system:serviceaccount:")?.split_once(':');
        match self {
            Self::AnyUser | Self::AnyGroup => true,
            Self::User(name) => user.username == *name,
            Self::Group(name) => user.groups.iter().any(|group| group == name),
            Self::ServiceAccounts { namespace } => account().is_some_and(|(own, _)| own == namespace),
            Self::ServiceAccount { namespace, name } => {
                account().is_some_and(|(of, own)| of == namespace && own == name)
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ResourceRule {
    verbs: Pattern,
    groups: Pattern,
    resources: Pattern,
    namespaces: Pattern,
    cluster_scope: bool,
}

impl ResourceRule {
    fn read(rule: &Value) -> Self {
        Self {
            verbs: Pattern::read(&rule["verbs"]),
            groups: Pattern::read(&rule["apiGroups"]),
            resources: Pattern::read(&rule["resources"]),
            namespaces: Pattern::read(&rule["namespaces"]),
            cluster_scope: rule["clusterScope"] == true,
        }
    }

    fn matches_resource(&self, resource: &str, subresource: &str) -> bool {
        match &self.resources {
            Pattern::Any => true,
            resources if subresource.is_empty() => resources.matches(resource),
            Pattern::OneOf(resources) => resources
                .iter()
                .any(|own| own.split_once('/').is_some_and(|(of, sub)| of == resource && sub == subresource)),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct PathRule {
    verbs: Pattern,
    any: bool,
    exact: Vec<String>,
    /// Prefixes, which end with a slash.
    below: Vec<String>,
}

impl PathRule {
    fn read(rule: &Value) -> Self {
        let mut read =
            Self { verbs: Pattern::read(&rule["verbs"]), any: false, exact: vec![], below: vec![] };
        for url in list(&rule["nonResourceURLs"]).iter().map(text) {
            match url.strip_suffix('*') {
                Some("") => read.any = true,
                Some(prefix) => read.below.push(prefix.to_owned()),
                None => read.exact.push(url.to_owned()),
            }
        }
        read
    }

    fn matches(&self, verb: &str, path: &str) -> bool {
        let is_listed = || self.exact.iter().any(|own| own == path);
        let is_below = || self.below.iter().any(|prefix| path.starts_with(prefix.as_str()));
        self.verbs.matches(verb) && (self.any || is_listed() || is_below())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    subjects: Vec<Subject>,
    resources: Vec<ResourceRule>,
    paths: Vec<PathRule>,
}

/// The rules of one flow schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SchemaRules(Vec<Rule>);

impl SchemaRules {
    /// Reads the rules of a FlowSchema's `spec`.
    pub(super) fn read(spec: &Value) -> Self {
        let rule = |rule: &Value| Rule {
            subjects: list(&rule["subjects"]).iter().filter_map(Subject::read).collect(),
            resources: list(&rule["resourceRules"]).iter().map(ResourceRule::read).collect(),
            paths: list(&rule["nonResourceRules"]).iter().map(PathRule::read).collect(),
        };
        Self(list(&spec["rules"]).iter().map(rule).collect())
    }

    /// Whether a rule has a subject and a resource or path that match the request.
    pub(super) fn match_request(&self, request: &RequestDigest<'_>) -> bool {
        let matches = |rule: &Rule| {
            rule.subjects.iter().any(|subject| subject.matches(request.user))
                && match request.target {
                    DigestTarget::Path(path) => rule.paths.iter().any(|own| own.matches(request.verb, path)),
                    DigestTarget::Resource { group, resource, subresource, namespace } => {
                        rule.resources.iter().any(|own| {
                            own.verbs.matches(request.verb)
                                && own.groups.matches(group)
                                && own.matches_resource(resource, subresource)
                                && match namespace {
                                    "" => own.cluster_scope,
                                    namespace => own.namespaces.matches(namespace),
                                }
                        })
                    }
                }
        };
        self.0.iter().any(matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rules(subjects: Value, resources: Value, paths: Value) -> SchemaRules {
        let rule = json!({ "subjects": subjects, "resourceRules": resources, "nonResourceRules": paths });
        SchemaRules::read(&json!({ "rules": [rule] }))
    }

    fn everything() -> Value {
        json!([{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true }])
    }

    fn pods(namespace: &'static str) -> DigestTarget<'static> {
        DigestTarget::Resource { group: "", resource: "pods", subresource: "", namespace }
    }

    #[test]
    fn subjects_are_users_groups_and_service_accounts() {
        let account = |namespace: &str, name: &str| json!([{ "kind": "ServiceAccount", "serviceAccount": { "namespace": namespace, "name": name } }]);
        let user = |name: &str| json!([{ "kind": "User", "user": { "name": name } }]);
        let group = |name: &str| json!([{ "kind": "Group", "group": { "name": name } }]);
        let builder = "system:serviceaccount:ci:builder";
        let table = [
            (user("ann"), "ann", true),
            (user("ann"), "bob", false),
            (user("*"), "bob", true),
            (group("devs"), "ann", true),
            (group("ops"), "ann", false),
            (group("*"), "ann", true),
            (account("ci", "builder"), builder, true),
            (account("ci", "other"), builder, false),
            (account("ci", "*"), builder, true),
            (account("cd", "*"), builder, false),
            (account("ci", "*"), "ci:builder", false),
        ];
        for (subjects, name, matches) in table {
            let user = UserInfo::new(name, ["devs"]);
            let request = RequestDigest { user: &user, verb: "get", target: pods("a") };
            let rules = rules(subjects.clone(), everything(), json!([]));
            assert_eq!(rules.match_request(&request), matches, "{subjects} {name}");
        }
    }

    #[test]
    fn resource_rules_match_verb_group_resource_and_scope() {
        let user = UserInfo::new("ann", [""; 0]);
        let rule = |verbs: &[&str], resources: &[&str], namespaces: &[&str], cluster: bool| json!([{ "verbs": verbs, "apiGroups": ["", "apps"], "resources": resources, "namespaces": namespaces, "clusterScope": cluster }]);
        let status =
            DigestTarget::Resource { group: "", resource: "pods", subresource: "status", namespace: "a" };
        let batch =
            DigestTarget::Resource { group: "batch", resource: "pods", subresource: "", namespace: "a" };
        let table = [
            (rule(&["get"], &["pods"], &["a"], false), pods("a"), true),
            (rule(&["list"], &["pods"], &["a"], false), pods("a"), false),
            (rule(&["*"], &["*"], &["*"], false), pods("a"), true),
            (rule(&["*"], &["*"], &["*"], false), pods(""), false),
            (rule(&["*"], &["*"], &["*"], true), pods(""), true),
            (rule(&["*"], &["*"], &[], true), pods("a"), false),
            (rule(&["*"], &["pods"], &["*"], true), status, false),
            (rule(&["*"], &["pods/status"], &["*"], true), status, true),
            (rule(&["*"], &["pods/status"], &["*"], true), pods("a"), false),
            (rule(&["*"], &["*"], &["*"], true), batch, false),
        ];
        for (resources, target, matches) in table {
            let request = RequestDigest { user: &user, verb: "get", target };
            let rules =
                rules(json!([{ "kind": "User", "user": { "name": "*" } }]), resources.clone(), json!([]));
            assert_eq!(rules.match_request(&request), matches, "{resources} {target:?}");
            let path = RequestDigest { target: DigestTarget::Path("/healthz"), ..request };
            assert!(!rules.match_request(&path), "a path needs a rule for paths");
        }
    }

    #[test]
    fn paths_match_exactly_or_below_a_prefix() {
        let user = UserInfo::new("ann", [""; 0]);
        let table = [
            ("/healthz", "/healthz", true),
            ("/healthz", "/healthz/ping", false),
            ("/healthz/*", "/healthz/ping", true),
            ("/healthz/*", "/healthz", false),
            ("*", "/anything", true),
        ];
        for (url, path, matches) in table {
            let paths = json!([{ "verbs": ["get"], "nonResourceURLs": [url] }]);
            let rules = rules(json!([{ "kind": "Group", "group": { "name": "*" } }]), json!([]), paths);
            let request = RequestDigest { user: &user, verb: "get", target: DigestTarget::Path(path) };
            assert_eq!(rules.match_request(&request), matches, "{url} {path}");
        }
    }
}
