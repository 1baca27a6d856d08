//! When a policy is to be checked, which kinds there are, and what the report says. Pure.

use crate::action::{Action, PatchKind, Target};
use crate::resource::POLICIES;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use kstore_api::admission::policy::type_checking::{CheckedKind, ExpressionWarning, ResourceName, Schemas};
use kstore_api::crd::Definition;
use kstore_api::expression::admission::KindSchema;
use kstore_api::{kind, schema};
use serde_json::{Value, json};
use std::sync::Arc;

/// Whether the policy has changed since it was checked last.
pub(super) fn is_due(policy: &ValidatingAdmissionPolicy) -> bool {
    let observed = policy.status.as_ref().and_then(|status| status.observed_generation);
    policy.metadata.generation.unwrap_or_default() > observed.unwrap_or_default()
}

/// The write of a finished check. It is of the revision that was checked: after a later one there is another check.
pub(super) fn report(policy: &ValidatingAdmissionPolicy, warnings: &[ExpressionWarning]) -> Action {
    let metadata = &policy.metadata;
    let warnings: Vec<Value> = warnings.iter().map(ExpressionWarning::to_json).collect();
    // Null takes away what an earlier check found.
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

/// The definition that a resource has if it is a custom one; `None` if it is built in.
pub(super) fn definition_of(resource: ResourceName<'_>) -> Option<String> {
    let ResourceName { group, version, resource } = resource;
    let is_custom = !group.is_empty() && kind::lookup(group, version, resource).is_none();
    is_custom.then(|| format!("{resource}.{group}"))
}

/// Whether a kind, by group, version and kind, is not a built-in one.
pub(super) fn may_be_custom((group, version, name): (&str, &str, &str)) -> bool {
    !group.is_empty() && kind::lookup_kind(group, version, name).is_none()
}

/// The built-in kinds, and the custom kinds of some definitions.
#[derive(Debug, Default)]
pub(super) struct Definitions(Vec<Definition>);

impl Definitions {
    /// Adds the kind of a definition, if it is served.
    pub(super) fn add(&mut self, definition: &Value) {
        self.0.extend(Definition::compile(definition).ok().filter(Definition::is_served));
    }

    /// The fields of the custom kind of these names; `is_it` says which kind of its group it is.
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
