//! The rules of each built-in kind in one place: [`KindRules`] names the functions and data by which objects of a
//! kind are defaulted, prepared, validated, warned about, printed, selected and converted. Each kind has one
//! static, in the file of its API group; its row in `kind/table.rs` refers to it, so a request finds the rules
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
mod fields;
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
mod subresource;
#[cfg(test)]
mod tests;

use serde_json::Value;

use crate::field::{ErrorList, FieldError};
use crate::table::{self, Printer};
use crate::validate::ratchet;
use crate::validate::warning::{self, Warnings};

pub(crate) use fields::{Labels, SelectableFields};
pub(crate) use subresource::SubresourceRules;

/// Check of an update: new object, stored object, list to which errors are added.
pub(crate) type UpdateCheck = fn(&Value, &Value, &mut ErrorList);

/// The apiVersion of an object, and the function that converts it from there.
pub(crate) type Conversion = (&'static str, fn(&mut Value));

/// Rules of one kind in one version. [`KindRules::NONE`] has the rules of a kind that needs none of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KindRules {
    /// Sets the members that the client left out; runs on each decoded object.
    pub(crate) defaults: fn(&mut Value),
    /// Whether the defaults give an object without labels those of its template.
    pub(crate) shares_template_labels: bool,
    /// Path of the pod or pod template in an object; its `spec` is a pod specification.
    pub(crate) pod_template: Option<&'static [&'static str]>,
    /// Drops members of features that are off by default, besides those of the pod template.
    pub(crate) drop_disabled: fn(&mut Value),
    /// Whether a create keeps the status that the client sent.
    pub(crate) keeps_status_at_create: bool,
    /// Prepares a new object: its first status, and members that the server derives.
    pub(crate) prepare_create: fn(&mut Value),
    /// Prepares a new object (first argument) that replaces a stored one.
    pub(crate) prepare_update: fn(&mut Value, &Value),
    /// Validates an object at create and update. The second argument is the stored object of an update, whose
    /// faults may stay.
    pub(crate) content: fn(&Value, Option<&Value>, &mut ErrorList),
    /// Validates what only new objects must satisfy; runs after `content`.
    pub(crate) create: fn(&Value, &mut ErrorList),
    /// Validates what an update must satisfy, such as immutable members; runs after `content`.
    pub(crate) change: UpdateCheck,
    /// Which ratcheted rule an error reports, if any: a rule that is newer than stored objects.
    pub(crate) ratcheted: fn(&Value, &FieldError) -> Option<ratchet::Rule>,
    /// Whether finalizers without a domain are accepted.
    pub(crate) plain_finalizers: bool,
    /// Warns of a valid object that is probably a mistake; the second argument is the object that it replaces.
    pub(crate) warnings: fn(&Value, Option<&Value>, &mut Warnings),
    /// Rules of writes through subresources, where they differ from those in [`SubresourceRules`].
    pub(crate) subresources: &'static [SubresourceRules],
    /// Columns and cells of `kubectl get`.
    pub(crate) printer: Printer,
    /// Conditions of a table row.
    pub(crate) row_conditions: fn(&Value) -> Option<Value>,
    /// Fields that field selectors can name, besides name and namespace.
    pub(crate) fields: SelectableFields,
    /// Conversions to this version from others.
    pub(crate) conversions: &'static [Conversion],
}

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

    /// Rules of writes through a subresource (empty: the object's own path).
    pub(crate) fn subresource(&self, name: &str) -> &SubresourceRules {
        let own = self.subresources.iter().find(|rules| rules.name == name);
        own.unwrap_or(if name == "status" { &SubresourceRules::STATUS } else { &SubresourceRules::OBJECT })
    }
}
