//! The flags of kube-controller-manager and kube-scheduler 1.36 and 1.37, each with its verdict.

use crate::args::{BOOL, Flag, accept, honour, refuse, refuse_unless};
use crate::dropin::every_program::EVERY_PROGRAM;
use crate::flags::{Dialect, Table};
use kstore_api::kubernetes_default;

/// All flags of kube-controller-manager, in the syntax of pflag.
pub(super) const CONTROLLER_MANAGER: Table =
    Table { groups: &[EVERY_PROGRAM, SHARED, OF_CONTROLLERS], dialect: Dialect::Pflag };
/// All flags of kube-scheduler, in the syntax of pflag.
pub(super) const SCHEDULER: Table =
    Table { groups: &[EVERY_PROGRAM, SHARED, OF_SCHEDULER], dialect: Dialect::Pflag };

const NO_CLOUD: &str = "kstore has no cloud provider";
const FIXED_VERSION: &str = concat!("this program is that of Kubernetes ", kubernetes_default!(), " only");
/// The values of `--emulated-version` that change nothing.
const OWN_VERSION: &[&str] = &["", kubernetes_default!(), concat!("kube=", kubernetes_default!())];

const SHARED: &[Flag] = &[
    honour("help", BOOL, "help for this program"),
    honour("version", BOOL, "print version information and quit; --version=raw prints details"),
    honour(
        "kubeconfig",
        "string",
        "path of the kubeconfig file, with the address of the apiserver and the credentials of this program; required",
    ),
    honour("master", "string", "address of the apiserver, instead of the one in --kubeconfig"),
    honour("bind-address", "ip", "address to listen on for health checks and metrics (default 0.0.0.0)"),
    honour(
        "secure-port",
        "int",
        "port to listen on for health checks and metrics; 0 disables it (default 0)",
    ),
    honour(
        "cert-dir",
        "string",
        "directory of apiserver.crt and apiserver.key, which are created if they do not exist",
    ),
    honour(
        "tls-cert-file",
        "string",
        "certificate chain for --secure-port (PEM); takes precedence over --cert-dir",
    ),
    honour("tls-private-key-file", "string", "private key of --tls-cert-file (PEM)"),
    honour(
        "authorization-always-allow-paths",
        "strings",
        "paths that are served without authorization (default /healthz,/readyz,/livez); others are refused",
    ),
    honour(
        "feature-gates",
        "mapStringBool",
        "feature gates to set; those that kstore cannot change give a warning",
    ),
    honour("leader-elect", BOOL, "run only while this replica is the leader (default true)"),
    honour(
        "leader-elect-lease-duration",
        "duration",
        "time after the last renewal until another replica may become the leader (default 15s)",
    ),
    honour(
        "leader-elect-renew-deadline",
        "duration",
        "time without a renewal after which a leader stops (default 10s)",
    ),
    honour(
        "leader-elect-retry-period",
        "duration",
        "time between two attempts to acquire or renew the Lease (default 2s)",
    ),
    honour("leader-elect-resource-lock", "string", "kind of the lock object; only leases is supported"),
    honour("leader-elect-resource-name", "string", "name of the Lease (default: the name of the program)"),
    honour("leader-elect-resource-namespace", "string", "namespace of the Lease (default kube-system)"),
    accept("kube-api-qps", "float", ""),
    accept("kube-api-burst", "int", ""),
    accept("kube-api-content-type", "string", "application/vnd.kubernetes.protobuf"),
    accept("authentication-kubeconfig", "string", ""),
    accept("authentication-skip-lookup", BOOL, "false"),
    accept("authentication-token-webhook-cache-ttl", "duration", "10s"),
    accept("authentication-tolerate-lookup-failure", BOOL, "false"),
    accept("authorization-kubeconfig", "string", ""),
    accept("authorization-webhook-cache-authorized-ttl", "duration", "10s"),
    accept("authorization-webhook-cache-unauthorized-ttl", "duration", "10s"),
    accept("client-ca-file", "string", ""),
    accept("requestheader-client-ca-file", "string", ""),
    accept("requestheader-allowed-names", "strings", ""),
    accept("requestheader-username-headers", "strings", "x-remote-user"),
    accept("requestheader-uid-headers", "strings", ""),
    accept("requestheader-group-headers", "strings", "x-remote-group"),
    accept("requestheader-extra-headers-prefix", "strings", "x-remote-extra-"),
    accept("tls-sni-cert-key", "namedCertKey", ""),
    accept("http2-max-streams-per-connection", "int", "0"),
    refuse_unless("emulated-version", "strings", OWN_VERSION, FIXED_VERSION),
    accept("min-compatibility-version", "strings", ""),
];

