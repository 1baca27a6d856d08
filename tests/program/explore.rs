//! Searches with the real program over operators of the catalogue.

use crate::SERVER;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The catalogue: published bugs, re-created as small operators with their repaired twins.
fn catalogue() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("explore/catalogue")
}

/// Searches with one operator of the catalogue in a folder of its own.
fn explore(name: &str, flags: &[&str], is_fixed: bool, folder: &Path) -> Output {
    let (scenario, program) =
        (catalogue().join(format!("{name}.yaml")), catalogue().join(format!("{name}.py")));
    let mut command = Command::new(SERVER);
    command.arg("explore").args(flags).arg(scenario).args(["--", "python3"]).arg(program);
    command.args(is_fixed.then_some("--fixed")).current_dir(folder).stdin(Stdio::null());
    command.output().unwrap()
}

fn report(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// Bugs by the pattern that finds them and the oracle that tells.
const BUGS: [(&str, &str, &str); 6] = [
    ("b9", "crash", "end-state"),
    ("b14", "crash", "end-state"),
    ("b12", "skip", "end-state"),
    ("b3", "stale", "destructive-surplus"),
    ("b16", "lost-answer", "end-state"),
    ("b17", "touch", "stuck"),
];

#[test]
fn bugs_of_the_catalogue_are_found_by_their_pattern_and_repaired_twins_raise_no_alarm() {
    for (name, pattern, oracle) in BUGS {
        let folder = tempfile::tempdir().unwrap();
        let flags = ["--only", pattern, "--seeds", "0", "--max-findings", "1", "--report", "json"];
        let output = explore(name, &flags, false, folder.path());
        let found = report(&output);
        let finding = &found["findings"][0];
        assert_eq!(output.status.code(), Some(1), "{name}: {found:#}");
        assert_eq!(
            (&finding["oracle"], &finding["control"]),
            (&oracle.into(), &true.into()),
            "{name}: {finding:#}"
        );
        assert!(finding["actions"].as_array().unwrap().len() <= 3, "{name}: {finding:#}");
        let twin = explore(name, &flags, true, folder.path());
        let found = report(&twin);
        assert_eq!(twin.status.code(), Some(0), "{name} fixed: {found:#}");
    }
}

#[test]
fn a_loop_is_found_without_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--only", "crash", "--runs", "1", "--seeds", "0", "--report", "json"];
    let output = explore("b20", &flags, false, folder.path());
    let found = report(&output);
    let oracles: Vec<&Value> =
        found["findings"].as_array().unwrap().iter().map(|finding| &finding["oracle"]).collect();
    assert!(oracles.contains(&&Value::from("hot-loop")), "{found:#}");
    assert!(found["findings"][0]["pattern"].is_null(), "{found:#}");
    let twin = explore("b20", &flags, true, folder.path());
    assert_eq!(twin.status.code(), Some(0), "{:#}", report(&twin));
}

#[test]
fn a_replay_fails_again_and_passes_with_the_repaired_program() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--only", "crash", "--seeds", "0", "--max-findings", "1"];
    let output = explore("b9", &flags, false, folder.path());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("again: kstore-server explore --replay findings/s-1.yaml"), "{text}");
    let replay = ["--replay", "findings/s-1.yaml", "--repeat", "2"];
    let again = explore("b9", &replay, false, folder.path());
    let text = String::from_utf8_lossy(&again.stdout);
    assert_eq!(again.status.code(), Some(1), "{text}");
    assert!(text.contains("fails 2 of 2  end-state"), "{text}");
    let repaired = explore("b9", &replay, true, folder.path());
    assert_eq!(repaired.status.code(), Some(0), "{}", String::from_utf8_lossy(&repaired.stdout));
}

#[test]
fn mistakes_are_refused_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("s.yaml"), "kind: Scenario\nstepz: []\n").unwrap();
    let run = |flags: &[&str]| {
        let output =
            Command::new(SERVER).arg("explore").args(flags).current_dir(folder.path()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = run(&["s.yaml", "--", "true"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("s.yaml:2:1: a scenario has no field \"stepz\": did you mean \"steps\"?"),
        "{said}"
    );
    assert_eq!(run(&["none.yaml", "--", "true"]).0, Some(2));
    let (code, said) = run(&["--only", "crash", "--skip", "crash", "s.yaml", "--", "true"]);
    assert_eq!(code, Some(2), "{said}");
}
