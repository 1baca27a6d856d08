//! Audit policies: `audit.k8s.io/v1 Policy` documents, parsed and validated with Kubernetes' messages. Pure.
//! [`super::decide`] applies them.

use kstore_api::field::{ErrorList, Path};
use kstore_api::group_version::split_api_version;
use kstore_api::name::dns1123_subdomain;
use kstore_api::yaml;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How much of a request is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) enum Level {
    /// Nothing: there is no event.
    #[default]
    None,
    /// Metadata of the request: user, verb and object reference, without the objects themselves.
    Metadata,
    /// Also the request's object.
    Request,
    /// Also the response's object.
    RequestResponse,
}

impl Level {
    pub(super) const ALL: [Self; 4] = [Self::None, Self::Metadata, Self::Request, Self::RequestResponse];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

/// A stage of a request at which an event is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Stage {
    /// Before the request is handled.
    RequestReceived,
    /// The head of the response to a long-running request is complete.
    ResponseStarted,
    /// The response is complete.
    ResponseComplete,
    /// Handling the request panicked.
    Panic,
}

impl Stage {
    const ALL: [Self; 4] =
        [Self::RequestReceived, Self::ResponseStarted, Self::ResponseComplete, Self::Panic];

    fn name(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stages(u8);

impl Stages {
    pub(super) fn contains(self, stage: Stage) -> bool {
        self.0 & stage.bit() != 0
    }

    #[must_use]
    pub(super) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl FromIterator<Stage> for Stages {
    fn from_iter<I: IntoIterator<Item = Stage>>(stages: I) -> Self {
        Self(stages.into_iter().fold(0, |bits, stage| bits | stage.bit()))
    }
}

/// A valid audit policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub(super) rules: Vec<Rule>,
    pub(super) omit_stages: Stages,
    pub(super) omit_managed_fields: bool,
}

/// A rule of a policy. Empty lists match everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) level: Level,
    pub(super) users: Vec<String>,
    pub(super) user_groups: Vec<String>,
    pub(super) verbs: Vec<String>,
    pub(super) resources: Vec<GroupResources>,
    pub(super) namespaces: Vec<String>,
    pub(super) non_resource_urls: Vec<String>,
    pub(super) omit_stages: Stages,
    /// `None`: the policy's own setting applies.
    pub(super) omit_managed_fields: Option<bool>,
}

/// Resources of one API group that a rule matches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct GroupResources {
    #[serde(deserialize_with = "null_as_default")]
    pub(super) group: String,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) resources: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) resource_names: Vec<String>,
}

/// An audit policy was refused: the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// The text is not a document of the right type.
    #[error("failed decoding: {0}")]
    Decoding(String),
    /// The API version is not that of policies.
    #[error("unknown group version field {0} in policy")]
    Version(String),
    /// The policy has no rules, so that no request would be recorded.
    #[error("loaded illegal policy with 0 rules")]
    NoRules,
    /// Some fields are invalid.
    #[error("{0}")]
    Invalid(String),
}

/// Bytes of the largest policy, after its YAML aliases are expanded.
const MAX_BYTES: usize = 3 << 20;
const GROUP_VERSION: &str = "audit.k8s.io/v1";

impl Policy {
    /// Parses a policy from YAML or JSON. Unknown fields are ignored, as in kube-apiserver.
    ///
    /// # Errors
    /// The text is not a policy, or the policy is not valid.
    pub fn parse(text: &[u8]) -> Result<Self, PolicyError> {
        let document = yaml::parse(text, MAX_BYTES).map_err(PolicyError::Decoding)?.value;
        let text = |field: &str| document[field].as_str().unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        if kind.is_empty() {
            return Err(PolicyError::Decoding(format!("Object 'Kind' is missing in '{document}'")));
        }
        if api_version != GROUP_VERSION {
            let (group, version) = split_api_version(api_version);
            return Err(PolicyError::Version(format!("{group}/{version}, Kind={kind}")));
        }
        if kind != "Policy" {
            let why = format!("no kind {kind:?} is registered for version {api_version:?}");
            return Err(PolicyError::Decoding(why));
        }
        let written: WrittenPolicy =
            serde_json::from_value(document).map_err(|error| PolicyError::Decoding(error.to_string()))?;
        if written.rules.is_empty() {
            return Err(PolicyError::NoRules);
        }
        written.validate()
    }
}

