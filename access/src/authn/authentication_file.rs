//! [`AuthenticationFile`]: the file of OpenID Connect issuers and of anonymous access
//! (`AuthenticationConfiguration`). Parsed strictly: an unknown field or an invalid entry is an error before any
//! connection is opened. Pure.

use super::AnonymousAccess;
use super::oidc::{ALGORITHMS, ClaimRule, IssuerConfig, MappingConfig, Source, UserRule};
use crate::access_file::{self, Result, check, invalid};
use serde::Deserialize;
use std::collections::BTreeSet;

const KIND: &str = "AuthenticationConfiguration";
/// Largest number of issuers in one file, as in Kubernetes.
const MAX_ISSUERS: usize = 64;

/// A valid `AuthenticationConfiguration`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthenticationFile {
    /// The issuers, with distinct URLs.
    pub issuers: Vec<IssuerConfig>,
    /// Which requests without credentials are served; `None` if the file does not say it.
    pub anonymous: Option<AnonymousAccess>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConfigFile {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    jwt: Vec<JwtAuthenticator>,
    anonymous: Option<Anonymous>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Anonymous {
    #[serde(default)]
    enabled: bool,
    #[serde(default)]
    conditions: Vec<AnonymousCondition>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AnonymousCondition {
    #[serde(default)]
    path: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct JwtAuthenticator {
    issuer: Issuer,
    #[serde(default)]
    claim_validation_rules: Vec<ValidationRule>,
    claim_mappings: ClaimMappings,
    #[serde(default)]
    user_validation_rules: Vec<ValidationRule>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Issuer {
    url: String,
    #[serde(rename = "discoveryURL")]
    discovery_url: Option<String>,
    #[serde(default)]
    certificate_authority: String,
    #[serde(default)]
    audiences: Vec<String>,
    #[serde(default)]
    audience_match_policy: String,
    #[serde(default)]
    egress_selector_type: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ValidationRule {
    claim: Option<String>,
    #[serde(default)]
    required_value: String,
    expression: Option<String>,
    #[serde(default)]
    message: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ClaimMappings {
    username: ClaimMapping,
    #[serde(default)]
    groups: ClaimMapping,
    #[serde(default)]
    uid: ClaimMapping,
    #[serde(default)]
    extra: Vec<ExtraMapping>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimMapping {
    claim: Option<String>,
    prefix: Option<String>,
    expression: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExtraMapping {
    key: String,
    value_expression: String,
}

impl AuthenticationFile {
    /// Parses a file in YAML or JSON.
    ///
    /// # Errors
    /// The first problem, with the field that has it.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let file = access_file::read(text, KIND, |file: &ConfigFile| (&file.api_version, &file.kind))?;
        check(file.jwt.len() <= MAX_ISSUERS, "jwt", || format!("must have at most {MAX_ISSUERS} items"))?;
        let anonymous = file.anonymous.map(anonymous_access).transpose()?;
        let mut urls = BTreeSet::new();
        let mut issuers = Vec::new();
        for (index, entry) in file.jwt.into_iter().enumerate() {
            let at = format!("jwt[{index}]");
            check(urls.insert(entry.issuer.url.clone()), &format!("{at}.issuer.url"), || {
                format!("Duplicate value: {:?}", entry.issuer.url)
            })?;
            issuers.push(issuer(&at, entry)?);
        }
        Ok(Self { issuers, anonymous })
    }
}

fn anonymous_access(written: Anonymous) -> Result<AnonymousAccess> {
    let Anonymous { enabled, conditions } = written;
    check(enabled || conditions.is_empty(), "anonymous.conditions", || {
        "enabled should be set to true when conditions are defined".to_owned()
    })?;
    if conditions.is_empty() {
        return Ok(enabled.into());
    }
    Ok(AnonymousAccess::Paths(conditions.into_iter().map(|condition| condition.path).collect()))
}

fn issuer(at: &str, entry: JwtAuthenticator) -> Result<IssuerConfig> {
    let of = entry.issuer;
    check_issuer(&format!("{at}.issuer"), &of)?;
    let ClaimMappings { username, groups, uid, extra } = entry.claim_mappings;
    let mappings = format!("{at}.claimMappings");
    let named = format!("{mappings}.username");
    let username = source(&named, username, true)?
        .ok_or_else(|| invalid(&named, "Required value: claim or expression is required"))?;
    check_extra(&format!("{mappings}.extra"), &extra)?;
    let claim_rules = entry.claim_validation_rules.into_iter();
    let user_rules = entry.user_validation_rules.into_iter();
    Ok(IssuerConfig {
        url: of.url,
        discovery_url: of.discovery_url,
        authorities: of.certificate_authority.into_bytes(),
        audiences: of.audiences,
        algorithms: ALGORITHMS.map(str::to_owned).to_vec(),
        mapping: MappingConfig {
            username,
            groups: source(&format!("{mappings}.groups"), groups, true)?,
            uid: source(&format!("{mappings}.uid"), uid, false)?,
            extra: extra.into_iter().map(|extra| (extra.key, extra.value_expression)).collect(),
            claim_rules: claim_rules
                .map(|rule| claim_rule(&format!("{at}.claimValidationRules"), rule))
                .collect::<Result<_>>()?,
            user_rules: user_rules
                .map(|rule| user_rule(&format!("{at}.userValidationRules"), rule))
                .collect::<Result<_>>()?,
        },
    })
}

fn check_issuer(at: &str, of: &Issuer) -> Result<()> {
    let is_https = |url: &str| url.starts_with("https://");
    check(is_https(&of.url), &format!("{at}.url"), || {
        format!("URL scheme must be https, found {:?}", of.url)
    })?;
    if let Some(url) = &of.discovery_url {
        let at = format!("{at}.discoveryURL");
        check(is_https(url), &at, || format!("URL scheme must be https, found {url:?}"))?;
        check(*url != of.url, &at, || "must be different from URL".to_owned())?;
    }
    check(!of.audiences.is_empty(), &format!("{at}.audiences"), || {
        "Required value: at least one jwt.issuer.audiences is required".to_owned()
    })?;
    let policy = of.audience_match_policy.as_str();
    let is_clear = policy == "MatchAny" || (policy.is_empty() && of.audiences.len() == 1);
    check(is_clear, &format!("{at}.audienceMatchPolicy"), || {
        format!("must be MatchAny for multiple audiences, found {policy:?}")
    })?;
    let is_direct = of.egress_selector_type.is_empty();
    check(is_direct, &format!("{at}.egressSelectorType"), || "kstore dials directly".to_owned())
}

fn check_extra(at: &str, extra: &[ExtraMapping]) -> Result<()> {
    let mut keys = BTreeSet::new();
    for ExtraMapping { key, .. } in extra {
        let is_name =
            key.split_once('/').is_some_and(|(domain, name)| !domain.is_empty() && !name.is_empty());
        check(is_name && *key == key.to_lowercase(), at, || {
            format!("the key {key:?} must be a lower-case domain and path")
        })?;
        check(keys.insert(key), at, || format!("Duplicate value: {key:?}"))?;
    }
    Ok(())
}

/// Parses the source of one user attribute. Only `username` and `groups` have a prefix, and their claims must
/// state it even if it is empty.
fn source(at: &str, mapping: ClaimMapping, has_prefix: bool) -> Result<Option<Source>> {
    let prefix = format!("{at}.prefix");
    match (mapping.claim, mapping.expression, mapping.prefix) {
        (None, None, None) => Ok(None),
        (Some(_), Some(_), _) => Err(invalid(at, "claim and expression can't both be set")),
        (Some(claim), None, Some(prefix)) if has_prefix => Ok(Some(Source::Claim { claim, prefix })),
        (Some(_), None, None) if has_prefix => Err(invalid(
            &prefix,
            "Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing",
        )),
        (Some(claim), None, None) => Ok(Some(Source::Claim { claim, prefix: String::new() })),
        (None, Some(expression), None) => Ok(Some(Source::Expression(expression))),
        (_, _, Some(_)) => {
            Err(invalid(&prefix, "is only allowed with a claim, and only for username and groups"))
        }
    }
}

fn claim_rule(at: &str, rule: ValidationRule) -> Result<ClaimRule> {
    match (rule.claim, rule.expression) {
        (Some(claim), None) => {
            check(rule.message.is_empty(), at, || "message can't be set when claim is set".to_owned())?;
            Ok(ClaimRule::Required { claim, value: rule.required_value })
        }
        (None, Some(expression)) => {
            check(rule.required_value.is_empty(), at, || {
                "requiredValue can't be set when expression is set".to_owned()
            })?;
            Ok(ClaimRule::Expression { expression, message: rule.message })
        }
        _ => Err(invalid(at, "one of claim and expression is required")),
    }
}

fn user_rule(at: &str, rule: ValidationRule) -> Result<UserRule> {
    match (rule.claim, rule.expression) {
        (None, Some(expression)) if rule.required_value.is_empty() => {
            Ok(UserRule { expression, message: rule.message })
        }
        _ => Err(invalid(at, "has an expression and a message")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
jwt:
- issuer:
    url: https://a.example.com
    discoveryURL: https://b.example.com/found
    certificateAuthority: PEM
    audiences: [kube, other]
    audienceMatchPolicy: MatchAny
  claimValidationRules:
  - claim: hd
    requiredValue: example.com
  - expression: claims.ok
    message: not ok
  claimMappings:
    username: {expression: claims.sub}
    groups: {claim: roles, prefix: ''}
    uid: {claim: id}
    extra: [{key: example.com/tenant, valueExpression: claims.tenant}]
  userValidationRules:
  - {expression: \"user.username != 'root'\", message: no root}
";

    #[test]
    fn every_field_of_an_authentication_configuration_is_read() {
        let AuthenticationFile { issuers, anonymous } = AuthenticationFile::parse(FILE.as_bytes()).unwrap();
        let want = IssuerConfig {
            url: "https://a.example.com".into(),
            discovery_url: Some("https://b.example.com/found".into()),
            authorities: b"PEM".to_vec(),
            audiences: vec!["kube".into(), "other".into()],
            algorithms: ALGORITHMS.map(str::to_owned).to_vec(),
            mapping: MappingConfig {
                username: Source::Expression("claims.sub".into()),
                groups: Some(Source::Claim { claim: "roles".into(), prefix: String::new() }),
                uid: Some(Source::Claim { claim: "id".into(), prefix: String::new() }),
                extra: vec![("example.com/tenant".into(), "claims.tenant".into())],
                claim_rules: vec![
                    ClaimRule::Required { claim: "hd".into(), value: "example.com".into() },
                    ClaimRule::Expression { expression: "claims.ok".into(), message: "not ok".into() },
                ],
                user_rules: vec![UserRule {
                    expression: "user.username != 'root'".into(),
                    message: "no root".into(),
                }],
            },
        };
        assert_eq!((issuers, anonymous), (vec![want], None));
    }

    #[test]
    fn authentication_file_errors_name_the_invalid_field() {
        for (from, to, want) in [
            ("kind: Auth", "kind: Other", "expected apiserver.config.k8s.io/v1 AuthenticationConfiguration"),
            ("url: https://a", "url: http://a", "URL scheme must be https"),
            (
                "audienceMatchPolicy: MatchAny",
                "audienceMatchPolicy: ''",
                "must be MatchAny for multiple audiences",
            ),
            ("audiences: [kube, other]", "audiences: []", "at least one jwt.issuer.audiences is required"),
            ("{claim: roles, prefix: ''}", "{claim: roles}", "prefix is required when claim is set"),
            ("{expression: claims.sub}", "{}", "claim or expression is required"),
            ("{expression: claims.sub}", "{expression: a, claim: b, prefix: ''}", "can't both be set"),
            ("example.com/tenant", "tenant", "must be a lower-case domain and path"),
            ("  - claim: hd\n", "  - message: x\n", "one of claim and expression is required"),
            (
                "jwt:",
                "anonymous: {enabled: false, conditions: [{path: /livez}]}\njwt:",
                "anonymous.conditions: enabled should be set to true when conditions are defined",
            ),
            ("jwt:", "anonymous: {conditions: [{path: /livez}]}\njwt:", "enabled should be set to true"),
            ("jwt:", "anonymous: {enabled: true, path: /livez}\njwt:", "unknown field `path`"),
            ("kind: Auth", "kind: Auth\nkind: Auth", "already set in map"),
            ("url: https://a.example.com", "url: http://a", "jwt[0].issuer.url: URL scheme must be https"),
            ("jwt:", "surprise: 1\njwt:", "unknown field `surprise`"),
        ] {
            let text = FILE.replacen(from, to, 1);
            assert_ne!(text, FILE, "{from}");
            let refused = AuthenticationFile::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(refused.contains(want), "{to}: {refused}");
        }
    }

    #[test]
    fn anonymous_access_is_read_from_the_file() {
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n";
        let paths =
            |paths: &[&str]| AnonymousAccess::Paths(paths.iter().map(|&path| path.to_owned()).collect());
        for (text, want) in [
            ("", None),
            ("anonymous: null", None),
            ("anonymous: {}", Some(AnonymousAccess::Nowhere)),
            ("anonymous: {enabled: false}", Some(AnonymousAccess::Nowhere)),
            ("anonymous: {enabled: true}", Some(AnonymousAccess::Everywhere)),
            ("anonymous: {enabled: true, conditions: []}", Some(AnonymousAccess::Everywhere)),
            (
                "anonymous: {enabled: true, conditions: [{path: /livez}, {path: /readyz}]}",
                Some(paths(&["/livez", "/readyz"])),
            ),
        ] {
            let file = AuthenticationFile::parse(format!("{head}{text}").as_bytes()).unwrap();
            assert_eq!((file.anonymous, file.issuers), (want, vec![]), "{text}");
        }
    }
}
