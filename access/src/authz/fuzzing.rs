//! Fuzz targets for files of authorization: arbitrary text as ABAC policies, and as an
//! `AuthorizationConfiguration`.

use super::abac::Abac;
use super::authorization_file::{self, AuthorizerConfig};
use super::webhook::{AuthorizationWebhookOptions, FailurePolicy};
use super::{Attributes, Decision, More, Target};
use crate::authz::ReviewVersion;
use kstore_api::expression::plain::Expression;
use kstore_registry::user::UserInfo;
use serde_json::{Value, json};
use std::time::Duration;

/// The decisions of policies about a few requests.
fn decisions(policies: &Abac) -> Vec<bool> {
    let ann = UserInfo::new("ann", ["devs"]);
    let users = [ann, UserInfo::new("*", ["*"]), UserInfo::anonymous(), UserInfo::default()];
    let pods =
        Target::Resource { group: "", resource: "pods", subresource: "log", namespace: "a", name: "b" };
    let jobs =
        Target::Resource { group: "batch", resource: "jobs", subresource: "", namespace: "", name: "" };
    let targets = [pods, jobs, Target::Path("/version"), Target::Path("")];
    let mut found = Vec::new();
    for user in &users {
        for target in targets {
            for verb in ["get", "delete"] {
                let attributes = Attributes { user, verb, target, more: More::default() };
                found.push(matches!(policies.decide(&attributes), Decision::Allow(_)));
            }
        }
    }
    found
}

/// Checks that an error names the first line that is invalid alone, that the policies of a file allow what each
/// of its lines allows, in any order, and that they are the same after being printed and parsed.
pub fn abac(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let lines: Vec<&str> = text.lines().collect();
    let policies = match Abac::parse(text) {
        Ok(policies) => policies,
        Err(error) => {
            assert!((1..=lines.len()).contains(&error.line), "{error}");
            assert!(
                Abac::parse(&lines[..error.line - 1].join("\n")).is_ok(),
                "the lines before it are valid: {error}"
            );
            let alone = Abac::parse(lines[error.line - 1]).expect_err("the line is invalid");
            assert_eq!((alone.line, &alone.reason), (1, &error.reason));
            return;
        }
    };
    let printed = policies.to_lines();
    assert_eq!(Abac::parse(&printed.join("\n")).expect("printed policies are valid"), policies);
    let backwards: Vec<&str> = lines.iter().rev().copied().collect();
    let found = decisions(&policies);
    assert_eq!(decisions(&Abac::parse(&backwards.join("\n")).expect("the same lines")), found);
    let mut union = vec![false; found.len()];
    for line in &lines {
        let alone = decisions(&Abac::parse(line).expect("a line of a valid file"));
        union.iter_mut().zip(alone).for_each(|(any, one)| *any |= one);
    }
    assert_eq!(union, found, "a file allows what one of its lines allows");
}

/// Checks that a text is a configuration or refused with a reason, that its limits hold, and that it is the same
/// after being printed and parsed. Its conditions are compiled.
pub fn authorization_config(bytes: &[u8]) {
    let authorizers = match authorization_file::parse(bytes) {
        Ok(authorizers) => authorizers,
        Err(error) => {
            assert!(!error.to_string().is_empty(), "a refusal says why");
            return;
        }
    };
    assert!(!authorizers.is_empty(), "a configuration has an authorizer");
    for authorizer in &authorizers {
        let AuthorizerConfig::Webhook { options, conditions, .. } = authorizer else { continue };
        assert!(!options.timeout.is_zero() && options.timeout <= Duration::from_secs(30), "{options:?}");
        for condition in conditions.iter().take(4) {
            if let Err(why) = Expression::condition(condition, &["request"]) {
                assert!(!why.is_empty(), "a refusal says why");
            }
        }
    }
    let printed = printed(&authorizers).to_string();
    let again = authorization_file::parse(printed.as_bytes()).expect("a printed configuration is valid");
    assert_eq!(without_times(&again), without_times(&authorizers));
    for (new, old) in again.iter().zip(&authorizers) {
        let is_near = |(new, old): (Duration, Duration)| {
            new.abs_diff(old).as_secs_f64() <= 1e-6 * (1.0 + old.as_secs_f64())
        };
        assert!(times(new).into_iter().zip(times(old)).all(is_near), "{new:?} {old:?}");
    }
}

