//! Tests that start programs (the server, etcd, kubectl) or need sockets and real time. They wait more than they
//! compute. Tests of a simulated cluster are in the binary `sim`. Every topic is a module, so that the dependencies are
//! linked once.
#![expect(clippy::unwrap_used, reason = "a test says what it misses by panicking")]

/// Files of authentication and authorization that change under a running server.
mod access_files;
/// An aggregated API server beside the program.
mod aggregated_server;
/// The audit log of the program.
mod audit;
/// A Cluster Autoscaler's calls.
mod autoscaler;
/// Refused requests over a connection, and starts that cannot succeed.
mod bad_input;
/// Unmodified kube-rs over TLS.
mod clients;
/// SIGKILL at any moment loses no acknowledged write.
mod crash;
/// Pods whose containers a real runtime runs.
mod cri;
/// A data directory under several versions of Kubernetes.
mod data_versions;
/// The replacement programs for kube-apiserver, etcd and others, as test harnesses start them.
mod dropin;
/// What programs of this machine reach outside of the cluster.
mod egress;
/// Leader election of controllers and scheduler among several servers.
mod election;
/// Encryption at rest in the program.
mod encryption;
/// The history checker against a real etcd, kstore's, and a faulty one.
mod etcd_checked;
/// kill -9, SIGSTOP and restarts under load, judged by the history checker.
mod etcd_faults;
/// A three-member etcd that loses its leader, and an etcd that forgets logins.
mod etcd_members;
/// The etcd API on a Unix socket.
mod etcd_socket;
/// Apiservers on a real etcd, where one is installed.
mod etcd_storage;
/// How long Events are kept.
mod events;
/// Searches for bugs of operators: `kstore-server explore`.
mod explore;
/// The client of kstore.v1 over TLS.
mod grpc;
/// Revisions of objects: `kstore-server history` and `diff`.
mod history;
/// The network of containers that run programs of this machine.
mod host_network;
/// Containers that run programs of this machine.
mod host_programs;
/// Attacks on identities, memory, connections, files and time.
mod hostile;
/// Data of other clusters: `kstore-server import`.
mod import;
/// A real kube-apiserver with the same data.
mod kube_apiserver;
/// A snapshot of the etcd of a kube-apiserver, imported.
mod kube_snapshot;
/// kubectl, where it is installed.
mod kubectl;
/// Stages of KWOK.
mod kwok;
/// The lab of the program, over HTTP and with kubectl.
mod lab;
/// APIs that are off by default.
mod optional_apis;
/// The page and its login.
mod page;
/// Webhooks that are simulated pods.
mod pod_webhooks;
/// Every component in its own process.
mod processes;
/// What the quota refuses.
mod quota;
/// Recordings of a server: `kstore-server record`.
mod record;
/// Report files: when they are saved.
mod report;
/// `run` with objects created before its command starts.
mod run;
/// A start on damaged data.
mod salvage;
/// Configurations of the scheduler.
mod scheduler_config;
/// Simulated nodes in the cluster of a real kube-apiserver.
mod simulated_nodes;
/// Groups of simulated nodes, and `simulate`.
mod simulation;
/// The source contract, over a socket.
mod source_contract;
/// `undo` of many writes, and by users with rights in one namespace.
mod undo;
/// The path of one request through the program, hop by hop.
mod walkthrough;
/// A webhook server beside the program.
mod webhook_server;

/// The program under test.
const SERVER: &str = env!("CARGO_BIN_EXE_kstore-server-under-test");
