//! The ABAC mode: policies from a file, one JSON object per line. Pure.

use super::rule::url_matches;
use super::{Attributes, Decision, Target};
use kstore_registry::user::AUTHENTICATED;
use serde::{Deserialize, Serialize};

const VERSION: &str = "abac.authorization.kubernetes.io/v1beta1";
const ANY: &str = "*";

/// The policies of a file. A request is allowed if any of them matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abac(Vec<Policy>);

/// A line that is not a valid policy.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct AbacError {
    /// The line number, counted from 1.
    pub line: usize,
    /// Why the line is invalid.
    pub reason: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Policy {
    user: String,
    group: String,
    readonly: bool,
    api_group: String,
    resource: String,
    namespace: String,
    non_resource_path: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    spec: Option<Policy>,
    #[serde(flatten)]
    unversioned: Policy,
}

impl Abac {
    /// Parses a file. Empty lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// The first invalid line.
    pub fn parse(text: &str) -> Result<Self, AbacError> {
        let lines = text.lines().map(str::trim).enumerate();
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let read = |(index, line)| policy(line).map_err(|reason| AbacError { line: index + 1, reason });
        lines.map(read).collect::<Result<_, _>>().map(Self)
    }

    /// The policies as a file, one line each, in the versioned form.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(super) fn to_lines(&self) -> Vec<String> {
        let line = |policy| serde_json::json!({"apiVersion": VERSION, "kind": "Policy", "spec": policy});
        self.0.iter().map(|policy| line(policy).to_string()).collect()
    }

    /// Decides one request.
    pub fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        match self.0.iter().any(|policy| policy.allows(attributes)) {
            true => Decision::Allow(String::new()),
            false => Decision::NoOpinion("No policy matched.".to_owned()),
        }
    }
}

fn policy(line: &str) -> Result<Policy, String> {
    let line: Line = serde_json::from_str(line).map_err(|error| error.to_string())?;
    match (line.api_version.as_str(), line.kind.as_str()) {
        (VERSION, "Policy") => {
            let mut policy = line.spec.unwrap_or_default();
            policy.widen_subject();
            Ok(policy)
        }
        ("", "") => Ok(of_unversioned(line.unversioned)),
        (version, kind) => Err(format!("no kind {kind:?} is registered for version {version:?}")),
    }
}

/// Converts a policy of the old, unversioned form to the versioned one.
fn of_unversioned(mut policy: Policy) -> Policy {
    if policy.user.is_empty() && policy.group.is_empty() {
        policy.group = AUTHENTICATED.to_owned();
    }
    policy.widen_subject();
    if policy.namespace.is_empty() && policy.resource.is_empty() {
        policy.non_resource_path = ANY.to_owned();
    }
    for field in [&mut policy.namespace, &mut policy.resource] {
        if field.is_empty() {
            *field = ANY.to_owned();
        }
    }
    policy.api_group = ANY.to_owned();
    policy
}

impl Policy {
    /// Replaces the subject `*` by the group of all authenticated users.
    fn widen_subject(&mut self) {
        if self.user == ANY || self.group == ANY {
            (self.user, self.group) = (String::new(), AUTHENTICATED.to_owned());
        }
    }

    fn allows(&self, attributes: &Attributes<'_>) -> bool {
        let is_named = !self.user.is_empty() || !self.group.is_empty();
        let is_subject = is_named
            && (self.user.is_empty() || self.user == attributes.user.username)
            && (self.group.is_empty() || attributes.user.is_in(&self.group));
        let reads = matches!(attributes.verb, "get" | "list" | "watch");
        is_subject && (reads || !self.readonly) && self.is_about(&attributes.target)
    }

