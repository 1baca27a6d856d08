//! The one integration test binary: every topic is a module, so that all of it links once.
#![expect(clippy::unwrap_used, reason = "a test says what it misses by panicking")]

/// An API server beside the program itself.
mod aggregated_server;
/// The API as clients see it, row by row.
mod api;
/// The dependency table.
mod architecture;
/// The audit log of the program.
mod audit;
/// HorizontalPodAutoscalers: workloads that follow their load.
mod autoscaling;
/// Requests and starts that cannot work.
mod bad_input;
/// From `create deployment` to the status of its pods: the tree of causes.
mod causality;
/// kube-rs, unmodified.
mod clients;
/// SIGKILL at any moment loses nothing that was answered.
mod crash;
/// Owner references of and to objects of custom kinds.
mod custom_owners;
/// Typed and dynamic clients, and informers, over a custom kind.
mod custom_sources;
/// The same seed gives the same bytes.
mod determinism;
/// Disruption budgets, and evictions under them.
mod disruption;
/// The programs that kstore stands in for, as test harnesses start them.
mod dropin;
/// The way to an external etcd, in virtual time, with lost answers and lost connections.
mod etcd_adapter;
/// The judge of client histories, against a real etcd, our own, and one that does wrong.
mod etcd_checked;
/// kill -9, SIGSTOP and restarts under load, judged.
mod etcd_faults;
/// An etcd of three members that loses its leader, and one that forgets who we are.
mod etcd_members;
/// The tests of the API on the other storages.
mod etcd_rerun;
/// The etcd API on a Unix socket.
mod etcd_socket;
/// Apiservers on a real etcd, where one is installed.
mod etcd_storage;
/// Writes of deposed leaders, at both doors.
mod fencing;
/// Objects that are held until something outside is cleaned up.
mod finalizers;
/// Every call of kstore.v1.
mod grpc;
/// Attacks: on permissions, memory, connections and time.
mod hostile;
/// Jobs and CronJobs: pods that run to their end, by a schedule too.
mod jobs;
/// kubectl, where it is installed.
mod kubectl;
/// Controllers with accounts of their own and no more rights than these have.
mod least_privilege;
/// Nodes as users, and the tokens of pods.
mod node_identities;
/// What simulated nodes do with pods: how these wait, run their commands and terminate.
mod nodes;
/// Objects that no tool writes and the API admits.
mod odd_objects;
/// Types in the expressions of admission policies.
mod policy_type_checks;
/// Every part in its own process.
mod processes;
/// Quotas under concurrent writers, at both doors; what is given back, and custom kinds.
mod quotas;
/// `run` with objects in the cluster before its command starts.
mod run;
/// A start on damaged data.
mod salvage;
/// What the loops cost the store, in commits.
mod scale;
/// The loops under orders of tasks that a seed permutes.
mod schedules;
/// StatefulSets and DaemonSets: order, storage, nodes, updates.
mod sets;
/// Sources of objects, each held to what all must keep.
mod source_contract;
/// Deployments, pods, scheduling, garbage collection, namespaces: what the loops make of objects together.
mod story;
/// Components that panic and are started again.
mod supervision;
/// House rules, read from the source tree.
mod tidy;
/// Small controllers: mirrored Endpoints, load balancers, networks of nodes, claims of ephemeral volumes.
mod upkeep;
/// The way of one request, hop by hop.
mod volumes;
mod walkthrough;
/// Watches against a model of history.
mod watch_consistency;
/// A webhook server beside the program itself.
mod webhook_server;

use std::path::{Path, PathBuf};

/// The program under test.
const SERVER: &str = env!("CARGO_BIN_EXE_kstore-server-under-test");

/// The folder of the workspace.
fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests are a folder of the workspace")
        .to_owned()
}
