//! Tests of valid authorization files and of the errors for invalid ones.

use super::*;

const WEBHOOK: &str = "
apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Node
  name: node
- type: Webhook
  name: first
  webhook:
    authorizedTTL: 1m
    unauthorizedTTL: 5s
    cacheUnauthorizedRequests: false
    timeout: 3s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo:
      type: KubeConfigFile
      kubeConfigFile: /hook.kubeconfig
    matchConditions:
    - expression: has(request.resourceAttributes)
- type: RBAC
  name: rbac
";

#[test]
fn authorizers_keep_their_order() {
    let options = AuthorizationWebhookOptions {
        name: "first".to_owned(),
        authorized_ttl: Duration::from_secs(60),
        unauthorized_ttl: Duration::ZERO,
        timeout: Duration::from_secs(3),
        version: ReviewVersion::V1,
        failure_policy: FailurePolicy::Deny,
    };
    let conditions = vec!["has(request.resourceAttributes)".to_owned()];
    let webhook = AuthorizerConfig::Webhook { kubeconfig: "/hook.kubeconfig".into(), options, conditions };
    assert_eq!(parse(WEBHOOK.as_bytes()).unwrap(), [AuthorizerConfig::Node, webhook, AuthorizerConfig::Rbac]);
}

#[test]
fn authorization_file_errors_name_the_invalid_field() {
    for (from, to, want) in [
        ("/v1\n", "/v2\n", "expected apiserver.config.k8s.io/v1 AuthorizationConfiguration"),
        ("type: RBAC", "type: Node", "authorizers[2].type: Duplicate value"),
        ("type: RBAC", "type: Unknown", "\"Unknown\" is not a valid mode"),
        ("name: rbac", "name: first", "authorizers[2].name: Duplicate value"),
        ("name: rbac", "name: Rbac", "must be a DNS subdomain"),
        ("timeout: 3s", "timeout: 31s", "webhook.timeout: must be <= 30s"),
        ("    timeout: 3s\n", "", "webhook.timeout: Required value"),
        ("timeout: 3s", "timeout: soon", "expected a time above 0"),
        ("failurePolicy: Deny", "failurePolicy: Fail", "expected NoOpinion or Deny"),
        (
            "subjectAccessReviewVersion: v1\n    match",
            "subjectAccessReviewVersion: v3\n    match",
            "expected v1 or v1beta1",
        ),
        ("type: KubeConfigFile", "type: InClusterConfig", "kstore does not run inside a cluster"),
        ("    failurePolicy", "    surprise: 1\n    failurePolicy", "unknown field `surprise`"),
    ] {
        let text = WEBHOOK.replacen(from, to, 1);
        assert_ne!(text, WEBHOOK, "{from}");
        let refused = parse(text.as_bytes()).unwrap_err().to_string();
        assert!(refused.contains(want), "{to}: {refused}");
    }
    let empty = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n";
    assert!(parse(empty.as_bytes()).unwrap_err().to_string().contains("at least one"));
}

#[test]
fn changes_of_a_file_keep_its_modes_besides_webhooks_and_add_neither_node_nor_rbac() {
    use AuthorizerConfig::{AlwaysAllow, AlwaysDeny, Node, Rbac};
    let hook = || parse(WEBHOOK.as_bytes()).unwrap().remove(1);
    let missing = |modes: &str| format!("the types {modes} of the initial configuration must remain");
    let added = |mode: &str| format!("authorizer type {mode} is not allowed if it was not enabled");
    for (first, changed, refused) in [
        (vec![Node, Rbac], vec![Rbac, Node], None),
        (vec![Node, Rbac], vec![Node, hook(), Rbac], None),
        (vec![Node, hook(), Rbac], vec![Node, Rbac, AlwaysDeny], None),
        (vec![hook()], vec![hook(), AlwaysAllow], None),
        (vec![hook()], vec![AlwaysDeny], None),
        (vec![Node, Rbac], vec![hook()], Some(missing("Node, RBAC"))),
        (vec![AlwaysAllow, Rbac], vec![Rbac], Some(missing("AlwaysAllow"))),
        (vec![Rbac], vec![Node, Rbac], Some(added("Node"))),
        (vec![hook()], vec![hook(), Rbac], Some(added("RBAC"))),
    ] {
        let checked = KeptModes::of(&first).check(&changed).map_err(|error| error.to_string());
        match (&checked, &refused) {
            (Ok(()), None) => {}
            (Err(error), Some(reason)) if error.starts_with(&format!("authorizers: {reason}")) => {}
            _ => panic!("{first:?} {changed:?}: {checked:?}"),
        }
    }
}
