//! The rules of each built-in kind in one place: [`KindRules`] (`resource`) names the functions and data by which objects of a
//! kind are defaulted, prepared, validated, warned about, printed, selected and converted. Each kind has one
//! static, in the file of its API group; its row in `kind/table/mod.rs` refers to it, so a request finds the rules
//! without a search. The functions themselves are in the folders of their verbs (`defaults`, `strategy`,
//! `validate`, `table`, …). The generic part of a verb, which is equal for all kinds, is there too.
//!
//! Custom kinds have the same struct: [`KindRules::CUSTOM`], with the selectable fields of their definition. What a
//! definition's schema demands (defaults, validation, columns, conversion) is not in it, since it is data that
//! changes while the server runs, and reads null and empty values by other rules (`structural`, `crd`).

pub(crate) mod admission;
pub(crate) mod apps;
pub(crate) mod authentication;
pub(crate) mod authorization;
pub(crate) mod autoscaling;
pub(crate) mod batch;
pub(crate) mod certificates;
pub(crate) mod coordination;
pub(crate) mod core;
pub(crate) mod discovery;
pub(crate) mod events;
pub(crate) mod extensions;
pub(crate) mod flowcontrol;
pub(crate) mod networking;
pub(crate) mod node;
pub(crate) mod policy;
pub(crate) mod rbac;
pub(crate) mod registration;
pub(crate) mod resource;
pub(crate) mod scheduling;
pub(crate) mod storage;
pub(crate) mod storage_migration;
#[cfg(test)]
mod tests;

use crate::resource::{KindRules, SelectableFields, SubresourceRules};
use crate::table;
use crate::validate::{ratchet, warning};

impl KindRules {
    /// Rules of a kind that needs none of its own.
    pub(crate) const NONE: Self = Self {
        defaults: |_| {},
        shares_template_labels: false,
        pod_template: None,
        drop_disabled: |_| {},
        keeps_status_at_create: false,
        prepare_create: |_| {},
        prepare_update: |_, _| {},
        content: |_, _, _| {},
        create: |_, _| {},
        change: |_, _, _| {},
        ratcheted: ratchet::of_pods,
        plain_finalizers: false,
        warnings: |_, _, _| {},
        subresources: &[],
        printer: table::DEFAULT,
        former_printers: &[],
        later_printer: None,
        is_default: None,
        row_conditions: |_| None,
        fields: SelectableFields::NONE,
        conversions: &[],
    };

    /// Rules of custom kinds that do not depend on their definition.
    pub(crate) const CUSTOM: Self = Self {
        plain_finalizers: true,
        warnings: |object, old, warnings| warning::finalizers(object, old, warnings),
        subresources: &[SubresourceRules::STATUS_WITHOUT_METADATA],
        ..Self::NONE
    };
}
