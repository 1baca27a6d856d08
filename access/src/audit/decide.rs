//! The decision of an audit policy about a request: the first rule that matches applies, by Kubernetes'
//! rules. Pure.

use super::policy::{GroupResources, Level, Policy, Rule, Stages};
use crate::authz::Target;
use kstore_registry::user::UserInfo;

/// Attributes of a request that policies match on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attributes<'a> {
    /// The caller, before impersonation; `None` if authentication failed.
    pub(super) user: Option<&'a UserInfo>,
    /// The API verb, or the lower-case HTTP method for a path outside the resource API.
    pub(super) verb: &'a str,
    /// The resource or the path of the request.
    pub(super) target: Target<'a>,
}

/// The decision of a policy: how much of a request is recorded, and at which stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) level: Level,
    /// Stages without an event.
    pub(super) omit_stages: Stages,
    /// Whether recorded objects lack their managed fields.
    pub(super) omit_managed_fields: bool,
}

/// Decides by the policy how a request is recorded. A request that no rule matches is not recorded.
pub(super) fn decide(policy: &Policy, attributes: &Attributes<'_>) -> Verdict {
    let Some(rule) = policy.rules.iter().find(|rule| rule.matches(attributes)) else {
        return Verdict {
            level: Level::None,
            omit_stages: policy.omit_stages,
            omit_managed_fields: policy.omit_managed_fields,
        };
    };
    Verdict {
        level: rule.level,
        omit_stages: policy.omit_stages.union(rule.omit_stages),
        omit_managed_fields: rule.omit_managed_fields.unwrap_or(policy.omit_managed_fields),
    }
}

impl Rule {
    fn matches(&self, attributes: &Attributes<'_>) -> bool {
        let user = attributes.user;
        let is_user = self.users.is_empty() || user.is_some_and(|user| contains(&self.users, &user.username));
        let is_member = self.user_groups.is_empty()
            || user.is_some_and(|user| self.user_groups.iter().any(|group| user.is_in(group)));
        if !is_user || !is_member || !is_empty_or_contains(&self.verbs, attributes.verb) {
            return false;
        }
        let is_about_resources = !self.namespaces.is_empty() || !self.resources.is_empty();
        match attributes.target {
            Target::Resource { namespace, .. } if is_about_resources => {
                is_empty_or_contains(&self.namespaces, namespace)
                    && (self.resources.is_empty()
                        || self.resources.iter().any(|group| group.matches(&attributes.target)))
            }
            Target::Path(_) if is_about_resources => false,
            _ if self.non_resource_urls.is_empty() => true,
            Target::Resource { .. } => false,
            Target::Path(path) => self.non_resource_urls.iter().any(|pattern| is_path(pattern, path)),
        }
    }
}

