//! The one integration test binary: every topic is a module, so that all of it links once.

/// Deployments, pods, scheduling, garbage collection, namespaces: what the loops make of objects together.
mod story;
/// The same seed gives the same bytes.
mod determinism;

/// The program under test.
const SERVER: &str = env!("CARGO_BIN_EXE_kstore-server-under-test");