/// A policy as users write it, before validation.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenPolicy {
    #[serde(deserialize_with = "null_as_default")]
    rules: Vec<WrittenRule>,
    #[serde(deserialize_with = "null_as_default")]
    omit_stages: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    omit_managed_fields: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenRule {
    #[serde(deserialize_with = "null_as_default")]
    level: String,
    #[serde(deserialize_with = "null_as_default")]
    users: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    user_groups: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    verbs: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    resources: Vec<GroupResources>,
    #[serde(deserialize_with = "null_as_default")]
    namespaces: Vec<String>,
    #[serde(rename = "nonResourceURLs", deserialize_with = "null_as_default")]
    non_resource_urls: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    omit_stages: Vec<String>,
    omit_managed_fields: Option<bool>,
}

/// Reads null as the default value, as Go does.
fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + serde::de::DeserializeOwned,
{
    let value = Option::<Value>::deserialize(deserializer)?;
    value.map_or_else(|| Ok(T::default()), |value| T::deserialize(value).map_err(serde::de::Error::custom))
}

impl WrittenPolicy {
    fn validate(self) -> Result<Policy, PolicyError> {
        let mut errors = ErrorList::new();
        let omit_stages = stages(&self.omit_stages, &Path::new("omitStages"), &mut errors);
        let path = Path::new("rules");
        let rules = self.rules.into_iter().enumerate();
        let rules = rules.map(|(index, rule)| rule.validate(&path.index(index), &mut errors)).collect();
        if !errors.is_empty() {
            return Err(PolicyError::Invalid(errors.aggregate()));
        }
        Ok(Policy { rules, omit_stages, omit_managed_fields: self.omit_managed_fields })
    }
}

impl WrittenRule {
    fn validate(self, path: &Path<'_>, errors: &mut ErrorList) -> Rule {
        let level = level(&self.level, &path.child("level"), errors);
        let urls = path.child("nonResourceURLs");
        for (index, url) in self.non_resource_urls.iter().enumerate() {
            validate_url(url, &urls.index(index), errors);
        }
        validate_resources(&self.resources, &path.child("resources"), errors);
        let omit_stages = stages(&self.omit_stages, &path.child("omitStages"), errors);
        let is_about_resources = !self.resources.is_empty() || !self.namespaces.is_empty();
        if !self.non_resource_urls.is_empty() && is_about_resources {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            errors.invalid(&urls, &self.non_resource_urls, why);
        }
        Rule {
            level,
            users: self.users,
            user_groups: self.user_groups,
            verbs: self.verbs,
            resources: self.resources,
            namespaces: self.namespaces,
            non_resource_urls: self.non_resource_urls,
            omit_stages,
            omit_managed_fields: self.omit_managed_fields,
        }
    }
}

fn level(name: &str, path: &Path<'_>, errors: &mut ErrorList) -> Level {
    match Level::ALL.into_iter().find(|level| level.name() == name) {
        Some(level) => return level,
        None if name.is_empty() => errors.required(path, ""),
        None => errors.not_supported_as_listed(path, name, &Level::ALL.map(Level::name)),
    }
    Level::None
}

fn stages(names: &[String], path: &Path<'_>, errors: &mut ErrorList) -> Stages {
    let mut stages = Vec::new();
    for (index, name) in names.iter().enumerate() {
        match Stage::ALL.into_iter().find(|stage| stage.name() == name) {
            Some(stage) => stages.push(stage),
            None => {
                errors.not_supported_as_listed(&path.index(index), name, &Stage::ALL.map(Stage::name));
            }
        }
    }
    stages.into_iter().collect()
}

fn validate_url(url: &str, path: &Path<'_>, errors: &mut ErrorList) {
    if url == "*" {
        return;
    }
    if !url.starts_with('/') {
        errors.invalid(path, url, "non-resource URL rules must begin with a '/' character");
    }
    if url.strip_suffix('*').unwrap_or(url).contains('*') {
        errors.invalid(path, url, "non-resource URL wildcards '*' must be the final character of the rule");
    }
}