fn times(of: &AuthorizerConfig) -> Vec<Duration> {
    match of {
        AuthorizerConfig::Webhook { options, .. } => {
            vec![options.authorized_ttl, options.unauthorized_ttl, options.timeout]
        }
        _ => Vec::new(),
    }
}

fn without_times(authorizers: &[AuthorizerConfig]) -> Vec<AuthorizerConfig> {
    let [authorized_ttl, unauthorized_ttl, timeout] = [Duration::ZERO; 3];
    let without = |authorizer: &AuthorizerConfig| match authorizer.clone() {
        AuthorizerConfig::Webhook { kubeconfig, options, conditions } => {
            let options =
                AuthorizationWebhookOptions { authorized_ttl, unauthorized_ttl, timeout, ..options };
            AuthorizerConfig::Webhook { kubeconfig, options, conditions }
        }
        other => other,
    };
    authorizers.iter().map(without).collect()
}

/// A file with these authorizers. Names of all but webhooks are not kept.
fn printed(authorizers: &[AuthorizerConfig]) -> Value {
    let taken = |name: &str| {
        authorizers
            .iter()
            .any(|of| matches!(of, AuthorizerConfig::Webhook { options, .. } if options.name == name))
    };
    let entries = authorizers.iter().enumerate().map(|(index, authorizer)| {
        let mut name = format!("a{index}");
        while taken(&name) {
            name.push('x');
        }
        let plain = |kind: &str| json!({"type": kind, "name": name});
        match authorizer {
            AuthorizerConfig::Node => plain("Node"),
            AuthorizerConfig::Rbac => plain("RBAC"),
            AuthorizerConfig::AlwaysAllow => plain("AlwaysAllow"),
            AuthorizerConfig::AlwaysDeny => plain("AlwaysDeny"),
            AuthorizerConfig::Webhook { kubeconfig, options, conditions } => {
                let webhook = printed_webhook(kubeconfig.to_str().expect("it was text"), options, conditions);
                json!({"type": "Webhook", "name": options.name, "webhook": webhook})
            }
        }
    });
    json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration",
        "authorizers": entries.collect::<Vec<_>>(),
    })
}

fn printed_webhook(kubeconfig: &str, options: &AuthorizationWebhookOptions, conditions: &[String]) -> Value {
    let time =
        |time: Duration| if time.is_zero() { "1s".to_owned() } else { format!("{}s", time.as_secs_f64()) };
    let conditions: Vec<Value> = conditions.iter().map(|text| json!({"expression": text})).collect();
    json!({
        "authorizedTTL": time(options.authorized_ttl),
        "cacheAuthorizedRequests": !options.authorized_ttl.is_zero(),
        "unauthorizedTTL": time(options.unauthorized_ttl),
        "cacheUnauthorizedRequests": !options.unauthorized_ttl.is_zero(),
        "timeout": time(options.timeout),
        "subjectAccessReviewVersion": match options.version {
            ReviewVersion::V1 => "v1",
            ReviewVersion::V1Beta1 => "v1beta1",
        },
        "matchConditionSubjectAccessReviewVersion": "v1",
        "failurePolicy": match options.failure_policy {
            FailurePolicy::NoOpinion => "NoOpinion",
            FailurePolicy::Deny => "Deny",
        },
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": kubeconfig},
        "matchConditions": conditions,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    /// The fuzzer starts with valid files, and with some that are nearly valid.
    #[test]
    fn the_corpus_has_valid_and_invalid_files() {
        let corpus = |target: &str, name: &str| {
            let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
            fs::read(folder.join(target).join(name)).unwrap()
        };
        let line = |name: &str| {
            Abac::parse(std::str::from_utf8(&corpus("abac", name)).unwrap()).err().map(|error| error.line)
        };
        let valid = ["versioned", "comments", "unversioned", "paths", "windows"].map(line);
        assert_eq!(valid, [None; 5]);
        assert_eq!(["second_line", "kind", "types"].map(line), [Some(2), Some(1), Some(1)]);
        let authorizers = |name: &str| {
            authorization_file::parse(&corpus("authorization_config", name)).map(|found| found.len())
        };
        for (name, count) in [
            ("modes", 2),
            ("webhook", 2),
            ("uncached", 1),
            ("no_conditions", 1),
            ("broken_condition", 1),
            ("json", 1),
        ] {
            assert_eq!(authorizers(name), Ok(count), "{name}");
        }
        for name in ["long", "duplicate", "abac"] {
            assert!(authorizers(name).is_err(), "{name}");
        }
    }
}
