//! Admission webhooks: which ones match a request, what is sent to them, and what a failed call means. The calls are made
//! by [`Calls`](crate::dynamic::Calls); rules, reviews and texts are in `kstore_api::admission`.

pub(super) mod mutating;
pub(super) mod validating;

use crate::dynamic::form::{other_version, shown};
use crate::dynamic::{Admitted, RequestContext, WebhookCall};
use crate::plugin::Configuration;
use kstore_api::admission::review::{self, CallError};
use kstore_api::admission::{Attributes, FailurePolicy, MatchedForm, Webhook};
use kstore_api::status::Status;
use kstore_registry::outbound::Call;
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// The webhook plugins' configuration, a kubeconfig with credentials for each webhook.
const NO_KUBECONFIG: Configuration = Configuration::Unsupported(
    "kubeConfigFile; webhooks are called without credentials other than those of their configuration",
);

/// Whether a webhook's match conditions are true for the request, in the version that its rules name.
///
/// # Errors
/// 403 if a condition fails to evaluate and none is false, under the failure policy `Fail`.
fn conditions_match(
    context: &RequestContext,
    admitted: &Admitted<'_>,
    hook: &Webhook,
    attributes: &Attributes<'_>,
    form: MatchedForm<'_>,
) -> Result<bool, Undecided> {
    if !hook.has_conditions() {
        return Ok(true);
    }
    let kinds = &context.kinds;
    let versions = (admitted.subject.resource, other_version(kinds, attributes, &form));
    let shown = |object| shown(kinds, object, versions, form.kind);
    let object = attributes.object.map(shown).transpose()?;
    let old = attributes.old_object.map(shown).transpose()?;
    let authorizer = admitted.calls.authorizer(admitted.subject.user);
    let matched =
        hook.conditions_match(attributes, form, object.as_deref(), old.as_deref(), Some(&authorizer));
    admitted.calls.check_access_answers()?;
    Ok(matched?)
}

/// A call to a webhook with the objects in the version that its rules name.
fn question(
    admitted: &Admitted<'_>,
    hook: &Arc<Webhook>,
    attributes: &Attributes<'_>,
    form: MatchedForm<'_>,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<WebhookCall, CallError> {
    let client = hook.client.clone();
    let client =
        client.ok_or_else(|| CallError::no_client(&hook.name, "it has neither a URL nor a service"))?;
    let uid = admitted.calls.uid();
    let body = review::encode_request(hook, attributes, form, &uid, object, old)?;
    let timeout = Duration::from_secs(hook.timeout_seconds.into());
    let operation = attributes.operation;
    Ok(WebhookCall { hook: hook.clone(), uid, operation, call: Call { client, timeout, body: body.into() } })
}

/// Applies the webhook's failure policy to a failed call: `Ignore` logs it.
///
/// # Errors
/// 500 under the failure policy `Fail`.
fn apply_failure_policy(hook: &Webhook, error: &CallError) -> Result<(), Status> {
    match hook.failure_policy {
        FailurePolicy::Fail => Err(error.status()),
        FailurePolicy::Ignore => {
            tracing::warn!(webhook = &*hook.name, %error, "a webhook failed and is ignored by its failure policy");
            Ok(())
        }
    }
}
