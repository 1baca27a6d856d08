//! The flags that `kstore-server` and its kube-apiserver replacement share, one row each.

use super::event_ttl;
use crate::args::flag::{BOOL, Flag, honour, put, repeated};

/// Flags of Events.
pub(crate) const EVENTS: &[Flag] = &[Flag::server(
    "event-ttl",
    "TIME",
    |config, text| put(&mut config.registry.event_ttl, event_ttl(text)),
    "How long Events are kept after their last change, such as 10m; 0s keeps them [default: 1h0m0s]",
)
.shaped(repeated)];

/// The flag of the version, which kube-apiserver does not have.
pub(crate) const KUBERNETES: &[Flag] =
    &[honour(super::apis::VERSION, "VERSION", "The version of Kubernetes whose API is served, such as 1.34")
        .shaped(|arg| arg.env("KSTORE_KUBERNETES_VERSION"))];

/// Flags of optional APIs and features.
pub(crate) const APIS: &[Flag] = &[
    honour(
        "runtime-config",
        "APIS",
        "APIs that are off by default, as API=true: group/version, group/version/resource, api/beta or api/all",
    ),
    honour(
        "feature-gates",
        "GATES",
        "Feature gates of Kubernetes, as NAME=BOOL; one that kstore cannot change gives a warning",
    ),
];

/// Flags of the admission plugins.
pub(crate) const ADMISSION: &[Flag] = &[
    honour(
        "enable-admission-plugins",
        "PLUGINS",
        "Admission plugins to run in addition to those that Kubernetes runs by default",
    ),
    honour("disable-admission-plugins", "PLUGINS", "Admission plugins not to run"),
    honour(
        "admission-control-config-file",
        "FILE",
        "Configurations of admission plugins (apiserver.config.k8s.io AdmissionConfiguration)",
    ),
];

/// Flags of the requests that are served at a time.
pub(crate) const REQUEST_LIMITS: &[Flag] = &[
    honour(
        "enable-priority-and-fairness",
        BOOL,
        "Divide the requests of clients by FlowSchemas and PriorityLevelConfigurations [default: true]",
    ),
    honour(
        "max-requests-inflight",
        "N",
        "Reads that are served at a time; with priority and fairness, added to the next number [default: 400]",
    ),
    honour(
        "max-mutating-requests-inflight",
        "N",
        "Writes that are served at a time; priority levels divide the sum of both numbers [default: 200]",
    ),
];

/// Flags of bearer token authentication.
pub(crate) const AUTHENTICATION: &[Flag] = &[
    honour(
        "authentication-token-webhook-config-file",
        "FILE",
        "Authenticate bearer tokens with TokenReviews by the server of this kubeconfig",
    ),
    honour(
        "authentication-token-webhook-cache-ttl",
        "TIME",
        "How long TokenReview answers are cached; 0s disables [default: 2m0s]",
    ),
    honour(
        "authentication-token-webhook-version",
        "VERSION",
        "API version of TokenReviews: v1 or v1beta1 [default: v1beta1]",
    ),
    honour(
        "oidc-issuer-url",
        "URL",
        "Accept tokens of this OpenID Connect issuer (https); needs --oidc-client-id",
    ),
    honour("oidc-client-id", "ID", "Audience that tokens of the issuer must have"),
    honour(
        "oidc-ca-file",
        "FILE",
        "Certificate authorities of the issuer (PEM) [default: those of the machine]",
    ),
    honour("oidc-username-claim", "CLAIM", "Claim with the user name [default: sub]"),
    honour(
        "oidc-username-prefix",
        "PREFIX",
        "Prefix of user names; - for none [default: the issuer URL and #; none for the claim email]",
    ),
    honour("oidc-groups-claim", "CLAIM", "Claim with the list of the user's groups"),
    honour("oidc-groups-prefix", "PREFIX", "Prefix of group names"),
    honour("oidc-required-claim", "KEY=VALUE", "Claim that tokens must have; may be given several times"),
    honour("oidc-signing-algs", "ALGS", "Algorithms that tokens may be signed with [default: RS256]"),
    honour(
        "authentication-config",
        "FILE",
        "File of OpenID Connect issuers (apiserver.config.k8s.io AuthenticationConfiguration), instead of --oidc-*",
    ),
    honour(
        "enable-bootstrap-token-auth",
        BOOL,
        "Accept bootstrap tokens: Secrets of type bootstrap.kubernetes.io/token in kube-system",
    ),
];

/// Flags of passwords, which kube-apiserver no longer has.
pub(crate) const BASIC_AUTH: &[Flag] = &[honour(
    "basic-auth-file",
    "FILE",
    "Accept user names and passwords (HTTP Basic) of this file: lines of user:hash:uid:group1,group2, as `kstore-server basic-auth USER` or `htpasswd -nB USER` prints them",
)];

/// Flags of authorization.
pub(crate) const AUTHORIZATION: &[Flag] = &[
    honour(
        "authorization-mode",
        "MODES",
        "Authorization modes, in the order in which they are asked: Node, RBAC, ABAC, Webhook, AlwaysAllow, AlwaysDeny",
    ),
    honour("authorization-policy-file", "FILE", "Policies of the mode ABAC, one JSON object per line"),
    honour(
        "authorization-webhook-config-file",
        "FILE",
        "Kubeconfig of the server to which the mode Webhook sends SubjectAccessReviews",
    ),
    honour(
        "authorization-webhook-cache-authorized-ttl",
        "TIME",
        "How long allowing answers of the webhook are cached; 0s disables [default: 5m0s]",
    ),
    honour(
        "authorization-webhook-cache-unauthorized-ttl",
        "TIME",
        "How long other answers of the webhook are cached; 0s disables [default: 30s]",
    ),
    honour(
        "authorization-webhook-version",
        "VERSION",
        "API version of SubjectAccessReviews: v1 or v1beta1 [default: v1beta1]",
    ),
    honour(
        "authorization-config",
        "FILE",
        "File of authorization modes and webhooks, in order (apiserver.config.k8s.io AuthorizationConfiguration), instead of --authorization-mode",
    ),
];

/// Flags of the audit webhook.
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
        "Largest number of events waiting to be posted; in mode batch, further events are dropped and counted [default: 10000]",
    ),
    honour("audit-webhook-batch-max-size", "N", "Largest number of events in one post [default: 400]"),
    honour(
        "audit-webhook-batch-max-wait",
        "TIME",
        "Longest time an event waits for its batch to fill, in mode batch [default: 30s]",
    ),
    honour(
        "audit-webhook-batch-throttle-enable",
        BOOL,
        "Limit the rate of posts, in mode batch [default: true]",
    ),
    honour("audit-webhook-batch-throttle-qps", "N", "Average number of posts per second [default: 10]"),
    honour("audit-webhook-batch-throttle-burst", "N", "Largest number of posts in a burst [default: 15]"),
    honour(
        "audit-webhook-initial-backoff",
        "TIME",
        "Delay before the first retry of a failed post [default: 10s]",
    ),
    honour(
        "audit-webhook-truncate-enabled",
        BOOL,
        "Truncate large events and split large posts [default: false]",
    ),
    honour(
        "audit-webhook-truncate-max-event-size",
        "BYTES",
        "Size above which an event loses its objects; an event that is still larger is dropped [default: 102400]",
    ),
    honour(
        "audit-webhook-truncate-max-batch-size",
        "BYTES",
        "Size above which a post is split [default: 10485760]",
    ),
    honour("audit-webhook-version", "VERSION", "API version of events; only audit.k8s.io/v1 is supported"),
];
