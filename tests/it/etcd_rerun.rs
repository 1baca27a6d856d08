//! The tests of the API hold on every storage: this program once more, with another one under every simulated cluster. The
//! embedded store is under them in the first run.

use kstore_tests::{Etcd, STORAGE};
use std::process::Command;

/// What is run again. Whoever has the time runs everything with that variable.
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

/// What cannot hold on a real etcd, with the reason.
const NOT_ON_A_REAL_ETCD: [(&str, &str); 2] = [
    ("determinism::a_seed_decides_every_byte_of_every_revision", ONE_ROW),
    ("watch_consistency::a_race_is_the_same_every_time", ONE_ROW),
];

const ONE_ROW: &str =
    "it compares the revisions of several clusters, and theirs are all out of the etcd's one row";

/// Real ones, and tests at a time.
const ETCDS: usize = 2;

fn is_rerun() -> bool {
    std::env::var_os(STORAGE).is_some()
}

fn rerun(storage: &str, more: &[&str]) {
    let program = std::env::current_exe().unwrap();
    let mut run = Command::new(program);
    // Names are found by a part of them; what is in `clients` runs the program itself.
    let run = run.args(MODULES).args(["--skip", "clients::"]).args(more);
    let run = run.env(STORAGE, storage).output();
    let run = run.expect("the tests run");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "on {storage}: {said}");
    let result = said.lines().find(|line| line.starts_with("test result"));
    eprintln!("on {storage}: {}", result.expect("the tests say how it went"));
}

#[test]
fn the_tests_of_the_api_hold_on_an_etcd_api_of_ours() {
    if !is_rerun() {
        rerun("etcd", &[]);
    }
}

#[test]
fn the_tests_of_the_api_hold_on_a_real_etcd() {
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
