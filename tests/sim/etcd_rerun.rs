//! Runs the API tests again on other storages: this test binary is started once more with a different storage
//! under every simulated cluster. The first run uses the embedded store.

use kstore_tests::{Etcd, STORAGE};
use std::process::Command;

/// Modules that are run again. Setting the variable by hand runs all tests.
const MODULES: [&str; 11] = [
    "api::",
    "bad_input::",
    "causality::",
    "determinism::",
    "disruption::",
    "fencing::",
    "finalizers::",
    "grpc::",
    "source_contract::",
    "story::",
    "watch_consistency::",
];

/// Tests that cannot pass on a real etcd, with the reason.
const NOT_ON_A_REAL_ETCD: [(&str, &str); 2] = [
    ("determinism::a_seed_determines_every_byte_of_every_revision", SHARED_REVISIONS),
    ("watch_consistency::equal_seeds_give_equal_races", SHARED_REVISIONS),
];

const SHARED_REVISIONS: &str =
    "it compares the revisions of several clusters, which share the revision counter of one etcd";

/// Number of real etcds, and of concurrent tests.
const ETCDS: usize = 2;

fn is_rerun() -> bool {
    std::env::var_os(STORAGE).is_some()
}

fn rerun(storage: &str, more: &[&str]) {
    let program = std::env::current_exe().unwrap();
    let mut run = Command::new(program);
    // Test names match by substring; `clients` starts the program itself.
    let run = run.args(MODULES).args(["--skip", "clients::"]).args(more);
    let run = run.env(STORAGE, storage).output();
    let run = run.expect("the tests run");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "on {storage}: {said}");
    let result = said.lines().find(|line| line.starts_with("test result"));
    eprintln!("on {storage}: {}", result.expect("the tests say how it went"));
}

#[test]
fn the_api_tests_pass_on_kstores_etcd_api() {
    if !is_rerun() {
        rerun("etcd", &[]);
    }
}

#[test]
fn the_api_tests_pass_on_a_real_etcd() {
    if is_rerun() {
        return;
    }
    let dirs = [(); ETCDS].map(|()| tempfile::tempdir().unwrap());
    let start = dirs.iter().map(|dir| Etcd::start_without_syncs(dir.path()));
    let Some(etcds) = start.collect::<Option<Vec<_>>>() else { return };
    let urls: Vec<&str> = etcds.iter().map(Etcd::url).collect();
    let mut more = vec!["--test-threads".to_owned(), ETCDS.to_string()];
    for (name, why) in NOT_ON_A_REAL_ETCD {
        eprintln!("skipped on a real etcd: {name}, since {why}");
        more.extend(["--skip".to_owned(), name.to_owned()]);
    }
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    rerun(&urls.join(","), &more);
}
