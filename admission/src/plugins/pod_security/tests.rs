//! Labels, modes and repeated checks.

use super::ROW;
use super::policy::{Level, LevelVersion, Policy, Version};
use super::significant::is_significant;
use crate::plugins::tests::{TestRequest, chain_of, refused};
use crate::subject::Subject;
use kstore_api::admission::Operation;
use kstore_api::kind;
use kstore_api::status::Status;
use kstore_registry::testing::MapLookup;
use kstore_registry::user::UserInfo;
use serde_json::{Value, json};

fn namespace(labels: &[(&str, &str)]) -> Value {
    let labels: serde_json::Map<_, _> = labels
        .iter()
        .map(|(name, value)| (format!("pod-security.kubernetes.io/{name}"), json!(value)))
        .collect();
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "a", "labels": labels } })
}

fn pod(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": "a" }, "spec": spec })
}

fn privileged(name: &str) -> Value {
    pod(
        name,
        json!({ "containers": [{ "name": "c", "image": "i", "securityContext": { "privileged": true } }] }),
    )
}

/// Names and values of audit annotations.
type Notes = Vec<(String, String)>;

/// The plugin's verdict on a write, with warnings and audit annotations (without the prefix of their names).
fn review(
    cluster: impl IntoIterator<Item = Value>,
    subresource: &'static str,
    new: &Value,
    old: Option<&Value>,
) -> (Result<(), Status>, Vec<String>, Notes) {
    let row = kind::lookup_api_version(new["apiVersion"].as_str().unwrap(), new["kind"].as_str().unwrap());
    let user = UserInfo::new("ann", [""; 0]);
    let subject = Subject {
        user: &user,
        operation: if old.is_some() { Operation::Update } else { Operation::Create },
        resource: row.unwrap(),
        subresource,
        namespace: new["metadata"]["namespace"].as_str().unwrap_or_default(),
        name: new["metadata"]["name"].as_str().unwrap(),
        seed: 1,
    };
    let admission = chain_of(&ROW, (ROW.plugin)(), MapLookup::of(cluster));
    let mut request = TestRequest::new(&admission, subject);
    request.calls = admission.calls(&user).audited();
    let verdict = request.validate(Some(new), old).map_err(refused);
    let short = |key: String| key.strip_prefix("pod-security.kubernetes.io/").unwrap().to_owned();
    let notes = request.calls.annotations().into_iter();
    (verdict, request.calls.warnings(), notes.map(|(key, value)| (short(key), value)).collect())
}

#[test]
fn labels_choose_level_and_version_of_each_mode() {
    let none = LevelVersion::PRIVILEGED;
    let at = |level, version| LevelVersion { level, version };
    let (policy, errors) = Policy::of(&namespace(&[]), Policy::PRIVILEGED);
    assert!(errors.is_empty() && policy.is_privileged());
    let labels = [("enforce", "baseline"), ("enforce-version", "v1.30"), ("audit", "restricted")];
    let (policy, errors) = Policy::of(&namespace(&labels), Policy::PRIVILEGED);
    assert!(errors.is_empty());
    assert_eq!(policy.enforce, at(Level::Baseline, Version::Minor(30)));
    assert_eq!(policy.audit, at(Level::Restricted, Version::Latest));
    assert_eq!(policy.warn, policy.enforce, "what is enforced is warned of");
    let (policy, _) =
        Policy::of(&namespace(&[("enforce", "restricted"), ("warn", "privileged")]), Policy::PRIVILEGED);
    assert_eq!(policy.warn, none);
    let (policy, _) =
        Policy::of(&namespace(&[("enforce", "restricted"), ("warn-version", "v1.2")]), Policy::PRIVILEGED);
    assert_eq!(policy.warn, at(Level::Restricted, Version::Minor(2)));
}

#[test]
fn invalid_labels_are_errors_and_enforce_restricted() {
    let wrong = [("enforce", "strict"), ("audit", ""), ("warn", "Baseline")];
    let (policy, errors) = Policy::of(&namespace(&wrong), Policy::PRIVILEGED);
    assert_eq!(errors.len(), 3);
    let levels = [policy.enforce, policy.audit, policy.warn].map(|mode| mode.level);
    assert_eq!(levels, [Level::Restricted, Level::Privileged, Level::Privileged]);
    for (version, is_right) in [
        ("latest", true),
        ("v1.0", true),
        ("v1.99", true),
        ("1.36", false),
        ("v1", false),
        ("v1.", false),
        ("v1.01", false),
        ("v1.x", false),
    ] {
        let (_, errors) = Policy::of(&namespace(&[("audit-version", version)]), Policy::PRIVILEGED);
        assert_eq!(errors.is_empty(), is_right, "{version}");
    }
    let (verdict, ..) = review([], "", &namespace(&wrong), None);
    let refused = verdict.unwrap_err();
    assert_eq!(refused.code, 422);
    assert!(
        refused.message.starts_with("Namespace \"a\" is invalid: [metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must be one of privileged, baseline, restricted, "),
        "{refused}"
    );
    assert!(review([], "", &namespace(&wrong), Some(&namespace(&wrong))).0.is_ok(), "they were wrong before");
    assert!(review([], "", &namespace(&wrong), Some(&namespace(&[]))).0.is_err());
}

