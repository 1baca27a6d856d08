//! Runs the API tests again on older versions of Kubernetes: this test binary is started once more with another version under every
//! simulated cluster that does not choose its own. `KSTORE_VERSION_RERUN=N` chooses one version and a fifth of the tests; numbers that
//! follow each other choose others, and `all` chooses everything.

use crate::etcd_rerun::selection::hash;
use crate::etcd_rerun::{is_rerun, report, start, tests_of_modules};
use kstore_api::version::Minor;
use kstore_tests::KUBERNETES;

/// The environment variable with the choice; 0 if it is not set.
const VARIABLE: &str = "KSTORE_VERSION_RERUN";

/// Number of parts of the tests.
const PARTS: u64 = 5;

/// Tests of what only some versions have, by name, or by module with `::` at the end: the first and the last version, and the reason.
const HOLD_IN: &[(&str, Minor, Minor, &str)] = &[
    ("api::replay::", Minor::DEFAULT, Minor::DEFAULT, "it chooses the version of its recordings"),
    ("api::version_rows::", Minor::DEFAULT, Minor::DEFAULT, "it tests every version by itself"),
    ("api::minors::", Minor::DEFAULT, Minor::DEFAULT, "it tests every version by itself"),
    ("api::claim_statuses::", Minor::DEFAULT, Minor::DEFAULT, "it chooses its versions"),
    (
        "api::openapi::compressed_documents_of_every_version_are_the_plain_ones",
        Minor::DEFAULT,
        Minor::DEFAULT,
        "it tests every version by itself",
    ),
    (
        "api::openapi::every_collection_that_is_documented_is_served_and_every_resource_is_documented",
        Minor::V36,
        Minor::V37,
        MUTATING_POLICIES,
    ),
    (
        "api::policies::a_mutating_policy_changes_objects_by_configuration_and_by_patch",
        Minor::V36,
        Minor::V37,
        MUTATING_POLICIES,
    ),
    ("api::tables::every_list_table_has_one_cell_per_column", Minor::V36, Minor::V37, MUTATING_POLICIES),
    (
        "api::webhook_metrics::admission_policy_checks_are_counted_once_per_action",
        Minor::V36,
        Minor::V37,
        MUTATING_POLICIES,
    ),
    (
        "api::answers::valid_objects_that_are_probably_mistakes_cause_the_warnings_of_kubernetes",
        Minor::V34,
        Minor::V37,
        "warnings about headless Services",
    ),
    (
        "api::kinds_other::device_claims_are_immutable_and_have_a_status_subresource",
        Minor::V34,
        Minor::V37,
        DEVICES,
    ),
    (
        "api::kinds_other::invalid_objects_of_other_groups_are_refused_with_kubernetes_messages",
        Minor::V34,
        Minor::V37,
        DEVICES,
    ),
    (
        "api::own_writes::every_write_of_every_kind_answers_with_the_revision_of_its_own_event",
        Minor::V37,
        Minor::V37,
        "it writes every kind of 1.37",
    ),
    ("api::selectors::every_kind_supports_exactly_its_selectable_fields", Minor::V34, Minor::V37, DEVICES),
    (
        "api::habits::client_go_informers_list_and_watch_or_stream_the_list",
        Minor::V34,
        Minor::V37,
        WATCH_LIST,
    ),
    (
        "api::tables::table_watches_send_columns_once_and_bookmarks_as_tables",
        Minor::V34,
        Minor::V37,
        WATCH_LIST,
    ),
    (
        "api::watches::a_watch_without_a_revision_begins_with_the_current_objects",
        Minor::V34,
        Minor::V37,
        WATCH_LIST,
    ),
    (
        "api::watches::initial_events_wait_for_the_requested_minimum_revision",
        Minor::V34,
        Minor::V37,
        WATCH_LIST,
    ),
    (
        "api::watches::the_end_of_initial_events_is_marked_once_with_bookmarks",
        Minor::V34,
        Minor::V37,
        WATCH_LIST,
    ),
    (
        "story::no_informer_lists_again_while_a_cluster_starts",
        Minor::V37,
        Minor::V37,
        "it waits for StorageVersionMigrations, which are served by default since 1.37",
    ),
    (
        "source_contract::kube_rs_over_rest::an_initial_stream_marks_its_end_once_and_continues",
        Minor::V34,
        Minor::V37,
        WATCH_LIST,
    ),
];

const MUTATING_POLICIES: &str = "MutatingAdmissionPolicies are served since 1.36";
const DEVICES: &str = "resource.k8s.io/v1 is served since 1.34";
const WATCH_LIST: &str = "watches send initial events since 1.34";