const OF_CONTROLLERS: &[Flag] = &[
    honour(
        "controllers",
        "strings",
        "controllers to run: NAME enables, -NAME disables, * enables all others (default *)",
    ),
    honour(
        "use-service-account-credentials",
        BOOL,
        "use a separate service account for each controller (default false: all use the credentials of --kubeconfig)",
    ),
    honour(
        "cluster-signing-cert-file",
        "string",
        "certificate of the authority that signs CertificateSigningRequests (PEM)",
    ),
    honour("cluster-signing-key-file", "string", "private key of --cluster-signing-cert-file (PEM)"),
    honour(
        "cluster-signing-duration",
        "duration",
        "longest validity of a signed certificate (default 8760h)",
    ),
    honour("root-ca-file", "string", "certificate authority that is published in every namespace (PEM)"),
    honour(
        "node-monitor-grace-period",
        "duration",
        "time without a heartbeat after which a node is marked unhealthy (default 50s)",
    ),
    honour("node-monitor-period", "duration", "period of checking an unhealthy node again (default 5s)"),
    honour(
        "node-startup-grace-period",
        "duration",
        "time that a new node has for its first heartbeat (default 1m0s)",
    ),
    honour(
        "service-account-private-key-file",
        "string",
        "private key that signs service account tokens for Secrets: RSA or P-256 (PEM)",
    ),
    honour(
        "legacy-service-account-token-clean-up-period",
        "duration",
        "time without use after which generated service account tokens are invalidated, and later deleted (default 8760h)",
    ),
    accept("min-resync-period", "duration", "12h0m0s"),
    accept("controller-start-interval", "duration", "0s"),
    accept("terminated-pod-gc-threshold", "int32", "12500"),
    accept("namespace-sync-period", "duration", "5m0s"),
    accept("resource-quota-sync-period", "duration", "5m0s"),
    accept("node-eviction-rate", "float", "0.1"),
    accept("secondary-node-eviction-rate", "float", "0.01"),
    accept("unhealthy-zone-threshold", "float", "0.55"),
    accept("large-cluster-size-threshold", "int32", "50"),
    accept("enable-garbage-collector", BOOL, "true"),
    accept("cluster-name", "string", "kubernetes"),
    accept("service-cluster-ip-range", "string", ""),
    honour(
        "allocate-node-cidrs",
        BOOL,
        "allocate a pod network from --cluster-cidr to every node that has none",
    ),
    honour("cluster-cidr", "string", "CIDR range for pods, one per IP family (needs --allocate-node-cidrs)"),
    honour("node-cidr-mask-size", "int32", "prefix length of a node's pod network in a single-stack cluster"),
    honour("node-cidr-mask-size-ipv4", "int32", "prefix length of a node's IPv4 pod network (default 24)"),
    honour("node-cidr-mask-size-ipv6", "int32", "prefix length of a node's IPv6 pod network (default 64)"),
    accept("cidr-allocator-type", "string", "RangeAllocator"),
    accept("configure-cloud-routes", BOOL, "true"),
    accept("flex-volume-plugin-dir", "string", ""),
    accept("enable-dynamic-provisioning", BOOL, "true"),
    accept("enable-hostpath-provisioner", BOOL, "false"),
    accept("pvclaimbinder-sync-period", "duration", "15s"),
    accept("attach-detach-reconcile-sync-period", "duration", "1m0s"),
    accept("disable-attach-detach-reconcile-sync", BOOL, "false"),
    accept("horizontal-pod-autoscaler-sync-period", "duration", "15s"),
    accept("horizontal-pod-autoscaler-downscale-stabilization", "duration", "5m0s"),
    accept("horizontal-pod-autoscaler-cpu-initialization-period", "duration", "5m0s"),
    accept("horizontal-pod-autoscaler-initial-readiness-delay", "duration", "30s"),
    accept("horizontal-pod-autoscaler-tolerance", "float", "0.1"),
    accept("concurrent-deployment-syncs", "int32", ""),
    accept("concurrent-replicaset-syncs", "int32", ""),
    accept("concurrent-gc-syncs", "int32", ""),
    accept("concurrent-namespace-syncs", "int32", ""),
    accept("concurrent-endpoint-syncs", "int32", ""),
    accept("concurrent-service-endpoint-syncs", "int32", ""),
    refuse(
        "concurrent-service-syncs",
        "int32",
        "kube-controller-manager has no such flag since Kubernetes 1.37",
    ),
    accept("concurrent-disruption-syncs", "int32", ""),
    accept("concurrent-resourceclaim-syncs", "int32", ""),
    accept("concurrent-node-status-updates", "int32", ""),
    accept("concurrent-serviceaccount-token-syncs", "int32", ""),
    accept("concurrent-statefulset-syncs", "int32", ""),
    accept("concurrent-daemonset-syncs", "int32", ""),
    accept("concurrent-job-syncs", "int32", ""),
    accept("concurrent-cron-job-syncs", "int32", ""),
    accept("concurrent-rc-syncs", "int32", ""),
    accept("concurrent-resource-quota-syncs", "int32", ""),
    accept("concurrent-ttl-after-finished-syncs", "int32", ""),
    accept("concurrent-device-taint-eviction-syncs", "int32", ""),
    accept("concurrent-ephemeralvolume-syncs", "int32", ""),
    accept("concurrent-horizontal-pod-autoscaler-syncs", "int32", ""),
    accept("concurrent-validating-admission-policy-status-syncs", "int32", ""),
    accept("max-endpoints-per-slice", "int32", "100"),
    accept("endpointslice-updates-batch-period", "duration", "0s"),
    accept("endpoint-updates-batch-period", "duration", "0s"),
    accept("route-reconciliation-period", "duration", "10s"),
    accept("controller-shutdown-timeout", "duration", "10s"),
    accept("mirroring-concurrent-service-endpoint-syncs", "int32", "5"),
    accept("mirroring-endpointslice-updates-batch-period", "duration", "0s"),
    accept("mirroring-max-endpoints-per-subset", "int32", "1000"),
    accept("disable-force-detach-on-timeout", BOOL, "false"),
    refuse_unless("cloud-provider", "string", &["", "external"], NO_CLOUD),
    refuse_unless("cloud-config", "string", &[""], NO_CLOUD),
    refuse_unless("external-cloud-volume-plugin", "string", &[""], NO_CLOUD),
];

const OF_SCHEDULER: &[Flag] = &[
    honour(
        "config",
        "string",
        "file with a KubeSchedulerConfiguration: profiles, plugins and their arguments, back-off, kubeconfig, leader election",
    ),
    refuse("write-config-to", "string", "kstore's scheduler writes no configuration"),
    honour(
        "pod-max-in-unschedulable-pods-duration",
        "duration",
        "time after which a pod that no node fits is tried again although nothing happened that may help it (default 5m0s)",
    ),
];
