//! Admission policies: provides the cluster state that ValidatingAdmissionPolicies and
//! MutatingAdmissionPolicies use, and applies their verdicts. They are evaluated in
//! `kstore_api::admission::policy`.

use crate::dynamic::form::{converted, filled};
use crate::dynamic::{Admitted, RequestContext};
use crate::plugin::{Configuration, Enabled, Plugin, Review, Row, Unstored};
use kstore_api::admission::manifests::ManifestPlugin;
use kstore_api::admission::policy::{Cluster, ParamKind, ParamScope, PolicyRequest, complete_built_in};
use kstore_api::admission::{Attributes, GroupVersionKind, Operation};
use kstore_api::group_version::split_api_version;
use kstore_api::patch::apply::ObjectType;
use kstore_api::selector::label::Selector;
use kstore_api::status::Status;
use kstore_api::{meta, schema};
use kstore_registry::conversion::in_version;
use kstore_registry::kinds::is_conversion_needed;
use kstore_registry::lookup::Lookup;
use kstore_registry::undecided::Undecided;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// The row of MutatingAdmissionPolicy. As in Kubernetes, deletions are not reviewed.
pub(super) static MUTATING: Row = Row {
    enabled: Enabled::ByDefault,
    configuration: Configuration::Manifests(ManifestPlugin::MutatingPolicies),
    subresources: &[],
    mutates: &[Operation::Create, Operation::Update, Operation::Connect],
    unstored: Unstored::Reviewed,
    is_dynamic: true,
    ..Row::new("MutatingAdmissionPolicy", || Arc::new(MutatingPolicies))
};

/// The row of ValidatingAdmissionPolicy.
pub(super) static VALIDATING: Row = Row {
    enabled: Enabled::ByDefault,
    configuration: Configuration::Manifests(ManifestPlugin::ValidatingPolicies),
    subresources: &[],
    validates: &[Operation::Create, Operation::Update, Operation::Delete, Operation::Connect],
    unstored: Unstored::Reviewed,
    is_dynamic: true,
    ..Row::new("ValidatingAdmissionPolicy", || Arc::new(ValidatingPolicies))
};

struct MutatingPolicies;

impl Plugin for MutatingPolicies {
    /// Applies the matching policies to the object, in one round.
    fn mutate(&self, review: &Review<'_>, new: &mut Value) -> Result<(), Undecided> {
        let (subject, admitted) = (review.subject, review.admitted);
        let policies = &admitted.calls.configured().mutating_policies;
        if !policies.has_candidates(subject.operation, subject.resource.plural) {
            return Ok(());
        }
        let changed = evaluate(review, Some(new), policies.has_static(), |request| {
            policies.admit(request, &mut review.rounds.borrow_mut())
        })?;
        if let Some(mut changed) = changed.transpose()?.flatten() {
            // Decoding removes the added zero values again; the object gets them when it is stored.
            admitted.decode(&mut changed, Some(new))?;
            *new = changed;
        }
        Ok(())
    }
}

struct ValidatingPolicies;

impl Plugin for ValidatingPolicies {
    /// Evaluates the matching policies.
    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let (subject, calls) = (review.subject, review.calls());
        let policies = &calls.configured().validating_policies;
        if !policies.has_candidates(subject.operation, subject.resource.plural) {
            return Ok(());
        }
        let has_static = policies.has_static();
        let outcome = evaluate(review, new, has_static, |request| policies.admit(request))?;
        let Some(outcome) = outcome else { return Ok(()) };
        calls.warn(&outcome.warnings);
        calls.annotate_all(|| outcome.audit_annotations.clone());
        outcome.denial.map_or(Ok(()), |status| Err(status.into()))
    }
}