/// Validates groups and resource names. The paths of the errors lack the index, as in Kubernetes.
fn validate_resources(groups: &[GroupResources], path: &Path<'_>, errors: &mut ErrorList) {
    for group in groups {
        let faults = if group.group.is_empty() { Vec::new() } else { dns1123_subdomain(&group.group) };
        if !faults.is_empty() {
            errors.invalid(&path.child("group"), &group.group, faults.join(","));
        }
        if !group.resource_names.is_empty() && group.resources.is_empty() {
            let why = "using resourceNames requires at least one resource";
            errors.invalid(&path.child("resourceNames"), &group.resource_names, why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &str) -> Result<Policy, String> {
        let text = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\n{body}");
        Policy::parse(text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_policy_is_read_from_yaml_or_json() {
        let policy = parse(
            "omitStages: [RequestReceived]\nomitManagedFields: true\nrules:\n- level: Request\n  users: [ann]\n  \
             resources: [{group: '', resources: [pods/log], resourceNames: [a]}]\n  omitManagedFields: false\n\
             - {level: None, nonResourceURLs: [/healthz*, '*'], userGroups: null, unknown: 1}\n",
        )
        .unwrap();
        assert!(policy.omit_managed_fields && policy.omit_stages.contains(Stage::RequestReceived));
        assert!(!policy.omit_stages.contains(Stage::Panic));
        let [first, second] = &policy.rules[..] else { panic!("two rules") };
        assert_eq!((first.level, second.level), (Level::Request, Level::None));
        assert_eq!((first.omit_managed_fields, second.omit_managed_fields), (Some(false), None));
        assert_eq!(first.resources[0].resource_names, ["a"]);
        assert_eq!(second.non_resource_urls, ["/healthz*", "*"]);
        let json =
            br#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}"#;
        assert_eq!(Policy::parse(json).unwrap().rules[0].level, Level::Metadata);
    }

    #[test]
    fn invalid_policies_are_refused_with_kubernetes_messages() {
        let levels = r#"supported values: "None", "Metadata", "Request", "RequestResponse""#;
        let stages = r#"supported values: "RequestReceived", "ResponseStarted", "ResponseComplete", "Panic""#;
        let rule = |rule: &str| format!("rules: [{{level: None, {rule}}}]");
        for (body, want) in [
            ("rules: []".to_owned(), "loaded illegal policy with 0 rules".to_owned()),
            (String::new(), "loaded illegal policy with 0 rules".to_owned()),
            ("rules: [{}]".into(), "rules[0].level: Required value".into()),
            ("rules: [{level: metadata}]".into(), format!("rules[0].level: Unsupported value: \"metadata\": {levels}")),
            (format!("omitStages: [A]\n{}", rule("")), format!("omitStages[0]: Unsupported value: \"A\": {stages}")),
            (rule("omitStages: [Panic, B]"), format!("rules[0].omitStages[1]: Unsupported value: \"B\": {stages}")),
            (rule("nonResourceURLs: [healthz]"), "rules[0].nonResourceURLs[0]: Invalid value: \"healthz\": non-resource URL rules must begin with a '/' character".into()),
            (rule("nonResourceURLs: [/a*b]"), "rules[0].nonResourceURLs[0]: Invalid value: \"/a*b\": non-resource URL wildcards '*' must be the final character of the rule".into()),
            (rule("nonResourceURLs: [/a], namespaces: [b]"), "rules[0].nonResourceURLs: Invalid value: [\"/a\"]: rules cannot apply to both regular resources and non-resource URLs".into()),
            (rule("resources: [{resourceNames: [a]}]"), "rules[0].resources.resourceNames: Invalid value: [\"a\"]: using resourceNames requires at least one resource".into()),
        ] {
            assert_eq!(parse(&body).unwrap_err(), want, "{body}");
        }
        let group = parse(&rule("resources: [{group: Apps}]")).unwrap_err();
        assert!(
            group.starts_with(
                "rules[0].resources.group: Invalid value: \"Apps\": a lowercase RFC 1123 subdomain"
            ),
            "{group}"
        );
        let two = parse("rules: [{}, {level: x}]").unwrap_err();
        assert!(
            two.starts_with("[rules[0].level: Required value, rules[1].level: Unsupported value"),
            "{two}"
        );
        assert!(parse("rules: [{level: [1]}]").unwrap_err().starts_with("failed decoding: "));
        for (text, want) in [
            ("a: b: c", "failed decoding: yaml: line 1: mapping values are not allowed in this context"),
            (
                "apiVersion: audit.k8s.io/v1",
                "failed decoding: Object 'Kind' is missing in '{\"apiVersion\":\"audit.k8s.io/v1\"}'",
            ),
            (
                "apiVersion: audit.k8s.io/v1beta1\nkind: Policy",
                "unknown group version field audit.k8s.io/v1beta1, Kind=Policy in policy",
            ),
            (
                "apiVersion: audit.k8s.io/v1\nkind: Event",
                "failed decoding: no kind \"Event\" is registered for version \"audit.k8s.io/v1\"",
            ),
        ] {
            assert_eq!(Policy::parse(text.as_bytes()).unwrap_err().to_string(), want, "{text}");
        }
    }
}