    fn is_about(&self, target: &Target<'_>) -> bool {
        let is = |wanted: &str, found: &str| wanted == ANY || wanted == found;
        match target {
            Target::Resource { group, resource, namespace, .. } => {
                is(&self.namespace, namespace) && is(&self.resource, resource) && is(&self.api_group, group)
            }
            Target::Path(path) => url_matches(&self.non_resource_path, path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authz::More;
    use kstore_registry::user::UserInfo;

    fn allows(line: &str, user: &str, verb: &str, target: Target<'_>) -> bool {
        let user = UserInfo::new(user, ["devs"]);
        let attributes = Attributes { user: &user, verb, target, more: More::default() };
        matches!(Abac::parse(line).unwrap().decide(&attributes), Decision::Allow(_))
    }

    fn pods(namespace: &str) -> Target<'_> {
        Target::Resource { group: "", resource: "pods", subresource: "", namespace, name: "p" }
    }

    #[test]
    fn a_policy_matches_subject_verb_and_target() {
        let v1beta1 =
            |spec: &str| format!("{{\"apiVersion\":\"{VERSION}\",\"kind\":\"Policy\",\"spec\":{{{spec}}}}}");
        let all = "\"namespace\":\"*\",\"resource\":\"*\",\"apiGroup\":\"*\"";
        for (line, user, verb, target, expected) in [
            (v1beta1(&format!("\"user\":\"ann\",{all}")), "ann", "delete", pods("a"), true),
            (v1beta1(&format!("\"user\":\"ann\",{all}")), "bob", "get", pods("a"), false),
            (v1beta1(&format!("\"user\":\"*\",{all}")), "bob", "get", pods("a"), true),
            (v1beta1(&format!("\"group\":\"devs\",\"readonly\":true,{all}")), "x", "watch", pods("a"), true),
            (
                v1beta1(&format!("\"group\":\"devs\",\"readonly\":true,{all}")),
                "x",
                "create",
                pods("a"),
                false,
            ),
            (v1beta1(&format!("\"group\":\"ops\",{all}")), "x", "get", pods("a"), false),
            (v1beta1(&format!("\"user\":\"x\",\"group\":\"ops\",{all}")), "x", "get", pods("a"), false),
            (v1beta1(all), "x", "get", pods("a"), false),
            (
                v1beta1("\"user\":\"x\",\"namespace\":\"a\",\"resource\":\"pods\""),
                "x",
                "get",
                pods("a"),
                true,
            ),
            (
                v1beta1("\"user\":\"x\",\"namespace\":\"b\",\"resource\":\"pods\""),
                "x",
                "get",
                pods("a"),
                false,
            ),
            (v1beta1(&format!("\"user\":\"x\",{all}")), "x", "get", Target::Path("/version"), false),
            (
                v1beta1("\"user\":\"x\",\"nonResourcePath\":\"/api*\""),
                "x",
                "get",
                Target::Path("/apis"),
                true,
            ),
            (
                v1beta1("\"user\":\"x\",\"nonResourcePath\":\"/api\""),
                "x",
                "get",
                Target::Path("/apis"),
                false,
            ),
            ("{}".to_owned(), "x", "delete", pods("a"), true),
            ("{}".to_owned(), "x", "get", Target::Path("/version"), true),
            ("{\"user\":\"x\",\"resource\":\"pods\"}".to_owned(), "x", "get", pods("a"), true),
            (
                "{\"user\":\"x\",\"resource\":\"pods\"}".to_owned(),
                "x",
                "get",
                Target::Path("/version"),
                false,
            ),
            ("{\"readonly\":true}".to_owned(), "x", "update", pods("a"), false),
        ] {
            assert_eq!(allows(&line, user, verb, target), expected, "{line} {user} {verb} {target:?}");
        }
    }

    #[test]
    fn errors_name_the_invalid_line() {
        let line = |text: &str| Abac::parse(text).unwrap_err().line;
        assert_eq!(line("# all\n\n{}\n{"), 4);
        assert_eq!(line("{\"kind\":\"Policy\"}"), 1);
        assert_eq!(line("{\"apiVersion\":\"v1\",\"kind\":\"Policy\"}"), 1);
        assert_eq!(line("[]"), 1);
        assert_eq!(Abac::parse("\n# nothing\n").unwrap(), Abac::default());
    }
}
