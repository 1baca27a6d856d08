//! Validating webhooks: called at once with the final object.

use super::form::{other_version, shown};
use super::mutating::{conditions_match, passed_over, question};
use super::{Admitted, Scene};
use crate::lookup::Lookup;
use crate::undecided::Undecided;
use kstore_api::admission::{MatchedForm, Webhook, audit};
use kstore_api::status::Status;
use serde_json::Value;
use std::sync::Arc;

/// Asks the webhooks that match. All of them answer before the first refusal, in the order of the webhooks, is returned.
///
/// # Errors
/// The first refusal; or that answers are awaited.
pub(crate) fn validate(
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
    let scene = Scene::of(cluster, admitted);
    let attributes = scene.attributes(admitted, new, old);
    if attributes.is_exempt() {
        return Ok(());
    }
    let mut matched: Vec<(&Arc<Webhook>, MatchedForm<'_>)> = Vec::new();
    for hook in hooks.candidates(subject.operation, subject.resource.plural) {
        let Some(form) = hook.matches(&attributes, &scene.facts())? else { continue };
        if !conditions_match(&scene, admitted, hook, &attributes, form)? {
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
            let kinds = &scene.kinds;
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
            Err(error) => passed_over(hook, &error).inspect(|()| {
                admitted.calls.note(|| vec![audit::failed_open(hook, 0, index)]);
            }),
        };
        verdict = verdict.and(said);
    }
    verdict.map_err(Undecided::from)
}