#[test]
fn each_mode_reports_its_violations() {
    let text = "privileged (container \"c\" must not set securityContext.privileged=true)";
    let (verdict, warnings, notes) = review([namespace(&[])], "", &privileged("p"), None);
    assert_eq!((verdict.is_ok(), warnings.len()), (true, 0));
    assert_eq!(notes, [("enforce-policy".to_owned(), "privileged:latest".to_owned())]);
    let labels = [("enforce", "baseline"), ("audit", "baseline"), ("audit-version", "v1.20")];
    let (verdict, warnings, notes) = review([namespace(&labels)], "", &privileged("p"), None);
    let want = format!("pods \"p\" is forbidden: violates PodSecurity \"baseline:latest\": {text}");
    assert_eq!(
        (verdict.unwrap_err().message, warnings.len()),
        (want, 0),
        "a refusal says it without a warning"
    );
    let would = format!("would violate PodSecurity \"baseline:v1.20\": {text}");
    let enforced = ("enforce-policy".to_owned(), "baseline:latest".to_owned());
    assert_eq!(notes, [enforced, ("audit-violations".to_owned(), would)]);
    let (verdict, warnings, _) = review([namespace(&[("warn", "baseline")])], "", &privileged("p"), None);
    assert!(verdict.is_ok());
    assert_eq!(warnings, [format!("would violate PodSecurity \"baseline:latest\": {text}")]);
}

#[test]
fn violating_templates_yield_warnings_and_are_not_refused() {
    let template = json!({ "metadata": {}, "spec": privileged("p")["spec"] });
    let object = |api_version: &str, kind: &str, content: (&str, Value)| {
        let mut object =
            json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": "w", "namespace": "a" } });
        object[content.0] = content.1;
        object
    };
    let spec = ("spec", json!({ "template": template }));
    let strict = namespace(&[("enforce", "baseline")]);
    for workload in [
        object("apps/v1", "Deployment", spec.clone()),
        object("batch/v1", "Job", spec.clone()),
        object("v1", "ReplicationController", spec.clone()),
        object(
            "batch/v1",
            "CronJob",
            ("spec", json!({ "jobTemplate": { "spec": { "template": template } } })),
        ),
        object("v1", "PodTemplate", ("template", template)),
    ] {
        let (verdict, warnings, notes) = review([strict.clone()], "", &workload, None);
        assert!(verdict.is_ok() && notes.is_empty());
        assert_eq!(warnings.len(), 1, "{workload}");
        assert_eq!(review([strict.clone()], "status", &workload, Some(&workload)).1, [""; 0]);
    }
    let silent = namespace(&[("enforce", "baseline"), ("warn", "privileged")]);
    assert_eq!(review([silent], "", &object("apps/v1", "Deployment", spec), None).1, [""; 0]);
    let without = object("v1", "ReplicationController", ("spec", json!({})));
    assert_eq!(review([strict], "", &without, None).1, [""; 0]);
}

#[test]
fn only_new_images_and_containers_are_checked_again() {
    let bad = privileged("p");
    let mut labelled = bad.clone();
    labelled["metadata"]["labels"] = json!({ "a": "b" });
    let mut other = bad.clone();
    other["spec"]["containers"][0]["image"] = json!("j");
    let mut debugged = bad.clone();
    debugged["spec"]["ephemeralContainers"] = json!([{ "name": "d", "image": "i" }]);
    assert!(!is_significant(&labelled, &bad) && !is_significant(&debugged, &debugged));
    assert!(is_significant(&other, &bad) && is_significant(&debugged, &bad));
    let strict = namespace(&[("enforce", "baseline")]);
    let update = |subresource, new: &Value| review([strict.clone()], subresource, new, Some(&bad)).0.is_ok();
    assert!(update("", &labelled) && update("status", &other));
    assert!(!update("", &other) && !update("ephemeralcontainers", &debugged));
}

#[test]
fn a_stricter_namespace_warns_once_per_kind_of_violation() {
    let host = |name: &str| pod(name, json!({ "hostNetwork": true, "containers": [] }));
    let pods = || {
        [
            privileged("c"),
            privileged("a"),
            host("h"),
            privileged("b"),
            pod("good", json!({ "containers": [] })),
        ]
    };
    let strict = namespace(&[("enforce", "baseline")]);
    let warnings = |new: &Value, old: &Value| review(pods(), "", new, Some(old)).1;
    assert_eq!(
        warnings(&strict, &namespace(&[])),
        [
            "existing pods in namespace \"a\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "a (and 2 other pods): privileged",
            "h: host namespaces",
        ]
    );
    assert_eq!(warnings(&strict, &strict), [""; 0], "unchanged");
    assert_eq!(warnings(&namespace(&[]), &strict), [""; 0], "privileged");
    assert_eq!(warnings(&strict, &namespace(&[("enforce", "restricted")])), [""; 0], "relaxed");
    let versioned = namespace(&[("enforce", "baseline"), ("enforce-version", "v1.20")]);
    assert_eq!(warnings(&versioned, &strict).len(), 3, "another version may have other controls");
    assert_eq!(warnings(&namespace(&[("warn", "baseline")]), &namespace(&[])), [""; 0]);
}
