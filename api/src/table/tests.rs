//! Table tests: `cases.yaml` has objects and their rows. The current time is 2024-01-01T01:00:00Z.

use super::*;
use crate::kind::{every, known};
use crate::object;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Case {
    name: String,
    object: Value,
    row: Vec<Value>,
}

fn now() -> Timestamp {
    "2024-01-01T01:00:00Z".parse().unwrap()
}

#[test]
fn table_rows_match_kubernetes() {
    let cases: Vec<Case> = serde_yaml_ng::from_str(include_str!("cases.yaml")).unwrap();
    for case in cases {
        let row = known(object::api_version(&case.object), object::kind(&case.object))
            .unwrap_or_else(|| panic!("{}: no such kind", case.name));
        assert_eq!(cells(row, &case.object, now()), case.row, "{}", case.name);
    }
}

#[test]
fn empty_objects_have_a_cell_for_each_column() {
    for row in every() {
        let cells = cells(row, &json!({}), now());
        assert_eq!(cells.len(), columns(row).len(), "{}", row.plural);
    }
    assert_eq!(scale_cells(&json!({}), now()).len(), scale_columns().len());
}

#[test]
fn table_columns_match_kubernetes() {
    let wanted: BTreeMap<String, String> = serde_yaml_ng::from_str(include_str!("columns.yaml")).unwrap();
    for row in every().filter(|row| row.is_stored() || row.kind == "ComponentStatus") {
        let words = |column: &Column| {
            let wide = if column.priority > 0 { "wide" } else { "" };
            let words = [column.name, column.kind, column.format, wide];
            words.iter().filter(|word| !word.is_empty()).copied().collect::<Vec<_>>().join(" ")
        };
        let columns: Vec<_> = columns(row).iter().map(words).collect();
        let wanted = wanted.get(row.kind).unwrap_or_else(|| panic!("{}: not in the list", row.kind));
        assert_eq!(columns.join(", "), *wanted, "{}", row.plural);
    }
}

#[test]
fn a_migration_shows_its_resource_and_its_state() {
    let row = known("storagemigration.k8s.io/v1", "StorageVersionMigration").unwrap();
    let shown = |group: &str, conditions: Value| {
        let migration = json!({"metadata": {"name": "m"}, "spec": {"resource": {"group": group, "resource": "deployments"}},
            "status": {"conditions": conditions}});
        cells(row, &migration, now())
    };
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
    assert_eq!(shown("apps", json!(null)), ["m", "deployments.apps", "Unknown"]);
    let ended = json!([condition("Running", "False"), condition("Succeeded", "True")]);
    assert_eq!(shown("", ended), ["m", "deployments", "Succeeded"]);
}

#[test]
fn finished_pods_have_a_row_condition() {
    let pods = crate::kind::lookup("", "v1", "pods").unwrap();
    assert_eq!(row_conditions(pods, &json!({"status": {"phase": "Running"}})), None);
    let done = row_conditions(pods, &json!({"status": {"phase": "Failed"}})).unwrap();
    assert_eq!((&done[0]["type"], &done[0]["reason"]), (&json!("Completed"), &json!("Failed")));
}

#[test]
fn since_1_37_only_a_list_marks_a_storage_class_and_only_the_effective_default() {
    use crate::kind::{Kinds, OptIn};
    use crate::version::Minor;
    let class = |name: &str, created: &str, default: &str| {
        json!({"metadata": {"name": name, "creationTimestamp": created,
            "annotations": {"storageclass.kubernetes.io/is-default-class": default}}})
    };
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    let lists = [
        (vec![class("c", late, "true"), class("a", early, "true"), class("b", late, "true")], Some("b")),
        (vec![class("a", late, "false"), class("b", early, "true")], Some("b")),
        (vec![class("a", late, "false")], None),
        (vec![], None),
    ];
    for minor in Minor::SERVED {
        let row = Kinds::new(OptIn::version(minor), &[], &[])
            .lookup("storage.k8s.io", "v1", "storageclasses")
            .unwrap();
        let alone = &cells(row, &class("a", early, "true"), now())[0];
        assert_eq!(*alone, if minor < Minor::V37 { "a (default)" } else { "a" }, "{minor}");
        assert_eq!(marks_default(row), minor >= Minor::V37, "{minor}");
        for (list, expected) in &lists {
            let expected = expected.filter(|_| minor >= Minor::V37);
            assert_eq!(default_of(row, list.iter()), expected, "{minor} {list:?}");
        }
    }
    let pods = crate::kind::lookup("", "v1", "pods").unwrap();
    assert_eq!(default_of(pods, [class("a", early, "true")].iter()), None);
    assert_eq!(marked_name("a"), "a (default)");
}

#[test]
fn older_versions_print_the_columns_and_cells_that_they_had() {
    use crate::kind::{Kinds, OptIn};
    use crate::version::Minor;
    let row = |minor, group: &str, version: &str, plural: &str| {
        Kinds::new(OptIn::version(minor), &[], &[]).lookup(group, version, plural).unwrap()
    };
    for minor in Minor::SERVED {
        let accounts = row(minor, "", "v1", "serviceaccounts");
        let account = json!({"metadata": {"name": "a"}, "secrets": [{"name": "b"}]});
        let names: Vec<_> = columns(accounts).iter().map(|column| column.name).collect();
        match minor < Minor::V35 {
            true => {
                assert_eq!(names, ["Name", "Secrets", "Age"], "{minor}");
                assert_eq!(cells(accounts, &account, now())[1], 1);
            }
            false => assert_eq!(names, ["Name", "Age"], "{minor}"),
        }
        let class = json!({"metadata": {"name": "a",
            "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}});
        let marked = &cells(row(minor, "networking.k8s.io", "v1", "ingressclasses"), &class, now())[0];
        assert_eq!(*marked, if minor < Minor::V36 { "a" } else { "a (default)" }, "{minor}");
        let info = json!({"kernelVersion": "6.1", "architecture": "arm64"});
        let node = json!({"metadata": {"name": "a"}, "status": {"nodeInfo": info}});
        let nodes = row(minor, "", "v1", "nodes");
        let at = columns(nodes).iter().position(|column| column.name == "Kernel-Version").unwrap();
        let kernel = &cells(nodes, &node, now())[at];
        assert_eq!(*kernel, if minor < Minor::V36 { "6.1" } else { "6.1 (arm64)" }, "{minor}");
        let job = json!({"metadata": {"name": "a"},
            "status": {"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}]}});
        let status = &cells(row(minor, "batch", "v1", "jobs"), &job, now())[1];
        assert_eq!(*status, if minor < Minor::V34 { "Running" } else { "SuccessCriteriaMet" }, "{minor}");
    }
}
