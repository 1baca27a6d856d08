//! Searches over the operators of the catalogue. They take minutes, and run in the check `catalogue`, which builds those in Go and installs
//! kopf.
//!
//! Each bug is found by the pattern and told by the oracle of its row, in a plan of at most three actions that fails again from its file.
//! The repaired twin raises no alarm by the same pattern.

use super::{explore, finds, finds_in, only, said};

/// Finds a bug of the catalogue, and nothing in its repaired twin, which also passes the replay file.
fn found(name: &str, pattern: &str, oracle: &str) {
    finds(name, pattern, oracle);
    is_quiet(name, pattern);
}

/// As [`found`], for a twin that ends in another state than the references of the replay file: it gets references of its own.
fn found_elsewhere(name: &str, pattern: &str, oracle: &str) {
    let folder = tempfile::tempdir().unwrap();
    finds_in(name, pattern, oracle, folder.path());
    is_quiet(name, pattern);
}

/// Finds nothing in a repaired twin.
fn is_quiet(name: &str, pattern: &str) {
    let folder = tempfile::tempdir().unwrap();
    let twin = explore(name, &only(pattern), true, folder.path());
    assert_eq!(twin.status.code(), Some(0), "{name} fixed: {}", said(&twin));
    assert!(said(&twin).contains("nothing found"), "{}", said(&twin));
}

/// Finds a loop in the references of an operator, and none in those of its repaired twin.
fn loops(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--only", "crash", "--runs", "0", "--seeds", "0", "--budget", "1h"];
    let output = explore(name, &flags, false, folder.path());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("hot-loop"), "{}", said(&output));
    let folder = tempfile::tempdir().unwrap();
    let twin = explore(name, &flags, true, folder.path());
    assert_eq!(twin.status.code(), Some(0), "{}", said(&twin));
}

/// Stale at a restart.
mod stale {
    use super::found;

    #[test]
    fn b1_claims_of_a_namesake_are_deleted() {
        found("b1", "stale", "destructive-surplus");
    }

    #[test]
    fn b2_an_old_storage_looks_like_a_change() {
        found("b2", "stale", "destructive-surplus");
    }

    #[test]
    fn b3_what_is_missing_in_the_cache_counts_as_deleted() {
        found("b3", "stale", "destructive-surplus");
    }

    #[test]
    fn b4_a_budget_is_made_anew_without_need() {
        found("b4", "stale", "destructive-surplus");
    }
}

/// A lagging watch.
mod lagging {
    use super::{found, found_elsewhere};

    #[test]
    fn b5_a_second_pod_is_made() {
        found("b5", "freeze", "end-state");
    }

    #[test]
    fn b6_pods_that_are_not_cached_are_made_again() {
        found("b6", "freeze", "destructive-surplus");
    }

    #[test]
    fn b7_a_child_that_is_not_cached_is_made_again() {
        found_elsewhere("b7", "freeze", "end-state");
    }

    #[test]
    fn b8_a_restart_goes_on_before_the_pod_is_back() {
        found("b8", "freeze", "invariant");
    }

    #[test]
    fn b10_expectations_expire_before_the_cache_follows() {
        found("b10", "freeze", "end-state");
    }
}

/// A state that is not observed.
mod unobserved {
    use super::{found, found_elsewhere};

    #[test]
    fn b11_a_claim_stays_whose_pod_was_not_seen_terminating() {
        found("b11", "skip", "end-state");
    }

    #[test]
    fn b11_a_claim_stays_whose_pod_terminated_while_the_operator_was_down() {
        found("b11", "down", "end-state");
    }

    #[test]
    fn b12_a_state_must_be_seen() {
        found_elsewhere("b12", "skip", "end-state");
    }
}

/// A crash between two writes.
mod crash {
    use super::found;

    #[test]
    fn b13_claims_do_not_grow_with_their_set() {
        found("b13", "crash", "end-state");
    }

    #[test]
    fn b14_a_worker_is_not_restarted() {
        found("b14", "crash", "end-state");
    }

    #[test]
    fn b15_an_authority_is_dropped_while_a_certificate_needs_it() {
        found("b15", "crash", "invariant");
    }
}

/// Answers that do not come, or are refusals.
mod answers {
    use super::found;

    #[test]
    fn b14_a_lost_answer_keeps_a_worker_from_its_restart() {
        found("b14", "lost-answer", "end-state");
    }

    #[test]
    fn b16_a_create_that_ran_out_of_time_is_not_tried_again() {
        found("b16", "errors", "stuck");
    }

    #[test]
    fn b17_a_swallowed_conflict_leaves_a_finalizer() {
        found("b17", "touch", "undeleted");
    }
}

/// Watches, leadership, loops, identity, clock, overwriting.
mod others {
    use super::{found, loops};

    #[test]
    fn b18_a_watch_begins_again_at_an_expired_revision() {
        found("b18", "expire", "stuck");
    }

    #[test]
    fn b19_two_replicas_write_in_turns() {
        found("b19", "leader", "hot-loop");
    }

    #[test]
    fn b21_an_owner_and_an_autoscaler_write_in_turns() {
        loops("b21");
    }

    #[test]
    fn b22_the_child_of_a_namesake_is_taken() {
        found("b22", "recreate", "stuck");
    }

    #[test]
    fn b23_too_many_missed_times_are_an_error_for_ever() {
        found("b23", "leap", "stuck");
    }

    #[test]
    fn b24_a_status_that_another_wrote_is_put_back() {
        found("b24", "freeze", "end-state");
    }
}

/// Regression: a step waited until no object of the name existed, which a quick user's new object never allowed.
#[test]
fn a_step_that_deletes_and_waits_ends_although_the_object_is_created_again() {
    is_quiet("b1", "recreate");
}

#[test]
fn a_repaired_operator_raises_no_alarm() {
    is_quiet("b9", "crash,lost-answer");
}