/// Lets policies evaluate a request; `None` if the request is exempt from policies and none of them is from a file.
///
/// # Errors
/// The evaluation needs an authorization webhook or a conversion by one, and is repeated with the answer.
fn evaluate<T>(
    review: &Review<'_>,
    new: Option<&Value>,
    has_static: bool,
    admit: impl FnOnce(&PolicyRequest<'_>) -> T,
) -> Result<Option<T>, Undecided> {
    let (cluster, admitted): (&dyn Lookup, _) = (review.cluster, review.admitted);
    let context = RequestContext::of(cluster, admitted);
    let attributes = context.attributes(admitted, new, review.old);
    if attributes.is_exempt() && !has_static {
        return Ok(None);
    }
    let object = new.map(|new| filled(Cow::Borrowed(new), attributes.kind));
    let attributes = Attributes { object: object.as_deref(), ..attributes };
    let seen = PolicyCluster { context: &context, admitted, cluster, unconverted: OnceLock::new() };
    let authorizer = admitted.calls.authorizer(review.subject.user);
    let verdict = admit(&PolicyRequest {
        attributes,
        facts: context.facts(),
        cluster: &seen,
        authorizer: Some(&authorizer),
        checks: admitted.calls,
    });
    admitted.calls.check_access_answers()?;
    seen.check_conversions()?;
    Ok(Some(verdict))
}

/// The cluster as the policies of one request see it.
struct PolicyCluster<'a> {
    context: &'a RequestContext,
    admitted: &'a Admitted<'a>,
    cluster: &'a dyn Lookup,
    /// That an object waits for its conversion by a webhook. What the policies made of its absence does not count.
    unconverted: OnceLock<Status>,
}

impl PolicyCluster<'_> {
    /// Ends an evaluation that needs a conversion by a webhook: it is repeated with the converted object.
    ///
    /// # Errors
    /// [`conversion_needed`](kstore_registry::kinds::conversion_needed).
    fn check_conversions(&self) -> Result<(), Status> {
        self.unconverted.get().map_or(Ok(()), |status| Err(status.clone()))
    }

    /// The served resource of a parameter kind.
    fn params_of(&self, kind: &ParamKind) -> Option<kstore_registry::kinds::Served> {
        let (group, version) = split_api_version(&kind.api_version);
        self.context.kinds.lookup_kind(group, version, &kind.kind)
    }

    /// A stored parameter object in the version that its policy names.
    fn read(served: &kstore_registry::kinds::Served, stored: &Arc<Value>) -> Option<Value> {
        match &served.custom {
            Some(custom) => custom.read((**stored).clone()).ok(),
            None => Some(in_version(served.resource, (**stored).clone())),
        }
    }
}

impl Cluster for PolicyCluster<'_> {
    fn convert(&self, object: &Value, to: GroupVersionKind<'_>) -> Result<Value, String> {
        let row = self.context.row_of(to).ok_or_else(|| format!("{to} is not served"))?;
        let own = self.admitted.subject.resource;
        converted(&self.context.kinds, object.clone(), own, row).map_err(|status| {
            if is_conversion_needed(&status) {
                let _ = self.unconverted.set(status.clone());
            }
            status.message
        })
    }

    fn object_type(&self, kind: GroupVersionKind<'_>) -> Option<ObjectType<'_>> {
        let custom = self.context.served.iter().filter_map(|served| served.custom.as_ref());
        let mut custom =
            custom.filter(|custom| custom.row().version == kind.version && custom.row().kind == kind.kind);
        match custom.next() {
            Some(custom) => Some(ObjectType::Custom(Some(&custom.version().tree))),
            None => schema::of(kind.group, kind.version, kind.kind).map(ObjectType::BuiltIn),
        }
    }

    fn complete(&self, kind: GroupVersionKind<'_>, mut object: Value) -> Result<Value, Status> {
        let Some(row) = self.context.row_of(kind) else { return Ok(object) };
        match self.context.kinds.custom(row) {
            None => {
                complete_built_in(row, object).map(|object| filled(Cow::Owned(object), kind).into_owned())
            }
            Some(custom) => {
                let tree = &custom.version().tree;
                tree.prune(&mut object);
                tree.drop_nulls(&mut object);
                tree.fill_defaults(&mut object);
                Ok(object)
            }
        }
    }

    fn param_scope(&self, kind: &ParamKind) -> Option<ParamScope> {
        let served = self.params_of(kind)?;
        Some(if served.resource.namespaced { ParamScope::Namespaced } else { ParamScope::Cluster })
    }

    fn param(&self, kind: &ParamKind, namespace: &str, name: &str) -> Option<Value> {
        let served = self.params_of(kind)?;
        let stored = self.cluster.get(served.resource, namespace, name)?;
        Self::read(&served, &stored)
    }

    fn params(&self, kind: &ParamKind, namespace: &str, selector: &Selector) -> Vec<Value> {
        let Some(served) = self.params_of(kind) else { return Vec::new() };
        let stored = self.cluster.list(served.resource, namespace);
        let empty = Map::new();
        let selects = |object: &&Arc<Value>| selector.matches(meta::labels(object).unwrap_or(&empty));
        let selected = stored.iter().filter(selects);
        selected.filter_map(|object| Self::read(&served, object)).collect()
    }
}
