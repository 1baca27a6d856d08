//! Runs the API tests again on other storages: this test binary is started once more with a different storage
//! under every simulated cluster. The first run uses the embedded store. `KSTORE_RERUN=K/8` runs an eighth of
//! the tests again; the eighths of K from 0 to 7 together are all of them.

pub(crate) mod selection;

use kstore_tests::{Etcd, STORAGE};
use selection::Selection;
use std::io::Write as _;
use std::process::{Command, Output};

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

pub(crate) fn is_rerun() -> bool {
    std::env::var_os(STORAGE).is_some()
}

/// Starts this test binary again.
pub(crate) fn start(configure: impl FnOnce(&mut Command) -> &mut Command) -> Output {
    let mut binary = Command::new(std::env::current_exe().unwrap());
    configure(&mut binary).output().expect("the test binary runs")
}

/// The full names of this binary's tests in [`MODULES`].
pub(crate) fn tests_of_modules() -> Vec<String> {
    let listed = start(|binary| binary.arg("--list"));
    assert!(listed.status.success(), "{listed:?}");
    let names = names(&String::from_utf8(listed.stdout).unwrap());
    let has_tests = |module: &&str| names.iter().any(|name| name.starts_with(*module));
    let empty: Vec<_> = MODULES.iter().filter(|module| !has_tests(module)).collect();
    assert!(empty.is_empty(), "modules without tests: {empty:?}");
    names.into_iter().filter(|name| MODULES.iter().any(|module| name.starts_with(module))).collect()
}

/// The names in the output of `--list`, which has a line `NAME: test` for each test.
fn names(listed: &str) -> Vec<String> {
    listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// Prints a line also if the test passes: the harness captures what `eprintln!` writes.
pub(crate) fn report(line: &str) {
    let mut stderr = std::io::stderr();
    writeln!(stderr, "{line}").unwrap();
}

/// Runs the selected tests on this storage, without those in `skipped`.
fn rerun(storage: &str, skipped: &[&str], options: &[&str]) {
    let selection = Selection::from_environment();
    let all = tests_of_modules();
    let selected: Vec<_> =
        all.iter().filter(|name| selection.includes(name) && !skipped.contains(&name.as_str())).collect();
    // The harness would run every test if it got no name.
    assert!(!selected.is_empty(), "{selection} selects no test");
    let run = start(|binary| binary.args(options).arg("--exact").args(&selected).env(STORAGE, storage));
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "on {storage}: {said}{}", String::from_utf8_lossy(&run.stderr));
    let result = said.lines().find(|line| line.starts_with("test result"));
    let result = result.expect("the tests say how it went");
    let count = selected.len();
    assert!(result.contains(&format!(" {count} passed;")), "of {count} tests: {result}");
    report(&format!("on {storage}: {count} of {} tests ({selection}): {result}", all.len()));
}

#[test]
fn the_api_tests_pass_on_kstores_etcd_api() {
    if !is_rerun() {
        rerun("etcd", &[], &[]);
    }
}

#[test]
fn the_api_tests_pass_on_a_real_etcd() {
    if is_rerun() {
        return;
    }
    let dirs = [(); ETCDS].map(|()| tempfile::tempdir().unwrap());
    let start = dirs.iter().map(|dir| Etcd::start(dir.path()));
    let Some(etcds) = start.collect::<Option<Vec<_>>>() else { return };
    let urls: Vec<&str> = etcds.iter().map(Etcd::url).collect();
    for (name, why) in NOT_ON_A_REAL_ETCD {
        report(&format!("skipped on a real etcd: {name}, since {why}"));
    }
    let skipped = NOT_ON_A_REAL_ETCD.map(|(name, _)| name);
    rerun(&urls.join(","), &skipped, &["--test-threads", &ETCDS.to_string()]);
}

#[test]
fn every_test_is_in_exactly_one_eighth() {
    let all = tests_of_modules();
    assert!(all.len() > 200, "the tests were listed: {}", all.len());
    let eighths = [0, 1, 2, 3, 4, 5, 6, 7].map(|part| format!("{part}/8").parse::<Selection>().unwrap());
    for name in &all {
        assert!(Selection::All.includes(name));
        let count = eighths.iter().filter(|eighth| eighth.includes(name)).count();
        assert_eq!(count, 1, "{name} is in {count} eighths");
    }
    for eighth in eighths {
        let count = all.iter().filter(|name| eighth.includes(name)).count();
        assert!(count > all.len() / 16, "{eighth} selects {count} of {} tests", all.len());
    }
}

#[test]
fn every_test_that_is_skipped_on_a_real_etcd_exists() {
    let all = tests_of_modules();
    for (name, _) in NOT_ON_A_REAL_ETCD {
        assert!(all.iter().any(|test| test == name), "{name}");
    }
}

#[test]
fn names_are_read_from_the_list_of_the_harness() {
    let listed = "api::lists::a: test\nwrites::b: test\nsome::bench: benchmark\n\n2 tests, 1 benchmark\n";
    assert_eq!(names(listed), ["api::lists::a", "writes::b"]);
    assert_eq!(names("0 tests, 0 benchmarks\n"), [""; 0]);
}
