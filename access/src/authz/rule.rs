//! One RBAC rule, parsed from JSON, and the requests it matches. Pure. The subjects of rules are in `policy`.

use super::{Attributes, Target};
use serde_json::{Value, json};

/// A `rbac.authorization.k8s.io/v1 PolicyRule`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    /// Verbs, or `*`.
    pub verbs: Vec<String>,
    /// API groups, or `*`.
    pub groups: Vec<String>,
    /// `*`, `r`, `r/sub` or `*/sub`.
    pub resources: Vec<String>,
    /// Object names; empty for all.
    pub names: Vec<String>,
    /// Paths, exact or with a final `*`.
    pub urls: Vec<String>,
}

const ANY: &str = "*";

impl Rule {
    /// Parses a rule of a Role or ClusterRole.
    pub fn from_value(value: &Value) -> Self {
        let strings = |field: &str| {
            let items = value[field].as_array().map(Vec::as_slice).unwrap_or_default();
            items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            verbs: strings("verbs"),
            groups: strings("apiGroups"),
            resources: strings("resources"),
            names: strings("resourceNames"),
            urls: strings("nonResourceURLs"),
        }
    }

    /// The rule as in a Role, ClusterRole or SelfSubjectRulesReview.
    pub fn to_value(&self) -> Value {
        let mut value = json!({ "verbs": self.verbs });
        let fields = [
            ("apiGroups", &self.groups),
            ("resources", &self.resources),
            ("resourceNames", &self.names),
            ("nonResourceURLs", &self.urls),
        ];
        for (field, items) in fields {
            if !items.is_empty() {
                value[field] = json!(items);
            }
        }
        value
    }

    /// Whether the rule allows a request.
    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        has(&self.verbs, attributes.verb)
            && match attributes.target {
                Target::Path(path) => self.urls.iter().any(|url| url_matches(url, path)),
                Target::Resource { group, resource, subresource, name, .. } => {
                    has(&self.groups, group)
                        && self.resources.iter().any(|r| resource_matches(r, resource, subresource))
                        && (self.names.is_empty() || self.names.iter().any(|n| n == name))
                }
            }
    }

    /// Whether the rule allows a request for some object of a resource.
    pub fn allows_some(&self, verb: &str, (group, resource, subresource): (&str, &str, &str)) -> bool {
        has(&self.verbs, verb)
            && has(&self.groups, group)
            && self.resources.iter().any(|r| resource_matches(r, resource, subresource))
    }

    /// The rule as errors about escalation show it.
    pub fn describe(&self) -> String {
        let mut parts = Vec::new();
        let fields = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("ResourceNames", &self.names),
            ("NonResourceURLs", &self.urls),
            ("Verbs", &self.verbs),
        ];
        for (label, items) in fields {
            if !items.is_empty() {
                let quoted: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
                parts.push(format!("{label}:[{}]", quoted.join(", ")));
            }
        }
        format!("{{{}}}", parts.join(", "))
    }

    /// The smallest grants of the rule: one verb on one resource (and name) of one group, or on one path.
    pub fn atoms(&self) -> impl Iterator<Item = Rule> + '_ {
        let one = |text: &String| vec![text.clone()];
        // Lazy throughout: the product of a rule's lists can be far larger than memory.
        self.verbs.iter().flat_map(move |verb| {
            let paths =
                self.urls.iter().map(move |url| Rule { verbs: one(verb), urls: one(url), ..Rule::default() });
            let resources = self.groups.iter().flat_map(move |group| {
                self.resources.iter().flat_map(move |resource| {
                    let base = Rule {
                        verbs: one(verb),
                        groups: one(group),
                        resources: one(resource),
                        ..Rule::default()
                    };
                    let unnamed = self.names.is_empty().then(|| base.clone());
                    let named = self.names.iter().map(move |name| Rule { names: one(name), ..base.clone() });
                    unnamed.into_iter().chain(named)
                })
            });
            paths.chain(resources)
        })
    }

    /// Whether this rule grants everything that `atom` (see [`Rule::atoms`]) grants.
    pub fn covers(&self, atom: &Rule) -> bool {
        let all = |wanted: &[String], granted: &[String]| wanted.iter().all(|w| has(granted, w));
        let resource = |wanted: &String| {
            self.resources.iter().any(|granted| {
                granted == ANY
                    || granted == wanted
                    || wanted.split_once('/').is_some_and(|(_, sub)| granted.strip_prefix("*/") == Some(sub))
            })
        };
        let url = |wanted: &String| self.urls.iter().any(|granted| url_matches(granted, wanted));
        all(&atom.verbs, &self.verbs)
            && all(&atom.groups, &self.groups)
            && atom.resources.iter().all(resource)
            && atom.urls.iter().all(url)
            && (self.names.is_empty()
                || (!atom.names.is_empty() && atom.names.iter().all(|n| self.names.contains(n))))
    }
}

