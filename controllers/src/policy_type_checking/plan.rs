//! When a policy is checked, the known kinds, and the report. Pure.

use crate::action::{Action, PatchKind, Target};
use crate::resource::POLICIES;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use kstore_api::admission::policy::type_checking::{CheckedKind, ExpressionWarning, ResourceName, Schemas};
use kstore_api::admission_expression::KindSchema;
use kstore_api::crd::Definition;
use kstore_api::{kind, schema};
use serde_json::{Value, json};
use std::sync::Arc;

/// Whether the policy has changed since its last check.
pub(super) fn is_due(policy: &ValidatingAdmissionPolicy) -> bool {
    let observed = policy.status.as_ref().and_then(|status| status.observed_generation);
    policy.metadata.generation.unwrap_or_default() > observed.unwrap_or_default()
}

/// The status update of a check. Its precondition is the checked revision: a later one is checked again.
pub(super) fn report(policy: &ValidatingAdmissionPolicy, warnings: &[ExpressionWarning]) -> Action {
    let metadata = &policy.metadata;
    let warnings: Vec<Value> = warnings.iter().map(ExpressionWarning::to_json).collect();
    // Null removes earlier warnings.
    let warnings = if warnings.is_empty() { Value::Null } else { warnings.into() };
    let target = Target {
        resource: POLICIES,
        namespace: String::new(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        resource_version: None,
    };
    let patch = json!({
        "metadata": {"resourceVersion": metadata.resource_version},
        "status": {
            "observedGeneration": metadata.generation,
            "typeChecking": {"expressionWarnings": warnings},
        },
    });
    Action::Patch { target, status: true, kind: PatchKind::Merge, patch }
}

/// The definition name of a custom resource; `None` for a built-in one.
pub(super) fn definition_of(resource: ResourceName<'_>) -> Option<String> {
    let ResourceName { group, version, resource } = resource;
    let is_custom = !group.is_empty() && kind::lookup(group, version, resource).is_none();
    is_custom.then(|| format!("{resource}.{group}"))
}

/// Whether a kind, by group, version and kind, is not built in.
pub(super) fn may_be_custom((group, version, name): (&str, &str, &str)) -> bool {
    !group.is_empty() && kind::lookup_kind(group, version, name).is_none()
}

/// The built-in kinds, and the custom kinds of these definitions.
#[derive(Debug, Default)]
pub(super) struct Definitions(Vec<Definition>);

impl Definitions {
    /// Adds the kind of a definition, if it is served.
    pub(super) fn add(&mut self, definition: &Value) {
        self.0.extend(Definition::compile(definition).ok().filter(Definition::is_served));
    }

    /// The schema of a custom kind; `is_it` selects the kind within its group.
    fn custom(
        &self,
        group: &str,
        version: &str,
        is_it: impl Fn(&Definition) -> bool,
    ) -> Option<(&Definition, KindSchema)> {
        let definition = self.0.iter().find(|known| &*known.group == group && is_it(known))?;
        let version = definition.version(version).filter(|version| version.served)?;
        Some((definition, KindSchema::Custom(Arc::clone(&version.tree))))
    }
}

impl Schemas for Definitions {
    fn kind_of(&self, resource: ResourceName<'_>) -> Option<CheckedKind> {
        let ResourceName { group, version, resource } = resource;
        let (name, schema) = match kind::lookup(group, version, resource) {
            Some(row) => (row.kind, KindSchema::BuiltIn(schema::of(group, version, row.kind)?)),
            None => {
                let (definition, schema) =
                    self.custom(group, version, |known| &*known.accepted.plural == resource)?;
                (&*definition.accepted.kind, schema)
            }
        };
        let (group, version, kind) = (group.to_owned(), version.to_owned(), name.to_owned());
        Some(CheckedKind { group, version, kind, schema })
    }

    fn schema_of(&self, group: &str, version: &str, kind: &str) -> Option<KindSchema> {
        if kind::lookup_kind(group, version, kind).is_some() {
            return schema::of(group, version, kind).map(KindSchema::BuiltIn);
        }
        self.custom(group, version, |known| &*known.accepted.kind == kind).map(|(_, schema)| schema)
    }
}