/// A version and the part of the tests that run on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Choice {
    minor: Minor,
    part: u64,
}

/// The served versions other than the default, which all tests have by themselves.
fn others() -> Vec<Minor> {
    Minor::SERVED.into_iter().filter(|minor| *minor != Minor::DEFAULT).collect()
}

/// What the value of the variable chooses.
fn choices(text: &str) -> Result<Vec<Choice>, String> {
    let all = others().into_iter().flat_map(|minor| (0..PARTS).map(move |part| Choice { minor, part }));
    if text == "all" {
        return Ok(all.collect());
    }
    let number: u64 =
        text.parse().map_err(|_| format!("{VARIABLE}={text:?}: the value is `all` or a number"))?;
    let (count, versions) = (others().len() as u64, others());
    // The version changes with each number, and the part when all versions have had it.
    let nth = usize::try_from(number % count).expect("there are few versions");
    Ok(vec![Choice { minor: versions[nth], part: number / count % PARTS }])
}

/// Whether a test has this name, or is in this module.
fn is_named(name: &str, test: &str) -> bool {
    if name.ends_with("::") { test.starts_with(name) } else { test == name }
}

impl Choice {
    fn includes(self, test: &str) -> bool {
        let holds = |(name, first, last, _): &(&str, Minor, Minor, &str)| {
            !is_named(name, test) || (*first..=*last).contains(&self.minor)
        };
        hash(test) % PARTS == self.part && HOLD_IN.iter().all(holds)
    }
}

/// Runs the tests of these choices, of one version.
fn rerun(minor: Minor, choices: &[Choice]) {
    let all = tests_of_modules();
    let selected: Vec<_> =
        all.iter().filter(|test| choices.iter().any(|choice| choice.includes(test))).collect();
    // The harness would run every test if it got no name.
    assert!(!selected.is_empty(), "{choices:?} select no test");
    let run = start(|binary| binary.arg("--exact").args(&selected).env(KUBERNETES, minor.to_string()));
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "on {minor}: {said}{}", String::from_utf8_lossy(&run.stderr));
    let result = said.lines().find(|line| line.starts_with("test result"));
    let (result, count) = (result.expect("the tests say how it went"), selected.len());
    assert!(result.contains(&format!(" {count} passed;")), "of {count} tests: {result}");
    report(&format!("on Kubernetes {minor}: {count} of {} tests: {result}", all.len()));
}

#[test]
fn the_api_tests_pass_on_older_versions() {
    if is_rerun() || std::env::var_os(KUBERNETES).is_some() {
        return;
    }
    let chosen = std::env::var(VARIABLE).unwrap_or_else(|_| "0".to_owned());
    let chosen = choices(&chosen).unwrap_or_else(|error| panic!("{error}"));
    for minor in others() {
        let of_version: Vec<Choice> = chosen.iter().copied().filter(|choice| choice.minor == minor).collect();
        if !of_version.is_empty() {
            rerun(minor, &of_version);
        }
    }
}

#[test]
fn numbers_in_a_row_choose_every_version_and_every_test() {
    let numbers = 0..u64::try_from(others().len()).unwrap() * PARTS;
    let chosen: Vec<Choice> = numbers.flat_map(|number| choices(&number.to_string()).unwrap()).collect();
    let all = choices("all").unwrap();
    assert!(all.iter().all(|choice| chosen.iter().filter(|other| *other == choice).count() == 1));
    assert_eq!(chosen.len(), all.len());
    assert_ne!(chosen[0].minor, chosen[1].minor, "the next change runs another version");
    for wrong in ["", "-1", "1.34", "All"] {
        assert!(choices(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn every_test_that_holds_in_some_versions_exists() {
    let all = tests_of_modules();
    for (name, first, last, _) in HOLD_IN {
        assert!(all.iter().any(|test| is_named(name, test)), "{name}");
        assert!((*first..=*last).contains(&Minor::DEFAULT), "{name} runs in the default version");
        assert!((*first, *last) != (Minor::ALL[0], Minor::V37), "{name} holds in all versions");
    }
    let left_out = |minor| {
        let choices: Vec<_> = (0..PARTS).map(|part| Choice { minor, part }).collect();
        all.iter().filter(|test| !choices.iter().any(|choice| choice.includes(test))).count()
    };
    for minor in others() {
        assert!(left_out(minor) < all.len() / 10, "{} of {} tests", left_out(minor), all.len());
    }
}
