//! [`KindRules`]: the functions and data by which objects of a kind are defaulted, validated, printed and so on.

use super::{Printer, RatchetedRule, SelectableFields, SubresourceRules, Warnings};
use crate::field::{ErrorList, FieldError};
use crate::version::Minor;
use serde_json::Value;

/// A property that an object has or not.
pub(crate) type Predicate = fn(&Value) -> bool;

/// Check of an update: new object, stored object, list to which errors are added.
pub(crate) type UpdateCheck = fn(&Value, &Value, &mut ErrorList);

/// The apiVersion of an object, and the function that converts it from there.
pub(crate) type Conversion = (&'static str, fn(&mut Value));

/// Rules of one kind in one version. `rules` has those of each kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KindRules {
    /// Sets the members that the client left out; runs on each decoded object.
    pub(crate) defaults: fn(&mut Value),
    /// Whether the defaults give an object without labels those of its template.
    pub(crate) shares_template_labels: bool,
    /// Path of the pod or pod template in an object; its `spec` is a pod specification.
    pub(crate) pod_template: Option<&'static [&'static str]>,
    /// Drops members that no version uses, but has in its types.
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
    pub(crate) ratcheted: fn(&Value, &FieldError) -> Option<RatchetedRule>,
    /// Whether finalizers without a domain are accepted.
    pub(crate) plain_finalizers: bool,
    /// Warns of a valid object that is probably a mistake; the second argument is the object that it replaces.
    pub(crate) warnings: fn(&Value, Option<&Value>, &mut Warnings),
    /// Rules of writes through subresources, where they differ from those in [`SubresourceRules`].
    pub(crate) subresources: &'static [SubresourceRules],
    /// Columns and cells of `kubectl get`.
    pub(crate) printer: Printer,
    /// Columns and cells up to a version of Kubernetes, where they were others; the oldest version first.
    pub(crate) former_printers: &'static [(Minor, Printer)],
    /// Columns and cells from a version of Kubernetes on that is newer than the default one, where they are others.
    pub(crate) later_printer: Option<(Minor, Printer)>,
    /// Whether an object is a default of its kind, which tables of several objects mark from a version of Kubernetes on.
    pub(crate) is_default: Option<(Minor, Predicate)>,
    /// Conditions of a table row.
    pub(crate) row_conditions: fn(&Value) -> Option<Value>,
    /// Fields that field selectors can name, besides name and namespace.
    pub(crate) fields: SelectableFields,
    /// Conversions to this version from others.
    pub(crate) conversions: &'static [Conversion],
}

impl KindRules {
    /// Rules of writes through a subresource (empty: the object's own path).
    pub(crate) fn subresource(&self, name: &str) -> &SubresourceRules {
        let own = self.subresources.iter().find(|rules| rules.name == name);
        own.unwrap_or(if name == "status" { &SubresourceRules::STATUS } else { &SubresourceRules::OBJECT })
    }
}
