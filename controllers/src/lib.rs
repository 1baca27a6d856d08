//! The workload and cluster controllers: Deployment, ReplicaSet, Job, CronJob, removal of finished Jobs,
//! garbage collection, namespace deletion, default service accounts, node lifecycle with eviction by taints of nodes and devices,
//! pod garbage collection, disruption budgets, endpoint slices, networks and addresses of services, volumes
//! and their claims, claims to devices, type checks of admission policies, certificate signing, tokens in
//! Secrets, signatures with bootstrap tokens, aggregation of ClusterRoles, trust bundles, migrations of stored
//! objects.
//!
//! [`run`] starts the controllers of a [`Selection`] on shared informers. Each is a plain API client: its
//! decisions come from a pure `plan` (snapshot and time in, a closed set of actions out), and `apply`
//! executes the actions. Nothing here knows the store, the scheduler or the kubelet.

/// The README, whose example compiles as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod account_token;
mod account_token_cleaner;
mod accounts;
mod action;
mod adoption;
mod aggregated;
mod apply;
mod bootstrap_signer;
mod bootstrap_token_cleaner;
mod caches;
mod certificate_approver;
mod certificate_cleaner;
mod certificate_request;
mod certificate_signer;
mod claim;
mod cluster;
mod cluster_role_aggregation;
mod config;
mod cron_job;
mod daemon_set;
mod definition;
mod deployment;
mod device_claims;
mod device_taint_eviction;
mod disruption;
mod disruption_target;
mod endpoint_slice;
mod endpoint_slice_mirroring;
mod ephemeral_volume;
mod eviction;
mod garbage_collector;
mod horizontal_pod_autoscaler;
mod job;
#[cfg(test)]
mod lenient_tests;
mod limits;
mod load_balancer;
mod namespace;
mod networks;
mod node_ipam;
mod node_lifecycle;
mod node_ttl;
mod object;
mod optional_api;
mod pod_certificate_cleaner;
mod pod_gc;
mod pod_group_protection;
mod policy_type_checking;
mod portion;
mod replicaset;
mod resource;
mod resource_api;
mod resource_claim;
mod resource_quota;
mod revision;
mod root_ca;
mod runner;
mod scale_target;
mod selection;
mod selector;
mod service_account;
mod service_address;
mod service_cidr;
mod service_ips;
mod set_kind;
mod signing_authority;
mod stable_kinds;
mod stateful_set;
mod storage_version_migrator;
mod taint_eviction;
mod template;
mod token_signer;
mod trust_bundle_publisher;
mod ttl_after_finished;
mod view;
mod volume_binder;
mod volume_protection;
mod volume_provisioner;

pub use accounts::Accounts;
pub use config::{Config, NodeMonitorConfig, Selection, Signing, UnusedTokenPeriod};
pub use networks::{BadPodNetworks, Blocks, Networks, PodNetworks};
pub use runner::run;
pub use selection::UnknownController;
pub use signing_authority::{SigningAuthority, SigningAuthorityError};
pub use token_signer::{SecretToken, TokenSigner};
