//! Ratcheting of definitions: an update may break rules that the stored definition already breaks.

use super::internal::Internal;
use super::{SELECTABLE_FIELDS_MAX, defaults, list_types, openapi, structural};
use crate::crd::condition;
use crate::crd::schema::any;
use crate::object::{list, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Rules that are enforced for one write.
#[derive(Clone, Debug)]
pub(super) struct Options {
    /// Whether a known conversion review version is required.
    pub(super) known_review_version: bool,
    /// Whether every version must have a schema.
    pub(super) schemas: bool,
    /// Whether types must be those of OpenAPI.
    pub(super) known_types: bool,
    /// Whether schemas must be structural.
    pub(super) structural: bool,
    /// Whether defaults must not have unknown fields.
    pub(super) pruned_defaults: bool,
    /// Whether items of sets must be atomic.
    pub(super) atomic_sets: bool,
    /// Whether keys of map lists must be required or have a default, and must not be nullable.
    pub(super) map_keys: bool,
    /// Whether the CA bundle of a webhook must be valid.
    pub(super) valid_ca_bundle: bool,
    /// Versions that may exceed the limit of selectable fields; the empty name stands for the fields of all
    /// versions.
    pub(super) many_selectable: BTreeSet<String>,
}

impl Options {
    /// All rules, except the check of CA bundles, which starts when the definition is established.
    pub(super) fn for_create() -> Self {
        Self {
            known_review_version: true,
            schemas: true,
            known_types: true,
            structural: true,
            pruned_defaults: true,
            atomic_sets: true,
            map_keys: true,
            valid_ca_bundle: false,
            many_selectable: BTreeSet::new(),
        }
    }

    pub(super) fn for_update(new: &Value, old: &Value) -> Self {
        let stored = Internal::of(old);
        let holds = |broken: fn(&Value) -> bool| !stored.schemas().any(broken);
        Self {
            known_review_version: {
                let versions = list(&old["spec"]["conversion"]["webhook"]["conversionReviewVersions"]);
                versions.is_empty() || versions.iter().any(|own| matches!(text(own), "v1" | "v1beta1"))
            },
            schemas: all_have_schemas(&stored),
            known_types: holds(|schema| any(schema, openapi::has_unknown_type)),
            structural: holds(structural::is_not_structural),
            pruned_defaults: holds(defaults::has_unpruned),
            atomic_sets: holds(|schema| any(schema, list_types::is_set_of_granular)),
            map_keys: holds(|schema| any(schema, list_types::has_bad_keys)),
            valid_ca_bundle: demands_valid_bundle(old),
            many_selectable: many_selectable(&Internal::of(new), &stored),
        }
    }
}

fn all_have_schemas(stored: &Internal<'_>) -> bool {
    let has = |schema: Option<&Value>| schema.is_some_and(|own| !own["openAPIV3Schema"].is_null());
    has(stored.validation) || stored.versions.iter().all(|version| has(version.schema))
}

/// Whether the CA bundle must be valid: the definition is established, and its stored bundle is valid or
/// missing.
fn demands_valid_bundle(old: &Value) -> bool {
    let bundle = text(&old["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"]);
    condition::is_true(old, condition::ESTABLISHED)
        && (bundle.is_empty() || super::is_certificate_bundle(bundle))
}

fn many_selectable(new: &Internal<'_>, old: &Internal<'_>) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    if old.selectable.len() > SELECTABLE_FIELDS_MAX && old.selectable == new.selectable {
        out.insert(String::new());
    }
    let many = old.versions.iter().filter(|version| version.selectable.len() > SELECTABLE_FIELDS_MAX);
    let many: BTreeMap<&str, &[Value]> =
        many.map(|version| (text(&version.value["name"]), version.selectable)).collect();
    let kept = new.versions.iter().map(|version| (text(&version.value["name"]), version.selectable));
    let kept = kept.filter(|(name, fields)| many.get(name) == Some(fields));
    out.extend(kept.map(|(name, _)| name.to_owned()));
    out
}