impl GroupResources {
    fn matches(&self, target: &Target<'_>) -> bool {
        let Target::Resource { group, resource, subresource, name, .. } = *target else { return false };
        if self.group != group {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        is_empty_or_contains(&self.resource_names, name)
            && self.resources.iter().any(|pattern| is_resource(pattern, resource, subresource))
    }
}

/// `pods` is pods without their subresources, `pods/log` one of these, `pods/*` all of them and pods, `*/log`
/// that subresource of all resources, `*` everything.
fn is_resource(pattern: &str, resource: &str, subresource: &str) -> bool {
    if pattern == "*" {
        return true;
    }
    match pattern.split_once('/') {
        None => pattern == resource && subresource.is_empty(),
        Some((wanted, below)) => {
            let is_same = wanted == resource && below == subresource && !subresource.is_empty();
            is_same
                || wanted == "*" && below == subresource && !subresource.is_empty()
                || pattern.strip_suffix("/*") == Some(resource)
        }
    }
}

fn is_path(pattern: &str, path: &str) -> bool {
    pattern == path || pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*'))
}

fn is_empty_or_contains(list: &[String], value: &str) -> bool {
    list.is_empty() || contains(list, value)
}

fn contains(list: &[String], value: &str) -> bool {
    list.iter().any(|item| item == value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::policy::Stage;

    fn policy(rules: &str) -> Policy {
        let text = format!("{{apiVersion: audit.k8s.io/v1, kind: Policy, {rules}}}");
        Policy::parse(text.as_bytes()).unwrap()
    }

    /// `GROUP/RESOURCE[/SUBRESOURCE] NAMESPACE NAME`, each `-` if empty; or a path.
    fn target(text: &str) -> Target<'_> {
        if text.starts_with('/') {
            return Target::Path(text);
        }
        let [resource, namespace, name] = text.split(' ').collect::<Vec<_>>()[..] else { panic!("{text}") };
        let (group, below) = resource.split_once('/').unwrap();
        let (resource, subresource) = below.split_once('/').unwrap_or((below, ""));
        let [group, namespace, name] =
            [group, namespace, name].map(|part| if part == "-" { "" } else { part });
        Target::Resource { group, resource, subresource, namespace, name }
    }

    #[test]
    fn a_rule_matches_when_all_its_lists_do() {
        let ann = UserInfo::new("ann", ["devs"]);
        for (rule, verb, about, want) in [
            ("", "get", "-/pods a b", true),
            ("", "get", "/healthz", true),
            ("users: [ann]", "get", "-/pods a b", true),
            ("users: [bob]", "get", "-/pods a b", false),
            ("userGroups: [ops, devs]", "get", "/version", true),
            ("userGroups: [ops]", "get", "/version", false),
            ("verbs: [get]", "get", "-/pods a b", true),
            ("verbs: [list]", "get", "-/pods a b", false),
            ("verbs: ['*']", "get", "-/pods a b", false),
            ("namespaces: [a]", "get", "-/pods a b", true),
            ("namespaces: [b]", "get", "-/pods a b", false),
            ("namespaces: ['']", "get", "-/nodes - b", true),
            ("namespaces: ['']", "get", "/healthz", false),
            ("resources: [{group: ''}]", "get", "-/pods a b", true),
            ("resources: [{group: ''}]", "get", "-/pods/log a b", true),
            ("resources: [{group: apps}]", "get", "-/pods a b", false),
            ("resources: [{resources: [pods]}]", "get", "-/pods a b", true),
            ("resources: [{resources: [pods]}]", "get", "-/pods/log a b", false),
            ("resources: [{resources: [pods]}]", "get", "/pods", false),
            ("resources: [{resources: [pods/log]}]", "get", "-/pods/log a b", true),
            ("resources: [{resources: [pods/log]}]", "get", "-/pods a b", false),
            ("resources: [{resources: ['pods/*']}]", "get", "-/pods/log a b", true),
            ("resources: [{resources: ['pods/*']}]", "get", "-/pods a b", true),
            ("resources: [{resources: ['*/status']}]", "get", "-/pods/status a b", true),
            ("resources: [{resources: ['*/status']}]", "get", "-/pods a b", false),
            ("resources: [{resources: ['*']}]", "get", "-/pods/log a b", true),
            ("resources: [{group: apps, resources: ['*']}]", "get", "-/pods a b", false),
            ("resources: [{group: apps}, {resources: ['*']}]", "get", "-/pods a b", true),
            ("resources: [{resources: [pods], resourceNames: [b]}]", "get", "-/pods a b", true),
            ("resources: [{resources: [pods], resourceNames: [c]}]", "get", "-/pods a b", false),
            ("resources: [{resources: [pods], resourceNames: [b]}]", "list", "-/pods a -", false),
            ("nonResourceURLs: [/healthz]", "get", "/healthz", true),
            ("nonResourceURLs: [/healthz]", "get", "/healthz/ping", false),
            ("nonResourceURLs: ['/healthz*']", "get", "/healthz/ping", true),
            ("nonResourceURLs: ['*']", "get", "/version", true),
            ("nonResourceURLs: ['*']", "get", "-/pods a b", false),
            (
                "namespaces: [a], resources: [{resources: [pods]}], verbs: [get], users: [ann]",
                "get",
                "-/pods a b",
                true,
            ),
        ] {
            let policy = policy(&format!("rules: [{{level: Metadata, {rule}}}]"));
            let attributes = Attributes { user: Some(&ann), verb, target: target(about) };
            let matches = decide(&policy, &attributes).level == Level::Metadata;
            assert_eq!(matches, want, "{rule}: {verb} {about}");
        }
    }

    #[test]
    fn the_first_rule_that_matches_counts_and_policy_wide_settings_are_added() {
        let policy = policy(
            "omitStages: [RequestReceived], omitManagedFields: true, rules: [{level: None, users: [ann]}, \
             {level: Request, verbs: [get], omitStages: [Panic], omitManagedFields: false}, \
             {level: RequestResponse, verbs: [get, list]}]",
        );
        let verdict = |user: Option<&UserInfo>, verb| {
            decide(&policy, &Attributes { user, verb, target: target("-/pods a b") })
        };
        let (ann, bob) = (UserInfo::new("ann", [""; 0]), UserInfo::new("bob", [""; 0]));
        assert_eq!(verdict(Some(&ann), "get").level, Level::None);
        let both = [Stage::RequestReceived, Stage::Panic].into_iter().collect();
        let want = Verdict { level: Level::Request, omit_stages: both, omit_managed_fields: false };
        assert_eq!(verdict(Some(&bob), "get"), want);
        assert_eq!(verdict(None, "get"), want, "an unauthenticated request matches no user");
        let omit_stages = [Stage::RequestReceived].into_iter().collect();
        let want = Verdict { level: Level::RequestResponse, omit_stages, omit_managed_fields: true };
        assert_eq!(verdict(Some(&bob), "list"), want);
        assert_eq!(verdict(Some(&bob), "watch").level, Level::None, "no rule matches");
    }
}
