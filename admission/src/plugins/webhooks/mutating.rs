//! Mutating webhooks: called one after the other, each with the object as the one before changed it.

use super::{ShownObjects, apply_failure_policy, matches, question};
use crate::dynamic::reviews::is_virtual;
use crate::dynamic::{Admitted, RequestContext};
use crate::plugin::{Configuration, Enabled, Plugin, Review, Row, Unstored};
use kstore_api::admission::Plugin::Webhooks;
use kstore_api::admission::manifests::ManifestPlugin;
use kstore_api::admission::{Attributes, MatchedForm, Operation, Webhook, audit, review};
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::sync::Arc;

/// The row of MutatingAdmissionWebhook.
pub(in crate::plugins) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    configuration: Configuration::Manifests(ManifestPlugin::MutatingWebhooks),
    subresources: &[],
    mutates: &[Operation::Create, Operation::Update, Operation::Delete, Operation::Connect],
    unstored: Unstored::Reviewed,
    is_dynamic: true,
    ..Row::new("MutatingAdmissionWebhook", || Arc::new(MutatingWebhooks))
};

struct MutatingWebhooks;

impl Plugin for MutatingWebhooks {
    /// Calls the matching webhooks in one round, which may change the object. A deletion they can only refuse.
    fn mutate(&self, review: &Review<'_>, new: &mut Value) -> Result<(), Undecided> {
        let mut new = (review.subject.operation != Operation::Delete).then_some(new);
        let (subject, admitted) = (review.subject, review.admitted);
        let hooks = &admitted.calls.configured().mutating_hooks;
        if is_virtual(subject.resource) || !hooks.has_candidates(subject.operation, subject.resource.plural) {
            return Ok(());
        }
        let context = RequestContext::of(review.cluster, admitted);
        let mut rounds = review.rounds.borrow_mut();
        rounds.begin(Webhooks, new.as_deref());
        for hook in hooks.candidates(subject.operation, subject.resource.plural) {
            let attributes = context.attributes(admitted, new.as_deref(), review.old);
            if attributes.is_exempt() && !hook.is_static {
                continue;
            }
            let Some(form) = matches(&context, admitted, hook, &attributes)? else { continue };
            if !rounds.should_run(Webhooks, &hook.uid) {
                continue;
            }
            hook.check_dry_run(&attributes)?;
            let changed = call(&context, admitted, hook, rounds.round(), &attributes, form)?;
            let is_changed = changed.as_ref().is_some_and(|changed| new.as_deref() != Some(changed));
            admitted.calls.annotate_all(|| vec![audit::mutation(hook, rounds.round(), is_changed)]);
            rounds.ran(Webhooks, &hook.uid, hook.reinvoke_if_needed, is_changed);
            if let (Some(new), Some(changed)) = (new.as_deref_mut(), changed) {
                *new = changed;
            }
        }
        rounds.end(Webhooks, new.as_deref());
        Ok(())
    }
}

/// Calls one webhook and returns the changed object; `None` if the webhook does not change it.
fn call(
    context: &RequestContext,
    admitted: &Admitted<'_>,
    hook: &Arc<Webhook>,
    round: u8,
    attributes: &Attributes<'_>,
    form: MatchedForm<'_>,
) -> Result<Option<Value>, Undecided> {
    let shown = ShownObjects::of(context, admitted, attributes, &form)?;
    let replies = admitted.calls.ask(|| Ok(vec![question(admitted, hook, attributes, form, &shown)]))?;
    let answer = match admitted.calls.read(&replies[0]) {
        Ok(answer) => answer,
        Err(error) => {
            apply_failure_policy(hook, &error)?;
            admitted.calls.annotate_all(|| vec![audit::failed_open(hook, round, hook.index)]);
            return Ok(None);
        }
    };
    let Some(patch) = answer.verdict? else { return Ok(None) };
    let patched = review::apply_patch(hook, &patch, shown.object.as_deref())?;
    let mut patched = shown.form.restored(patched)?;
    admitted.decode(&mut patched, attributes.object)?;
    admitted.target.fill_defaults(&mut patched);
    Ok(Some(patched))
}
