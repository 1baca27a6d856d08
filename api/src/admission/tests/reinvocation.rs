//! Tests of reinvocation.

use super::super::reinvocation::{Plugin, Reinvocation};
use serde_json::json;
use std::sync::Arc;

/// Runs webhooks given as (name, IfNeeded, changes the object), and returns those that ran in the second
/// round.
fn second_round(hooks: &[(&str, bool, bool)], changed_between: bool) -> Option<Vec<String>> {
    let mut state = Reinvocation::new();
    let (before, after) = (json!(1), json!(2));
    state.begin(Plugin::Webhooks, Some(&before));
    for (name, if_needed, changes) in hooks {
        let uid: Arc<str> = (*name).into();
        assert!(state.should_run(Plugin::Webhooks, name), "all run in the first round");
        state.ran(Plugin::Webhooks, &uid, *if_needed, *changes);
    }
    state.end(Plugin::Webhooks, Some(&before));
    assert_eq!(state.round(), 0);
    if !state.start_second_round() {
        return None;
    }
    assert_eq!(state.round(), 1);
    state.begin(Plugin::Webhooks, Some(if changed_between { &after } else { &before }));
    let run: Vec<String> = hooks
        .iter()
        .filter(|(name, _, _)| state.should_run(Plugin::Webhooks, name))
        .map(|(name, _, _)| (*name).to_owned())
        .collect();
    assert!(!state.start_second_round(), "there is no third round");
    assert!(
        !state.should_run(Plugin::Webhooks, "new"),
        "what did not run in the first round does not run in the second"
    );
    Some(run)
}

#[test]
fn if_needed_webhooks_run_again_after_later_changes() {
    let ran = |hooks: &[(&str, bool, bool)]| second_round(hooks, false);
    let none = || Some(Vec::<String>::new());
    assert_eq!(ran(&[("a", true, false), ("b", true, false)]), None, "nothing changed");
    assert_eq!(ran(&[("a", true, true), ("b", false, true)]), Some(vec!["a".to_owned()]));
    assert_eq!(ran(&[("a", false, false), ("b", true, true)]), none(), "its own change is no reason");
    assert_eq!(ran(&[("a", true, false), ("b", true, true), ("c", true, false)]), Some(vec!["a".to_owned()]));
    assert_eq!(
        ran(&[("a", true, false), ("b", true, true), ("c", false, true)]),
        Some(vec!["a".to_owned(), "b".to_owned()])
    );
}

#[test]
fn changes_between_rounds_reinvoke_all_if_needed_webhooks() {
    let hooks = [("a", true, true), ("b", true, false), ("c", false, false)];
    assert_eq!(second_round(&hooks, true), Some(vec!["a".to_owned(), "b".to_owned()]));
}

#[test]
fn policies_and_webhooks_reinvoke_each_other() {
    let mut state = Reinvocation::new();
    let (policy, webhook): (Arc<str>, Arc<str>) = ("p".into(), "w".into());
    let objects = [json!(0), json!(1), json!(2)];
    state.begin(Plugin::Policies, Some(&objects[0]));
    state.ran(Plugin::Policies, &policy, true, true);
    state.end(Plugin::Policies, Some(&objects[1]));
    state.begin(Plugin::Webhooks, Some(&objects[1]));
    state.ran(Plugin::Webhooks, &webhook, true, true);
    state.end(Plugin::Webhooks, Some(&objects[2]));
    assert!(state.start_second_round());
    state.begin(Plugin::Policies, Some(&objects[2]));
    assert!(state.should_run(Plugin::Policies, "p"), "the webhook changed the object after the policy");
    state.begin(Plugin::Webhooks, Some(&objects[2]));
    assert!(!state.should_run(Plugin::Webhooks, "w"), "nothing changed the object after the webhook");
}
