//! Checks that the rules of all kinds fit their rows.

mod members;
mod sources;

use crate::kind::{CustomRow, every};
use crate::resource::{KindRules, Labels};
use std::collections::BTreeSet;

/// Rules that two rows share would be a mistake in the table of rows: each kind and version has its own static.
#[test]
fn every_row_has_its_own_rules() {
    let statics: BTreeSet<_> = every().map(|row| std::ptr::from_ref(row.rules).addr()).collect();
    assert_eq!(statics.len(), every().count());
}

#[test]
fn rules_of_subresources_are_for_subresources_that_the_row_has() {
    for row in every() {
        for rules in row.rules.subresources {
            let is_object = rules.name.is_empty();
            assert!(is_object || row.subresource(rules.name).is_some(), "{} {}", row.plural, rules.name);
        }
    }
}

#[test]
fn labels_stand_for_fields_that_the_kind_has() {
    for row in every() {
        let (Labels::Also(labels) | Labels::Only(labels)) = row.rules.fields.labels;
        for (label, stored) in labels {
            let is_known = row.rules.fields.values.iter().any(|(own, _)| own == stored);
            assert!(is_known || *stored == "metadata.name", "{} {label}", row.plural);
        }
    }
}

#[test]
fn versions_of_one_kind_convert_into_each_other() {
    for row in every().filter(|row| row.storage_version.is_some()) {
        let stored = row.storage_row();
        let has =
            |rules: &KindRules, version: String| rules.conversions.iter().any(|(own, _)| *own == version);
        assert!(has(row.rules, stored.api_version()), "{} is read", row.plural);
        assert!(has(stored.rules, row.api_version()), "{} is written", row.plural);
    }
}

#[test]
fn custom_rows_have_the_rules_of_custom_kinds() {
    let row = CustomRow {
        group: "stable.example.com".into(),
        version: "v1".into(),
        plural: "deployments".into(),
        kind: "Deployment".into(),
        has_status: true,
        ..CustomRow::default()
    };
    let row = CustomRow::rows(&[row], 0).unwrap()[0];
    assert!(row.rules.plain_finalizers && row.pod_template(&serde_json::Value::Null).is_none());
    let reset = crate::patch::apply::reset_fields(row, "status");
    assert_eq!(reset, crate::resource::Reset::Fields(&["metadata", "spec"]), "not those of apps/v1");
}
