//! Searches over further operators of the catalogue. They take minutes, and run in the check `catalogue`.

use super::{explore, finds, finds_in, only, said};

#[test]
fn a_lost_answer_between_two_writes_is_found() {
    finds("b14", "lost-answer", "end-state");
}

#[test]
fn a_state_that_must_be_seen_is_found() {
    let folder = tempfile::tempdir().unwrap();
    finds_in("b12", "skip", "end-state", folder.path());
    // The repaired twin ends in another state than the references of the replay file: it gets references of its own.
    let twin = explore("b12", &only("skip"), true, folder.path());
    assert_eq!(twin.status.code(), Some(0), "b12 fixed: {}", said(&twin));
}

#[test]
fn a_stale_cache_after_a_restart_is_found() {
    finds("b3", "stale", "destructive-surplus");
}

#[test]
fn a_refused_create_that_is_not_tried_again_is_found() {
    finds("b16", "errors", "end-state");
}

#[test]
fn a_swallowed_conflict_is_found() {
    finds("b17", "touch", "stuck");
}

#[test]
fn a_repaired_operator_raises_no_alarm() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--only", "crash,lost-answer", "--seeds", "0", "--budget", "1h"];
    let output = explore("b9", &flags, true, folder.path());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("nothing found"), "{}", said(&output));
    assert!(!folder.path().join("findings").exists(), "nothing is written without a finding");
}
