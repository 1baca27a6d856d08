//! Test of the largest histories: the recording of a run of minutes.

use super::generate::{Setup, history};
use crate::judge;

#[test]
fn the_search_takes_about_one_step_per_call() {
    let calls = 100_000;
    let history = history(Setup { seed: 1, clients: 16, calls, keys: 10, unknown: 1, watches: 4 });
    let verdict = judge(&history);
    assert!(verdict.is_good(), "{verdict}");
    assert!(verdict.counts.steps < 2 * calls as u64, "{verdict}");
}
