//! Validating webhooks: called concurrently with the final object.

use super::{ShownObjects, apply_failure_policy, matches, question};
use crate::dynamic::RequestContext;
use crate::dynamic::reviews::is_virtual;
use crate::plugin::{Configuration, Enabled, Plugin, Review, Row, Unstored};
use kstore_api::admission::manifests::ManifestPlugin;
use kstore_api::admission::{MatchedForm, Operation, Webhook, audit};
use kstore_api::status::Status;
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::sync::Arc;

/// The row of ValidatingAdmissionWebhook.
pub(in crate::plugins) static ROW: Row = Row {
    enabled: Enabled::ByDefault,
    configuration: Configuration::Manifests(ManifestPlugin::ValidatingWebhooks),
    subresources: &[],
    validates: &[Operation::Create, Operation::Update, Operation::Delete, Operation::Connect],
    unstored: Unstored::Reviewed,
    is_dynamic: true,
    ..Row::new("ValidatingAdmissionWebhook", || Arc::new(ValidatingWebhooks))
};

struct ValidatingWebhooks;

impl Plugin for ValidatingWebhooks {
    /// Calls the matching webhooks. Waits for all answers and returns the first refusal, in the order of the webhooks.
    fn validate(&self, review: &Review<'_>, new: Option<&Value>) -> Result<(), Undecided> {
        let (subject, admitted) = (review.subject, review.admitted);
        let hooks = &admitted.calls.configured().validating_hooks;
        if is_virtual(subject.resource) || !hooks.has_candidates(subject.operation, subject.resource.plural) {
            return Ok(());
        }
        let context = RequestContext::of(review.cluster, admitted);
        let attributes = context.attributes(admitted, new, review.old);
        let is_exempt = attributes.is_exempt();
        let mut matched: Vec<(&Arc<Webhook>, MatchedForm<'_>)> = Vec::new();
        let candidates = hooks.candidates(subject.operation, subject.resource.plural);
        for hook in candidates.filter(|hook| hook.is_static || !is_exempt) {
            let Some(form) = matches(&context, admitted, hook, &attributes)? else { continue };
            hook.check_dry_run(&attributes)?;
            matched.push((hook, form));
        }
        if matched.is_empty() {
            return Ok(());
        }
        let replies = admitted.calls.ask(|| {
            let question = |(hook, form): &(&Arc<Webhook>, MatchedForm<'_>)| {
                let shown = ShownObjects::of(&context, admitted, &attributes, form)?;
                Ok(question(admitted, hook, &attributes, *form, &shown))
            };
            matched.iter().map(question).collect()
        })?;
        let mut verdict: Result<(), Status> = Ok(());
        for (index, ((hook, _), reply)) in matched.iter().zip(replies).enumerate() {
            let result = match admitted.calls.read(&reply) {
                Ok(answer) => answer.verdict.map(drop),
                Err(error) => apply_failure_policy(hook, &error).inspect(|()| {
                    admitted.calls.annotate_all(|| vec![audit::failed_open(hook, 0, index)]);
                }),
            };
            verdict = verdict.and(result);
        }
        verdict.map_err(Undecided::from)
    }
}
