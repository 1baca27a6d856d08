//! The single integration test binary: every topic is a module, so that the dependencies are linked once.
#![expect(clippy::unwrap_used, reason = "a test says what it misses by panicking")]

/// Files of authentication and authorization that change under a running server.
mod access_files;
/// An aggregated API server beside the program.
mod aggregated_owners;
mod aggregated_server;
/// The API as clients observe it, compared with Kubernetes.
mod api;
/// The audit log of the program.
mod audit;
/// HorizontalPodAutoscalers.
mod autoscaling;
/// Invalid requests, and starts that cannot succeed.
mod bad_input;
/// The causal trace from a deployment to the status of its pods.
mod causality;
/// Unmodified kube-rs.
mod clients;
/// SIGKILL at any moment loses no acknowledged write.
mod crash;
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
/// The replacement programs for kube-apiserver, etcd and others, as test harnesses start them.
mod dropin;
/// Encryption at rest in the program.
mod election;
mod encryption;
/// The storage on an external etcd, in virtual time, with lost answers and connections.
mod etcd_adapter;
/// The history checker against a real etcd, kstore's, and a faulty one.
mod etcd_checked;
/// kill -9, SIGSTOP and restarts under load, judged by the history checker.
mod etcd_faults;
/// A three-member etcd that loses its leader, and an etcd that forgets logins.
mod etcd_members;
/// The API tests on other storages.
mod etcd_rerun;
/// The etcd API on a Unix socket.
mod etcd_socket;
/// Apiservers on a real etcd, where one is installed.
mod etcd_storage;
/// API Priority and Fairness.
mod fairness;
/// Late writes of deposed leaders over REST and gRPC.
mod fencing;
/// The finalizer helper.
mod finalizers;
/// Every call of kstore.v1.
mod grpc;
/// Attacks on permissions, memory, connections and time.
mod hostile;
/// Jobs and CronJobs.
mod jobs;
/// kubectl, where it is installed.
mod kubectl;
/// Controllers with minimal permissions.
mod least_privilege;
/// Nodes as users, and pod tokens.
mod node_identities;
/// Simulated nodes: waiting, running and terminating pods.
mod nodes;
/// Unusual objects that the API accepts.
mod odd_objects;
/// APIs that are off by default.
mod optional_apis;
/// Scores for the sake of other pods.
mod placement;
/// Type checks of expressions in admission policies.
mod policy_type_checks;
/// Evictions for pods of higher priority.
mod preemption;
/// Every component in its own process.
mod processes;
/// Quotas under concurrent writers over REST and gRPC; released usage and custom kinds.
mod quotas;
/// `run` with objects created before its command starts.
mod run;
/// A start on damaged data.
mod salvage;
/// The number of commits that components cause.
mod scale;
/// Components under task orders permuted by a seed.
mod schedules;
/// StatefulSets and DaemonSets: order, storage, nodes, updates.
mod sets;
/// The source contract, for every source of objects.
mod source_contract;
/// Deployments, pods, scheduling, garbage collection, namespaces: the work of all controllers together.
mod story;
/// Components that panic and are restarted.
mod supervision;
/// Tokens in Secrets, signatures with bootstrap tokens, and claims to devices.
mod tokens_and_claims;
/// Small controllers: mirrored Endpoints, load balancers, node networks, ephemeral volume claims.
mod upkeep;
/// Volumes and claims end to end.
mod volumes;
mod walkthrough;
/// Watches against a model of history.
mod watch_consistency;
/// A webhook server beside the program.
mod webhook_server;
mod writes;

use std::path::{Path, PathBuf};

/// The program under test.
const SERVER: &str = env!("CARGO_BIN_EXE_kstore-server-under-test");

/// The workspace's root folder.
fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests are a folder of the workspace")
        .to_owned()
}
