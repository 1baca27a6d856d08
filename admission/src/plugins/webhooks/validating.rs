//! Validating webhooks: called concurrently with the final object.

use super::{NO_KUBECONFIG, apply_failure_policy, conditions_match, question};
use crate::dynamic::form::{other_version, shown};
use crate::dynamic::{Admitted, RequestContext};
use crate::plugin::{Enabled, Plugin, Review, Row, Unstored};
use kstore_api::admission::{MatchedForm, Operation, Webhook, audit};
use kstore_api::status::Status;
use kstore_registry::lookup::Lookup;
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::sync::Arc;

/// The row of ValidatingAdmissionWebhook.
pub(crate) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    configuration: NO_KUBECONFIG,
    subresources: &[],
    validates: &[Operation::Create, Operation::Update, Operation::Delete, Operation::Connect],
    unstored: Unstored::Reviewed,
    is_dynamic: true,
    ..Row::new("ValidatingAdmissionWebhook", || Arc::new(ValidatingWebhooks))
};

struct ValidatingWebhooks;

impl Plugin for ValidatingWebhooks {
    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        validate(review.cluster, review.admitted, new, review.old)
    }
}

/// Calls the matching webhooks. Waits for all answers and returns the first refusal, in the order of the
/// webhooks.
///
/// # Errors
/// The first refusal; or pending, if answers are missing.
fn validate(
    cluster: &dyn Lookup,
    admitted: &Admitted<'_>,
    new: Option<&Value>,
    old: Option<&Value>,
) -> Result<(), Undecided> {
    let subject = &admitted.subject;
    let hooks = &admitted.calls.configured().validating_hooks;
    if !hooks.has_candidates(subject.operation, subject.resource.plural) {
        return Ok(());
    }
    let context = RequestContext::of(cluster, admitted);
    let attributes = context.attributes(admitted, new, old);
    if attributes.is_exempt() {
        return Ok(());
    }
    let mut matched: Vec<(&Arc<Webhook>, MatchedForm<'_>)> = Vec::new();
    for hook in hooks.candidates(subject.operation, subject.resource.plural) {
        let Some(form) = hook.matches(&attributes, &context.facts())? else { continue };
        if !conditions_match(&context, admitted, hook, &attributes, form)? {
            continue;
        }
        hook.check_dry_run(&attributes)?;
        matched.push((hook, form));
    }
    if matched.is_empty() {
        return Ok(());
    }
    let replies = admitted.calls.ask(|| {
        let question = |(hook, form): &(&Arc<Webhook>, MatchedForm<'_>)| {
            let kinds = &context.kinds;
            let versions = (subject.resource, other_version(kinds, &attributes, form));
            let shown = |object| shown(kinds, object, versions, form.kind);
            let (new, old) = (new.map(shown).transpose()?, old.map(shown).transpose()?);
            Ok(question(admitted, hook, &attributes, *form, new.as_deref(), old.as_deref()))
        };
        matched.iter().map(question).collect()
    })?;
    let mut verdict: Result<(), Status> = Ok(());
    for (index, ((hook, _), reply)) in matched.iter().zip(replies).enumerate() {
        let said = match admitted.calls.read(&reply) {
            Ok(answer) => answer.verdict.map(drop),
            Err(error) => apply_failure_policy(hook, &error).inspect(|()| {
                admitted.calls.note(|| vec![audit::failed_open(hook, 0, index)]);
            }),
        };
        verdict = verdict.and(said);
    }
    verdict.map_err(Undecided::from)
}
