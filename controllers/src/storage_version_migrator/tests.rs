//! Tests of the steps.

use super::plan::{self, MigratedKind, MigrationStep, Outcome, Resolution, Run};
use crate::action::Action;
use crate::stable_kinds;
use jiff::Timestamp;
use k8s_openapi::api::storagemigration::v1beta1::StorageVersionMigration;
use kstore_api::version::Minor;
use kstore_client::Patch;
use serde_json::{Value, json};

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

fn run(minor: Minor) -> Run {
    Run { minor, now: now() }
}

/// A built-in kind.
fn kind(group: &str, plural: &str) -> MigratedKind {
    match plan::built_in(Minor::DEFAULT, &migration(group, plural)) {
        Some(Resolution::Kind(kind)) => kind,
        other => panic!("{other:?}"),
    }
}

/// The migration as the last action writes it.
fn written(actions: &[Action]) -> StorageVersionMigration {
    match actions.last() {
        Some(Action::UpdateStatus(object)) => object.typed().unwrap(),
        other => panic!("{other:?}"),
    }
}

fn conditions(migration: &StorageVersionMigration) -> Vec<[String; 3]> {
    let conditions = migration.status.clone().unwrap_or_default().conditions.unwrap_or_default();
    conditions.into_iter().map(|one| [one.type_, one.status, one.reason]).collect()
}

#[test]
fn a_migration_goes_from_its_checkpoint_over_running_to_succeeded() {
    for (minor, running, completed) in [
        (Minor::V35, "StorageVersionMigrationInProgress", "StorageVersionMigrationInProgress"),
        (Minor::V36, "MigrationRunning", "MigrationCompleted"),
        (Minor::V37, "MigrationRunning", "MigrationCompleted"),
    ] {
        let (new, secrets) = (migration("", "secrets"), kind("", "secrets"));
        assert_eq!(plan::step(&new), MigrationStep::Checkpoint);
        let checked = written(&plan::with_checkpoint(&new, "42"));
        assert_eq!(plan::step(&checked), MigrationStep::Begin);
        let begun = written(&run(minor).begun(&checked, &secrets));
        assert_eq!(conditions(&begun), [["Running", "True", running]]);
        assert_eq!(plan::step(&begun), MigrationStep::Migrate { upto: 42 });
        let done = written(&run(minor).ended(&begun, Some(&secrets), Outcome::Succeeded));
        let succeeded = ["Succeeded", "True", "StorageVersionMigrationSucceeded"];
        assert_eq!(conditions(&done), [["Running", "False", completed], succeeded], "{minor}");
        assert_eq!(plan::step(&done), MigrationStep::Ended);
    }
}

#[test]
fn a_failed_migration_says_why_and_ends() {
    let actions = run(Minor::V36).ended(&migration("", "secrets"), None, Outcome::Failed("no"));
    let failed = written(&actions);
    assert_eq!(conditions(&failed), [["Failed", "True", "StorageVersionMigrationFailed"]]);
    let message = failed.status.clone().unwrap().conditions.unwrap()[0].message.clone();
    assert_eq!(message, "migration encountered unhandled error: no");
    assert_eq!(plan::step(&failed), MigrationStep::Ended);
}

#[test]
fn migrations_of_one_resource_take_turns_since_1_36() {
    let named = |name: &str, second: u32, plural: &str| {
        let mut migration = migration("", plural);
        migration.metadata.name = Some(name.to_owned());
        let created: Timestamp = format!("2026-01-01T00:00:{second:02}Z").parse().unwrap();
        migration.metadata.creation_timestamp.as_mut().unwrap().0 = created;
        migration
    };
    let ended = {
        let first = named("first", 0, "secrets");
        written(&run(Minor::V36).ended(&first, None, Outcome::Succeeded))
    };
    let others = [ended, named("b", 1, "secrets"), named("a", 1, "secrets"), named("c", 0, "configmaps")];
    let turns = |minor| others[1..].iter().map(|one| plan::has_turn(minor, one, &others)).collect::<Vec<_>>();
    assert_eq!(turns(Minor::V35), [true, true, true]);
    assert_eq!(turns(Minor::V36), [false, true, true], "of equals the lower name, and other resources");
    assert_eq!(turns(Minor::V37), [false, true, true]);
}

fn definition() -> Value {
    json!({
        "metadata": {"name": "lamps.example.com", "uid": "u", "resourceVersion": "7", "generation": 3},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "lamps", "kind": "Lamp"},
            "versions": [{"name": "v1", "served": true, "storage": false}, {"name": "v2", "served": true, "storage": true}]},
        "status": {"storedVersions": ["v1", "v2"], "conditions": [{"type": "Established", "status": "True"}]},
    })
}

/// The patch of the definition, with its merge into `definition`.
fn shown(actions: &[Action], definition: &Value) -> Value {
    let Action::Patch { target, status: true, patch, .. } = &actions[0] else { panic!("{actions:?}") };
    assert_eq!(
        (target.name.as_str(), &patch["metadata"]["resourceVersion"]),
        ("lamps.example.com", &json!("7"))
    );
    kstore_api::patch::merge::apply(definition, patch).unwrap()
}

