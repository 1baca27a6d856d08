//! The one integration test binary: every topic is a module, so that all of it links once.
#![expect(clippy::unwrap_used, reason = "a test says what it misses by panicking")]

/// Deployments, pods, scheduling, garbage collection, namespaces: what the loops make of objects together.
mod story;
/// The same seed gives the same bytes.
mod determinism;
/// From `create deployment` to the status of its pods: the tree of causes.
mod causality;
/// Every call of kstore.v1.
mod grpc;
/// Requests and starts that cannot work.
mod bad_input;
/// Watches against a model of history.
mod watch_consistency;
/// SIGKILL at any moment loses nothing that was answered.
mod crash;
/// The dependency table.
mod architecture;
/// House rules, read from the source tree.
mod tidy;

use std::path::{Path, PathBuf};

/// The program under test.
const SERVER: &str = env!("CARGO_BIN_EXE_kstore-server-under-test");

/// The folder of the workspace.
fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are a folder of the workspace").to_owned()
}