fn has(granted: &[String], wanted: &str) -> bool {
    granted.iter().any(|h| h == ANY || h == wanted)
}

fn resource_matches(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == ANY {
        return true;
    }
    match rule.split_once('/') {
        None => subresource.is_empty() && rule == resource,
        Some((r, sub)) => sub == subresource && !sub.is_empty() && (r == ANY || r == resource),
    }
}

pub(super) fn url_matches(rule: &str, path: &str) -> bool {
    // Kubernetes drops all asterisks at the end of a rule's path.
    match rule.ends_with('*') {
        true => path.starts_with(rule.trim_end_matches('*')),
        false => rule == path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authz::More;
    use kstore_registry::user::UserInfo;

    fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> Rule {
        let own = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
        Rule {
            verbs: own(verbs),
            groups: own(groups),
            resources: own(resources),
            names: own(names),
            urls: vec![],
        }
    }

    #[test]
    fn a_rule_matches_verb_group_resource_subresource_and_name() {
        let user = UserInfo::anonymous();
        let table = [
            (rule(&["get"], &[""], &["pods"], &[]), "get", "pods", "", "x", true),
            (rule(&["get"], &[""], &["pods"], &[]), "get", "pods", "log", "x", false),
            (rule(&["get"], &[""], &["pods/log"], &[]), "get", "pods", "log", "x", true),
            (rule(&["*"], &["*"], &["*"], &[]), "get", "pods", "log", "x", true),
            (rule(&["*"], &["*"], &["*/log"], &[]), "get", "pods", "log", "x", true),
            (rule(&["*"], &["*"], &["*/log"], &[]), "get", "pods", "", "x", false),
            (rule(&["get"], &["apps"], &["pods"], &[]), "get", "pods", "", "x", false),
            (rule(&["list"], &[""], &["pods"], &[]), "get", "pods", "", "x", false),
            (rule(&["get"], &[""], &["pods"], &["a"]), "get", "pods", "", "a", true),
            (rule(&["get"], &[""], &["pods"], &["a"]), "get", "pods", "", "b", false),
            (rule(&["create"], &[""], &["pods"], &["a"]), "create", "pods", "", "", false),
        ];
        for (rule, verb, resource, subresource, name, expected) in table {
            let target = Target::Resource { group: "", resource, subresource, namespace: "ns", name };
            assert_eq!(
                rule.allows(&Attributes { user: &user, verb, target, more: More::default() }),
                expected,
                "{rule:?} {verb} {resource}"
            );
        }
    }

    #[test]
    fn paths_match_exactly_or_by_prefix() {
        let user = UserInfo::anonymous();
        let rule = Rule {
            verbs: vec!["get".into()],
            urls: vec!["/api".into(), "/apis/*".into()],
            ..Rule::default()
        };
        for (path, expected) in [("/api", true), ("/api/v1", false), ("/apis/apps", true), ("/apis", false)] {
            let attributes =
                Attributes { user: &user, verb: "get", target: Target::Path(path), more: More::default() };
            assert_eq!(rule.allows(&attributes), expected, "{path}");
        }
    }

    #[test]
    fn all_asterisks_at_the_end_of_a_path_are_one_wildcard() {
        for (rule, path, expected) in
            [("/a/**", "/a/b", true), ("/a/**", "/a", false), ("**", "/", true), ("/a*b", "/a*b", true)]
        {
            assert_eq!(url_matches(rule, path), expected, "{rule} {path}");
        }
    }

    #[test]
    fn rules_cover_exactly_their_permissions() {
        let granted = rule(&["get", "list"], &[""], &["pods", "*/status"], &[]);
        let covered = |wanted: &Rule| wanted.atoms().all(|atom| granted.covers(&atom));
        assert!(covered(&rule(&["get"], &[""], &["pods", "nodes/status"], &["x"])));
        assert!(!covered(&rule(&["*"], &[""], &["pods"], &[])));
        assert!(!covered(&rule(&["get"], &[""], &["*"], &[])));
        assert!(!covered(&rule(&["get"], &["apps"], &["pods"], &[])));
        let named = rule(&["get"], &[""], &["pods"], &["a"]);
        assert!(named.covers(&rule(&["get"], &[""], &["pods"], &["a"])));
        assert!(!named.covers(&rule(&["get"], &[""], &["pods"], &[])));
    }

    #[test]
    fn a_rule_reads_back_as_it_was_written() {
        let value =
            json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"] });
        assert_eq!(Rule::from_value(&value).to_value(), value);
        let shown = r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["get"]}"#;
        assert_eq!(Rule::from_value(&value).describe(), shown);
    }
}
