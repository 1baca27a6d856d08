//! Tests of the steps.

use super::plan::{self, MigrationStep, Resolution};
use crate::action::Action;
use jiff::Timestamp;
use k8s_openapi::api::storagemigration::v1beta1::StorageVersionMigration;
use serde_json::json;

fn migration(group: &str, plural: &str) -> StorageVersionMigration {
    serde_json::from_value(json!({
        "metadata": { "name": "m", "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "resource": { "group": group, "resource": plural } },
    }))
    .unwrap()
}

fn now() -> Timestamp {
    "2026-01-01T00:00:30Z".parse().unwrap()
}

fn written(action: Action) -> StorageVersionMigration {
    match action {
        Action::UpdateStatus(object) => object.typed().unwrap(),
        other => panic!("{other:?}"),
    }
}

fn conditions(migration: &StorageVersionMigration) -> Vec<(String, String, String)> {
    let conditions = migration.status.clone().unwrap_or_default().conditions.unwrap_or_default();
    conditions.into_iter().map(|one| (one.type_, one.status, one.reason)).collect()
}

fn condition(kind: &str, status: &str, reason: &str) -> (String, String, String) {
    (kind.into(), status.into(), format!("StorageVersionMigration{reason}"))
}

#[test]
fn a_migration_goes_from_its_checkpoint_over_running_to_succeeded() {
    let new = migration("", "secrets");
    assert_eq!(plan::step(&new), MigrationStep::Checkpoint);
    let checked = written(plan::with_checkpoint(&new, "42"));
    assert_eq!(plan::step(&checked), MigrationStep::Begin);
    let running = written(plan::begun(&checked, now()));
    assert_eq!(conditions(&running), [condition("Running", "True", "InProgress")]);
    assert_eq!(plan::step(&running), MigrationStep::Migrate { upto: 42 });
    let done = written(plan::succeeded(&running, now()));
    let wanted = [condition("Running", "False", "InProgress"), condition("Succeeded", "True", "Succeeded")];
    assert_eq!(conditions(&done), wanted);
    assert_eq!(plan::step(&done), MigrationStep::Ended);
}

#[test]
fn a_failed_migration_says_why_and_ends() {
    let failed = written(plan::failed(&migration("", "secrets"), "no", now()));
    assert_eq!(conditions(&failed), [condition("Failed", "True", "Failed")]);
    let message = failed.status.clone().unwrap().conditions.unwrap()[0].message.clone();
    assert_eq!(message, "migration encountered unhandled error: no");
    assert_eq!(plan::step(&failed), MigrationStep::Ended);
}

#[test]
fn resources_are_found_by_group_and_plural() {
    let kind = |group: &str, plural: &str| match plan::built_in(&migration(group, plural)) {
        Some(Resolution::Kind(kind)) => Some((kind.resource.version.into_owned(), kind.kind)),
        other => {
            assert!(matches!(other, None | Some(Resolution::NotMigratable(_))));
            None
        }
    };
    assert_eq!(kind("apps", "deployments"), Some(("v1".into(), "Deployment".into())));
    assert_eq!(kind("autoscaling", "horizontalpodautoscalers").unwrap().0, "v2", "the preferred version");
    assert_eq!(kind("", "bindings"), None);
    assert_eq!(plan::built_in(&migration("example.com", "lamps")), None);
    assert_eq!(plan::definition_name(&migration("example.com", "lamps")), "lamps.example.com");
    assert!(plan::is_young(&migration("", "x"), now()));
    assert!(!plan::is_young(&migration("", "x"), "2026-01-01T00:01:01Z".parse().unwrap()));
}

#[test]
fn only_objects_up_to_the_checkpoint_are_written_and_only_in_their_present_state() {
    let Some(Resolution::Kind(kind)) = plan::built_in(&migration("apps", "deployments")) else { panic!() };
    let object = json!({ "metadata": { "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "42" }, "spec": {} });
    let patch = plan::patch(&kind, &object, 42).unwrap();
    assert_eq!((patch.namespace, patch.name), ("n", "a"));
    let metadata = json!({ "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "42" });
    assert_eq!(patch.body, json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata }));
    assert!(plan::patch(&kind, &object, 41).is_none(), "written since");
    assert!(plan::is_transient(None) && plan::is_transient(Some(503)) && plan::is_transient(Some(429)));
    assert!(!plan::is_transient(Some(403)) && !plan::is_transient(Some(422)));
}
