//! Mutating webhooks: called one after the other, each with what the one before made of the object.

use super::calls::Question;
use super::form::{other_version, restored, shown};
use super::{Admitted, Scene};
use crate::lookup::Lookup;
use crate::outbound::Call;
use crate::undecided::Undecided;
use kstore_api::admission::review::{self, CallError};
use kstore_api::admission::{Attributes, FailurePolicy, MatchedForm, Plugin, Reinvocation, Webhook, audit};
use kstore_api::status::Status;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// Lets the webhooks that match change the object, in one round. `new` is absent for a deletion, which they can only refuse.
///
/// # Errors
/// The first refusal; or that an answer is awaited.
pub(crate) fn mutate(
    cluster: &dyn Lookup,
    admitted: &Admitted<'_>,
    mut new: Option<&mut Value>,
    old: Option<&Value>,
    rounds: &mut Reinvocation,
) -> Result<(), Undecided> {
    let subject = &admitted.subject;
    let hooks = &admitted.calls.configured().mutating_hooks;
    if !hooks.has_candidates(subject.operation, subject.resource.plural) {
        return Ok(());
    }
    let scene = Scene::of(cluster, admitted);
    rounds.begin(Plugin::Webhooks, new.as_deref());
    for hook in hooks.candidates(subject.operation, subject.resource.plural) {
        let attributes = scene.attributes(admitted, new.as_deref(), old);
        if attributes.is_exempt() {
            return Ok(());
        }
        let Some(form) = hook.matches(&attributes, &scene.facts())? else { continue };
        if !conditions_match(&scene, admitted, hook, &attributes, form)?
            || !rounds.should_run(Plugin::Webhooks, &hook.uid)
        {
            continue;
        }
        hook.check_dry_run(&attributes)?;
        let changed = call(&scene, admitted, (hook, rounds.round()), &attributes, form)?;
        let is_changed = changed.as_ref().is_some_and(|changed| new.as_deref() != Some(changed));
        admitted.calls.note(|| vec![audit::mutation(hook, rounds.round(), is_changed)]);
        rounds.ran(Plugin::Webhooks, &hook.uid, hook.reinvoke_if_needed, is_changed);
        if let (Some(new), Some(changed)) = (new.as_deref_mut(), changed) {
            *new = changed;
        }
    }
    rounds.end(Plugin::Webhooks, new.as_deref());
    Ok(())
}

/// Whether the match conditions of a webhook are true for the request in the form that its rules name.
///
/// # Errors
/// 403 if a condition has no value and none is false, where the failure policy is `Fail`.
pub(super) fn conditions_match(
    scene: &Scene,
    admitted: &Admitted<'_>,
    hook: &Webhook,
    attributes: &Attributes<'_>,
    form: MatchedForm<'_>,
) -> Result<bool, Undecided> {
    if !hook.has_conditions() {
        return Ok(true);
    }
    let kinds = &scene.kinds;
    let versions = (admitted.subject.resource, other_version(kinds, attributes, &form));
    let shown = |object| shown(kinds, object, versions, form.kind);
    let object = attributes.object.map(shown).transpose()?;
    let old = attributes.old_object.map(shown).transpose()?;
    let authorizer = admitted.calls.authorizer(admitted.subject.user);
    let matched =
        hook.conditions_match(attributes, form, object.as_deref(), old.as_deref(), Some(&authorizer));
    admitted.calls.settle_access()?;
    Ok(matched?)
}

/// What one webhook makes of the object; `None` if it leaves it as it is.
fn call(
    scene: &Scene,
    admitted: &Admitted<'_>,
    (hook, round): (&Arc<Webhook>, u8),
    attributes: &Attributes<'_>,
    form: MatchedForm<'_>,
) -> Result<Option<Value>, Undecided> {
    let kinds = &scene.kinds;
    let versions = (admitted.subject.resource, other_version(kinds, attributes, &form));
    let shown = |object| shown(kinds, object, versions, form.kind);
    let object = attributes.object.map(shown).transpose()?;
    let old = attributes.old_object.map(shown).transpose()?;
    let question = || question(admitted, hook, attributes, form, object.as_deref(), old.as_deref());
    let replies = admitted.calls.ask(|| Ok(vec![question()]))?;
    let answer = match admitted.calls.read(&replies[0]) {
        Ok(answer) => answer,
        Err(error) => {
            passed_over(hook, &error)?;
            admitted.calls.note(|| vec![audit::failed_open(hook, round, hook.index)]);
            return Ok(None);
        }
    };
    let Some(patch) = answer.verdict? else { return Ok(None) };
    let patched = review::apply_patch(hook, &patch, object.as_deref())?;
    let mut patched = restored(kinds, patched, versions)?;
    admitted.target.decode_admitted(&mut patched)?;
    admitted.target.fill_defaults(&mut patched);
    Ok(Some(patched))
}

/// A call to a webhook with the objects in the form that its rules name.
pub(super) fn question(
    admitted: &Admitted<'_>,
    hook: &Arc<Webhook>,
    attributes: &Attributes<'_>,
    form: MatchedForm<'_>,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<Question, CallError> {
    let client = hook.client.clone();
    let client =
        client.ok_or_else(|| CallError::no_client(&hook.name, "it has neither a URL nor a service"))?;
    let uid = admitted.calls.uid();
    let body = review::encode_request(hook, attributes, form, &uid, object, old)?;
    let timeout = Duration::from_secs(hook.timeout_seconds.into());
    let operation = attributes.operation;
    Ok(Question { hook: hook.clone(), uid, operation, call: Call { client, timeout, body: body.into() } })
}

/// What a failed call means: nothing, where the webhook's failure policy is `Ignore`.
///
/// # Errors
/// 500 otherwise.
pub(super) fn passed_over(hook: &Webhook, error: &CallError) -> Result<(), Status> {
    match hook.failure_policy {
        FailurePolicy::Fail => Err(error.status()),
        FailurePolicy::Ignore => {
            tracing::warn!(webhook = &*hook.name, %error, "a webhook failed and is passed over");
            Ok(())
        }
    }
}
