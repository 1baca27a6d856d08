//! `AuthenticationConfiguration`: the file of OpenID Connect issuers. Parsed strictly: an unknown field or an
//! invalid entry is an error before any connection is opened.

use anyhow::{Context, bail, ensure};
use kstore_apiserver::authn::oidc::{ALGORITHMS, ClaimRule, IssuerConfig, MappingConfig, Source, UserRule};
use serde::Deserialize;
use std::collections::BTreeSet;

const VERSIONS: [&str; 3] =
    ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];
const KIND: &str = "AuthenticationConfiguration";
/// Largest number of issuers in one file, as in Kubernetes.
const MAX_ISSUERS: usize = 64;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConfigFile {
    api_version: String,
    kind: String,
    #[serde(default)]
    jwt: Vec<JwtAuthenticator>,
    anonymous: Option<serde_yaml_ng::Value>,
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

/// Parses the OpenID Connect issuers of an `AuthenticationConfiguration`.
pub(super) fn parse(text: &str) -> anyhow::Result<Vec<IssuerConfig>> {
    let file: ConfigFile = serde_yaml_ng::from_str(text)?;
    ensure!(
        VERSIONS.contains(&file.api_version.as_str()) && file.kind == KIND,
        "expected {} {KIND}, found {} {}",
        VERSIONS[0],
        file.api_version,
        file.kind
    );
    ensure!(file.anonymous.is_none(), "anonymous: kstore takes --anonymous-auth instead");
    ensure!(file.jwt.len() <= MAX_ISSUERS, "jwt: must have at most {MAX_ISSUERS} items");
    let mut urls = BTreeSet::new();
    let read = |(index, entry): (usize, JwtAuthenticator)| {
        ensure!(
            urls.insert(entry.issuer.url.clone()),
            "jwt[{index}].issuer.url: Duplicate value: {:?}",
            entry.issuer.url
        );
        issuer(entry).with_context(|| format!("jwt[{index}]"))
    };
    file.jwt.into_iter().enumerate().map(read).collect()
}

fn issuer(entry: JwtAuthenticator) -> anyhow::Result<IssuerConfig> {
    let of = entry.issuer;
    ensure!(of.url.starts_with("https://"), "issuer.url: URL scheme must be https, found {:?}", of.url);
    if let Some(url) = &of.discovery_url {
        ensure!(url.starts_with("https://"), "issuer.discoveryURL: URL scheme must be https, found {url:?}");
        ensure!(*url != of.url, "issuer.discoveryURL: must be different from URL");
    }
    ensure!(
        !of.audiences.is_empty(),
        "issuer.audiences: Required value: at least one jwt.issuer.audiences is required"
    );
    ensure!(
        of.audience_match_policy == "MatchAny"
            || (of.audience_match_policy.is_empty() && of.audiences.len() == 1),
        "issuer.audienceMatchPolicy: must be MatchAny for multiple audiences, found {:?}",
        of.audience_match_policy
    );
    ensure!(of.egress_selector_type.is_empty(), "issuer.egressSelectorType: kstore dials directly");
    let ClaimMappings { username, groups, uid, extra } = entry.claim_mappings;
    let username = source("username", username, true)?
        .context("claimMappings.username: claim or expression is required")?;
    let uid = source("uid", uid, false)?;
    for ExtraMapping { key, .. } in &extra {
        let is_name =
            key.split_once('/').is_some_and(|(domain, name)| !domain.is_empty() && !name.is_empty());
        ensure!(
            is_name && *key == key.to_lowercase(),
            "claimMappings.extra: the key {key:?} must be a lower-case domain and path"
        );
    }
    let keys: BTreeSet<&String> = extra.iter().map(|extra| &extra.key).collect();
    ensure!(keys.len() == extra.len(), "claimMappings.extra: a key occurs twice");
    Ok(IssuerConfig {
        url: of.url,
        discovery_url: of.discovery_url,
        authorities: of.certificate_authority.into_bytes(),
        audiences: of.audiences,
        algorithms: ALGORITHMS.map(str::to_owned).to_vec(),
        mapping: MappingConfig {
            username,
            groups: source("groups", groups, true)?,
            uid,
            extra: extra.into_iter().map(|extra| (extra.key, extra.value_expression)).collect(),
            claim_rules: entry
                .claim_validation_rules
                .into_iter()
                .map(claim_rule)
                .collect::<Result<_, _>>()?,
            user_rules: entry.user_validation_rules.into_iter().map(user_rule).collect::<Result<_, _>>()?,
        },
    })
}

/// Parses the source of one user attribute. Only `username` and `groups` have a prefix, and their claims must
/// state it even if it is empty.
fn source(field: &str, mapping: ClaimMapping, has_prefix: bool) -> anyhow::Result<Option<Source>> {
    let at = format!("claimMappings.{field}");
    match (mapping.claim, mapping.expression, mapping.prefix) {
        (None, None, None) => Ok(None),
        (Some(_), Some(_), _) => bail!("{at}: claim and expression can't both be set"),
        (Some(claim), None, Some(prefix)) if has_prefix => Ok(Some(Source::Claim { claim, prefix })),
        (Some(_), None, None) if has_prefix => {
            bail!(
                "{at}.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing"
            )
        }
        (Some(claim), None, None) => Ok(Some(Source::Claim { claim, prefix: String::new() })),
        (None, Some(expression), None) => Ok(Some(Source::Expression(expression))),
        (_, _, Some(_)) => {
            bail!("{at}.prefix: is only allowed with a claim, and only for username and groups")
        }
    }
}

fn claim_rule(rule: ValidationRule) -> anyhow::Result<ClaimRule> {
    match (rule.claim, rule.expression) {
        (Some(claim), None) => {
            ensure!(rule.message.is_empty(), "claimValidationRules: message can't be set when claim is set");
            Ok(ClaimRule::Required { claim, value: rule.required_value })
        }
        (None, Some(expression)) => {
            ensure!(
                rule.required_value.is_empty(),
                "claimValidationRules: requiredValue can't be set when expression is set"
            );
            Ok(ClaimRule::Expression { expression, message: rule.message })
        }
        _ => bail!("claimValidationRules: one of claim and expression is required"),
    }
}

fn user_rule(rule: ValidationRule) -> anyhow::Result<UserRule> {
    match (rule.claim, rule.expression) {
        (None, Some(expression)) if rule.required_value.is_empty() => {
            Ok(UserRule { expression, message: rule.message })
        }
        _ => bail!("userValidationRules: has an expression and a message"),
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
        let issuers = parse(FILE).unwrap();
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
        assert_eq!(issuers, [want]);
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
            ("jwt:", "anonymous: {enabled: true}\njwt:", "kstore takes --anonymous-auth instead"),
            ("jwt:", "surprise: 1\njwt:", "unknown field `surprise`"),
        ] {
            let text = FILE.replacen(from, to, 1);
            assert_ne!(text, FILE, "{from}");
            let refused = format!("{:#}", parse(&text).unwrap_err());
            assert!(refused.contains(want), "{to}: {refused}");
        }
    }
}
