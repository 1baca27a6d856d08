//! Searches that take too long for the gate. They run in the check `alarms`.

use super::{command, explore, only, other_command, said};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What a search by one pattern found, and the log of its first finding.
fn search(more: &[&str]) -> (BTreeSet<(String, String)>, String) {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--only", "crash", "--seeds", "0", "--budget", "1h", "--report", "json"];
    let output = command("b9", &[&flags[..], more].concat(), folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let findings = report["findings"].as_array().unwrap();
    let log = fs::read_to_string(folder.path().join("findings/s-1.log")).unwrap();
    (findings.iter().map(|found| (text(&found["oracle"]), text(&found["summary"]))).collect(), log)
}

/// The rows of a log that begin with a word, without their real times. When a watch begins, on a connection of its own, is left out: on an
/// overloaded machine it has another turn.
fn rows<'l>(log: &'l str, kind: &str) -> Vec<&'l str> {
    let rows = log.lines().filter_map(|line| Some(line.split_once(" ms  ")?.1));
    rows.filter(|row| row.starts_with(kind) && !row.contains(" watch ")).collect()
}

#[test]
fn the_number_of_runs_at_a_time_does_not_change_what_is_found() {
    let (one, four) = (search(&["--parallel", "1"]).0, search(&["--parallel", "4"]).0);
    assert_eq!(one, four);
    assert!(!one.is_empty());
}

#[test]
fn a_plan_has_the_same_requests_and_writes_in_each_run() {
    // The first plan alone.
    let run = || search(&["--runs", "1"]).1;
    let (first, second) = (run(), run());
    for kind in ["request", "write"] {
        assert!(rows(&first, kind).len() > 3, "{first}");
        assert_eq!(rows(&first, kind), rows(&second, kind));
    }
}

#[test]
fn what_a_quick_user_leads_to_at_quiet_moments_too_is_no_alarm() {
    let folder = tempfile::tempdir().unwrap();
    // The user changes a budget and changes it back: its deletion is right.
    let output = explore("b4", &only("flip"), true, folder.path());
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("after pruning: flip "), "{}", said(&output));
}

/// The command of a search over the operator with a webhook, which has a certificate for it.
fn with_webhook(flags: &[&str], folder: &Path) -> Command {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf =
        CertificateParams::new(["maps.hooks.svc".to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
    let files = [
        ("WEBHOOK_AUTHORITY", authority.pem()),
        ("WEBHOOK_CERTIFICATE", leaf.pem()),
        ("WEBHOOK_KEY", key.serialize_pem()),
    ];
    let mut command = other_command("webhook", flags, folder);
    for (variable, text) in files {
        let path = folder.join(variable);
        fs::write(&path, text).unwrap();
        command.env(variable, path);
    }
    command
}

#[test]
fn a_write_that_fails_since_a_webhook_is_away_and_is_not_tried_again_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--only", "webhook", "--seeds", "0", "--budget", "1h"];
    let output = with_webhook(&[&flags[..], &["--report", "json"]].concat(), folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let finding = &report["findings"][0];
    assert_eq!(
        (&finding["pattern"], &finding["oracle"]),
        (&"webhook".into(), &"end-state".into()),
        "{report:#}"
    );
    assert_eq!(finding["actions"][0]["webhook"], "maps.example.com", "{report:#}");
    let output = with_webhook(&flags, folder.path()).arg("--fixed").output().unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    // Otherwise nothing was tried.
    assert!(said.contains("webhook 2"), "{said}");
    assert!(said.contains(" 0 of them not reached"), "{said}");
}

#[test]
fn an_operator_that_is_not_stable_without_faults_ends_the_search_with_the_differences() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = other_command("unstable", &["--budget", "1h"], folder.path());
    let output = command.env("COUNT", folder.path().join("count")).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    let text = said(&output);
    assert!(text.contains("the scenario is not stable without faults"), "{text}");
    assert!(text.contains("configmaps/default/<a->#8 exists, and does not in the reference"), "{text}");
    assert!(!text.contains("configmaps/default/a-0"), "that is in each reference: {text}");
}

#[test]
fn what_an_operator_does_late_has_time_of_the_cluster_before_a_wait_ends() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--only", "cut", "--runs", "1", "--seeds", "0", "--budget", "1h"];
    let output = other_command("late", &flags, folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}

#[test]
fn an_operator_has_time_to_open_its_watch_again_before_it_counts_as_stuck() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--only", "cut", "--seeds", "0", "--budget", "1h"];
    let output = other_command("reopens", &flags, folder.path()).output().unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("after pruning: cut "), "{said}");
}
