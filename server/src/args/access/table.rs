//! The flags, with their types and what they do.

use crate::dropin::{BOOL, Flag, honour};

/// Headings of `--help`, and the flags under each.
pub(crate) const TABLES: &[(&str, &[Flag])] =
    &[("Audit webhook", AUDIT_WEBHOOK), ("Authentication", AUTHENTICATION), ("Authorization", AUTHORIZATION)];

/// The flags of the authenticators of bearer tokens.
pub(crate) const AUTHENTICATION: &[Flag] = &[
    honour(
        "authentication-token-webhook-config-file",
        "FILE",
        "Ask the server of this kubeconfig whose a bearer token is, by a TokenReview",
    ),
    honour(
        "authentication-token-webhook-cache-ttl",
        "TIME",
        "How long its answers are kept; 0s: not at all [default: 2m0s]",
    ),
    honour(
        "authentication-token-webhook-version",
        "VERSION",
        "Version of the TokenReviews: v1 or v1beta1 [default: v1beta1]",
    ),
    honour(
        "oidc-issuer-url",
        "URL",
        "Take the tokens of this issuer of OpenID Connect (https); needs --oidc-client-id",
    ),
    honour("oidc-client-id", "ID", "The audience that tokens of the issuer must be for"),
    honour(
        "oidc-ca-file",
        "FILE",
        "Authorities of the issuer's certificate (PEM) [default: those of the machine]",
    ),
    honour("oidc-username-claim", "CLAIM", "The claim that is the user's name [default: sub]"),
    honour(
        "oidc-username-prefix",
        "PREFIX",
        "What stands before the user's name; - for nothing [default: the issuer and #, but nothing before an email]",
    ),
    honour("oidc-groups-claim", "CLAIM", "The claim that lists the user's groups"),
    honour("oidc-groups-prefix", "PREFIX", "What stands before the name of each group"),
    honour("oidc-required-claim", "KEY=VALUE", "A claim that tokens must make; may be given several times"),
    honour("oidc-signing-algs", "ALGS", "Algorithms that tokens may be signed with [default: RS256]"),
    honour(
        "authentication-config",
        "FILE",
        "Issuers of OpenID Connect (apiserver.config.k8s.io AuthenticationConfiguration), instead of --oidc-*",
    ),
    honour(
        "enable-bootstrap-token-auth",
        BOOL,
        "Take the tokens of Secrets of the type bootstrap.kubernetes.io/token in kube-system",
    ),
];

/// The flags of authorization.
pub(crate) const AUTHORIZATION: &[Flag] = &[
    honour(
        "authorization-mode",
        "MODES",
        "Who is asked what a user may do, in this order: Node, RBAC, ABAC, Webhook, AlwaysAllow, AlwaysDeny",
    ),
    honour("authorization-policy-file", "FILE", "Policies of the mode ABAC, one in JSON a line"),
    honour(
        "authorization-webhook-config-file",
        "FILE",
        "Kubeconfig of the server that the mode Webhook asks, by a SubjectAccessReview",
    ),
    honour(
        "authorization-webhook-cache-authorized-ttl",
        "TIME",
        "How long it is kept what the webhook allowed; 0s: not at all [default: 5m0s]",
    ),
    honour(
        "authorization-webhook-cache-unauthorized-ttl",
        "TIME",
        "How long it is kept what the webhook did not allow; 0s: not at all [default: 30s]",
    ),
    honour(
        "authorization-webhook-version",
        "VERSION",
        "Version of the SubjectAccessReviews: v1 or v1beta1 [default: v1beta1]",
    ),
    honour(
        "authorization-config",
        "FILE",
        "Modes and webhooks, in order (apiserver.config.k8s.io AuthorizationConfiguration), instead of --authorization-mode",
    ),
];

/// A server that audit events are posted to.
pub(crate) const AUDIT_WEBHOOK: &[Flag] = &[
    honour(
        "audit-webhook-config-file",
        "FILE",
        "Post audit events to the server of this kubeconfig; needs --audit-policy-file",
    ),
    honour(
        "audit-webhook-mode",
        "MODE",
        "Whether requests wait until their events are posted: batch, blocking or blocking-strict [default: batch]",
    ),
    honour(
        "audit-webhook-batch-buffer-size",
        "N",
        "Events that wait to be posted; in the mode batch further ones are dropped and counted [default: 10000]",
    ),
    honour("audit-webhook-batch-max-size", "N", "The most events in one post [default: 400]"),
    honour(
        "audit-webhook-batch-max-wait",
        "TIME",
        "How long an event waits for others, in the mode batch [default: 30s]",
    ),
    honour(
        "audit-webhook-batch-throttle-enable",
        BOOL,
        "Bound how often events are posted, in the mode batch [default: true]",
    ),
    honour("audit-webhook-batch-throttle-qps", "N", "Posts in a second, on average [default: 10]"),
    honour("audit-webhook-batch-throttle-burst", "N", "Posts at once [default: 15]"),
    honour(
        "audit-webhook-initial-backoff",
        "TIME",
        "The first pause after a post that failed [default: 10s]",
    ),
    honour("audit-webhook-truncate-enabled", BOOL, "Cut large events and posts [default: false]"),
    honour(
        "audit-webhook-truncate-max-event-size",
        "BYTES",
        "A larger event loses its objects, and is dropped if it is still larger [default: 102400]",
    ),
    honour(
        "audit-webhook-truncate-max-batch-size",
        "BYTES",
        "Events of a larger post are posted in several ones [default: 10485760]",
    ),
    honour("audit-webhook-version", "VERSION", "audit.k8s.io/v1; no other"),
];