#[test]
fn a_definition_shows_its_migration_and_loses_former_storage_versions() {
    let lamps = |definition: &Value| match plan::custom(Some(definition.clone())) {
        Resolution::Kind(kind) => kind,
        other => panic!("{other:?}"),
    };
    let migrating = |definition: &Value| {
        let condition = definition["status"]["conditions"][1].clone();
        ["type", "status", "reason"].map(|member| condition[member].as_str().unwrap().to_owned())
    };
    let (of, now) = (migration("example.com", "lamps"), run(Minor::V36));
    assert_eq!(run(Minor::V35).begun(&of, &lamps(&definition())).len(), 1, "1.35 leaves definitions alone");
    let running = shown(&now.begun(&of, &lamps(&definition())), &definition());
    assert_eq!(migrating(&running), ["StorageMigrating", "True", "MigrationRunning"]);
    assert_eq!(running["status"]["conditions"][1]["message"], "Migration m is running");
    assert_eq!(running["status"]["conditions"][0]["type"], "Established");

    let done = shown(&now.ended(&of, Some(&lamps(&running)), Outcome::Succeeded), &running);
    assert_eq!(migrating(&done), ["StorageMigrating", "False", "MigrationSucceeded"]);
    assert_eq!(done["status"]["storedVersions"], json!(["v2"]));

    let mut changed = running.clone();
    changed["metadata"]["generation"] = json!(4);
    let kept = shown(&now.ended(&of, Some(&lamps(&changed)), Outcome::Succeeded), &changed);
    assert_eq!(kept["status"]["storedVersions"], json!(["v1", "v2"]));
    let message = kept["status"]["conditions"][1]["message"].as_str().unwrap();
    assert!(message.ends_with("due to a generation mismatch"), "{message}");

    let failed = shown(&now.ended(&of, Some(&lamps(&running)), Outcome::Failed("no")), &running);
    assert_eq!(migrating(&failed), ["StorageMigrating", "False", "MigrationFailed"]);
    assert_eq!(failed["status"]["storedVersions"], json!(["v1", "v2"]));
}

#[test]
fn resources_are_found_by_group_and_plural() {
    let kind = |group: &str, plural: &str| {
        let own = plan::built_in(Minor::DEFAULT, &migration(group, plural));
        match own {
            Some(Resolution::Kind(kind)) => Some((kind.resource.version.into_owned(), kind.kind)),
            other => {
                assert!(matches!(other, None | Some(Resolution::NotMigratable(_))));
                None
            }
        }
    };
    assert_eq!(kind("apps", "deployments"), Some(("v1".into(), "Deployment".into())));
    assert_eq!(kind("autoscaling", "horizontalpodautoscalers").unwrap().0, "v2", "the preferred version");
    assert_eq!(kind("", "bindings"), None);
    assert_eq!(plan::built_in(Minor::DEFAULT, &migration("example.com", "lamps")), None);
    assert_eq!(plan::definition_name(&migration("example.com", "lamps")), "lamps.example.com");
    assert!(plan::is_young(&migration("", "x"), now()));
    let late = "2026-01-01T00:01:01Z".parse().unwrap();
    assert!(!plan::is_young(&migration("", "x"), late));
}

#[test]
fn only_objects_up_to_the_checkpoint_are_written_and_only_in_their_present_state() {
    let kind = kind("apps", "deployments");
    let object = json!({ "metadata": { "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "42" }, "spec": {} });
    let empty = plan::patch(Minor::V36, &kind, &object, 42).unwrap();
    assert_eq!((empty.namespace, empty.name), ("n", "a"));
    let metadata = json!({ "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "42" });
    let Patch::Apply { object: applied, force: false } = empty.patch else { panic!() };
    assert_eq!(applied, json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata }));
    let empty = plan::patch(Minor::V37, &kind, &object, 42).unwrap();
    let Patch::Merge(merged) = empty.patch else { panic!() };
    assert_eq!(merged, json!({ "metadata": { "uid": "u", "resourceVersion": "42" } }));
    assert!(plan::patch(Minor::V36, &kind, &object, 41).is_none(), "written since");
    assert!(plan::is_transient(None) && plan::is_transient(Some(503)) && plan::is_transient(Some(429)));
    assert!(!plan::is_transient(Some(403)) && !plan::is_transient(Some(422)));
}

#[test]
fn a_stable_migration_is_written_in_its_own_version() {
    let stable: stable_kinds::StorageVersionMigration =
        serde_json::from_value(serde_json::to_value(migration("", "secrets")).unwrap()).unwrap();
    let Some(Action::UpdateStatus(object)) = plan::with_checkpoint(&stable, "42").pop() else { panic!() };
    let json: Value = serde_json::from_str(object.json()).unwrap();
    assert_eq!(
        (&json["apiVersion"], &json["status"]["resourceVersion"]),
        (&json!("storagemigration.k8s.io/v1"), &json!("42"))
    );
    assert_eq!(object.resource.version, "v1");
}
