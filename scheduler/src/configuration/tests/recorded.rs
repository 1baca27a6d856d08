//! Answers of kube-scheduler 1.36.2 to configuration files, which this scheduler must give too.

use super::parse;

/// Each line has a file without `apiVersion` and `kind`, where `\n` is a line break, and the answer: `accepted`, or the error.
const RECORDED: &str = include_str!("kube_scheduler.tsv");

/// Beginnings of files to which this scheduler answers otherwise, with the reason.
const DIFFERENT: &[(&str, &str)] = &[
    (
        "profiles: [{plugins: {preEnqueue: {disabled: [{name: '*'}]}}}]",
        "without SchedulingGates all gated pods would fail in their bind",
    ),
    (
        "profiles: [{plugins: {preEnqueue: {disabled: [{name: DefaultPreemption}]}}}]",
        "a pod whose victims are being evicted waits for them in any case",
    ),
    (
        "profiles: [{plugins: {preFilter: {disabled: [{name: '*'}]}}}]",
        "kube-scheduler's filters fail for each pod without their states",
    ),
    (
        "profiles: [{plugins: {multiPoint: {disabled: [{name: '*'}]}, queueSort: {enabled: [{name: PrioritySort}]}, bind: {enabled: [{name: DefaultBinder}]}, preFilter:",
        "without SchedulingGates all gated pods would fail in their bind",
    ),
    (
        "profiles: [{plugins: {multiPoint: {disabled: [{name: '*'}]}, queueSort: {enabled: [{name: PrioritySort}]}, bind: {enabled: [{name: DefaultBinder}]}, filter:",
        "without SchedulingGates all gated pods would fail in their bind",
    ),
    ("parallelism: x", "values of a wrong type are reported by path, without the names of Go's types"),
    (
        "profiles: [{plugins: {score: {enabled: [{name: NodeResourcesFit, weight: 92233720368547758}]}}}]",
        "values of a wrong type are reported by path, without the names of Go's types",
    ),
    (
        "parallelism: 1\\nparallelism: 2",
        "a repeated member is reported by its path, without the text of Go's YAML library",
    ),
    (
        "profiles: [{pluginConfig: [{name: NodeAffinity, args: {apiVersion: kubescheduler.config.k8s.io/v1beta3",
        "the text leaves out the place in kube-scheduler's source",
    ),
];

/// As kube-scheduler joins the errors of a file.
fn joined(reasons: &[String]) -> String {
    match reasons {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

#[test]
fn files_are_accepted_or_refused_with_the_recorded_texts_of_kube_scheduler() {
    let (mut wrong, mut different) = (Vec::new(), 0);
    for line in RECORDED.lines().filter(|line| !line.starts_with('#')) {
        let (file, expected) = line.split_once('\t').unwrap();
        let answer = match parse(&file.replace("\\n", "\n")) {
            Ok(_) => "accepted".to_owned(),
            Err(reasons) => joined(&reasons),
        };
        let is_known = DIFFERENT.iter().any(|(known, _)| file.starts_with(known));
        different += usize::from(is_known);
        if (answer == expected) == is_known {
            wrong.push(format!("{file}\n  kube-scheduler: {expected}\n  here: {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{} answers:\n{}", wrong.len(), wrong.join("\n"));
    assert_eq!(different, DIFFERENT.len());
}
