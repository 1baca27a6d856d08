//! Tests inside this process: whole clusters on one thread, under virtual time and a seed. Their cost is processor
//! time. A topic whose tests start the program, or need sockets or real time, has a module in the binary `program`.
//! Every topic is a module, so that the dependencies are linked once.
#![expect(clippy::unwrap_used, reason = "a test says what it misses by panicking")]

/// Owner references from and to objects of an aggregated API server.
mod aggregated_owners;
/// The API as clients observe it, compared with Kubernetes.
mod api;
/// HorizontalPodAutoscalers.
mod autoscaling;
/// Invalid requests.
mod bad_input;
/// The causal trace from a deployment to the status of its pods.
mod causality;
/// Unmodified kube-rs in process.
mod clients;
/// Owner references from and to custom objects.
mod custom_owners;
/// Typed and dynamic clients, and informers, over a custom kind.
mod custom_sources;
/// Equal seeds give equal histories.
mod determinism;
/// Devices for resource claims.
mod devices;
/// Disruption budgets and evictions.
mod disruption;
/// The storage on an external etcd, in virtual time, with lost answers and connections.
mod etcd_adapter;
/// The API tests on other storages.
mod etcd_rerun;
/// Devices as extended resources.
mod extended_resources;
/// API Priority and Fairness.
mod fairness;
/// Late writes of deposed leaders over REST and gRPC.
mod fencing;
/// The finalizer helper.
mod finalizers;
/// Objects that a kube-apiserver stored.
mod foreign_storage;
/// Pods that are scheduled all or none, and the PodGroups that they name.
mod gangs;
/// Every call of kstore.v1, in process.
mod grpc;
/// Attacks on permissions, and with hostile input.
mod hostile;
/// Jobs and CronJobs.
mod jobs;
/// kstore's API before a server of which only the REST API is used: the answers of both are equal.
mod kube_api;
/// Simulated nodes as kubelets: admission, resizes, hooks, probes, restarts and termination messages.
mod kubelets;
/// Controllers with minimal permissions.
mod least_privilege;
/// Nodes as users, and pod tokens.
mod node_identities;
/// Simulated nodes: waiting, running and terminating pods.
mod nodes;
/// Unusual objects that the API accepts.
mod odd_objects;
/// What the page reads, and for whom.
mod page_data;
/// Scores for the sake of other pods.
mod placement;
/// Type checks of expressions in admission policies.
mod policy_type_checks;
/// Evictions for pods of higher priority.
mod preemption;
/// What commands of containers see of their pod: images, files, variables, users, signals.
mod programs;
/// Quotas under concurrent writers over REST and gRPC; released usage and custom kinds.
mod quotas;
/// Report files: what is in them, and for whom.
mod report;
/// The number of commits that components cause.
mod scale;
/// Components under task orders permuted by a seed.
mod schedules;
/// StatefulSets and DaemonSets: order, storage, nodes, updates.
mod sets;
/// The source contract, for every source of objects in process.
mod source_contract;
/// Deployments, pods, scheduling, garbage collection, namespaces: the work of all controllers together.
mod story;
/// Components that panic and are restarted.
mod supervision;
/// Tokens in Secrets, signatures with bootstrap tokens, and claims to devices.
mod tokens_and_claims;
/// Small controllers: mirrored Endpoints, load balancers, node networks, ephemeral volume claims.
mod upkeep;
/// The API tests on older versions of Kubernetes.
mod version_rerun;
/// Volumes and claims end to end.
mod volumes;
/// Watches against a model of history.
mod watch_consistency;
/// The number of writes by each controller for one change by a user.
mod writes;

use std::path::{Path, PathBuf};

/// The workspace's root folder.
fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests are a folder of the workspace")
        .to_owned()
}
