//! Objects and the rows they print: `cases.yaml` beside this file. Times are taken at 2024-01-01T01:00:00Z.

use serde::Deserialize;
use serde_json::Value;

use super::*;
use crate::kind::{RESOURCES, lookup_api_version};
use crate::object;

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
fn objects_print_as_in_a_real_cluster() {
    let cases: Vec<Case> = serde_yaml_ng::from_str(include_str!("cases.yaml")).unwrap();
    for case in cases {
        let row = lookup_api_version(object::api_version(&case.object), object::kind(&case.object))
            .unwrap_or_else(|| panic!("{}: no such kind", case.name));
        assert_eq!(cells(row, &case.object, now()), case.row, "{}", case.name);
    }
}

#[test]
fn every_kind_prints_as_many_cells_as_columns_even_when_empty() {
    for row in RESOURCES {
        let cells = cells(row, &json!({}), now());
        assert_eq!(cells.len(), columns(row).len(), "{}", row.plural);
        assert_eq!(columns(row).iter().filter(|c| c.format == "name").count(), 1, "{}", row.plural);
    }
    assert_eq!(scale_cells(&json!({}), now()).len(), scale_columns().len());
}

#[test]
fn finished_pods_carry_a_row_condition() {
    let pods = crate::kind::lookup("", "v1", "pods").unwrap();
    assert_eq!(row_conditions(pods, &json!({"status": {"phase": "Running"}})), None);
    let done = row_conditions(pods, &json!({"status": {"phase": "Failed"}})).unwrap();
    assert_eq!((&done[0]["type"], &done[0]["reason"]), (&json!("Completed"), &json!("Failed")));
}
