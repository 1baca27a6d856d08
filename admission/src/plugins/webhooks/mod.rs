//! Admission webhooks: which ones match a request, what is sent to them, and what a failed call means. The calls are made
//! by [`Calls`](crate::dynamic::Calls); rules, reviews and texts are in `kstore_api::admission`.

pub(super) mod mutating;
pub(super) mod validating;

use crate::dynamic::form::ObjectForm;
use crate::dynamic::{Admitted, RequestContext, WebhookCall};
use kstore_api::admission::review::{self, CallError};
use kstore_api::admission::{Attributes, FailurePolicy, MatchedForm, Webhook};
use kstore_api::status::Status;
use kstore_registry::outbound::Call;
use kstore_registry::undecided::Undecided;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// The objects of a request as one webhook sees them.
struct ShownObjects<'a> {
    form: ObjectForm<'a>,
    object: Option<Cow<'a, Value>>,
    old: Option<Cow<'a, Value>>,
}

impl<'a> ShownObjects<'a> {
    /// Converts the objects of the attributes to the form that a webhook's rules matched.
    ///
    /// # Errors
    /// 500 if an object cannot be converted.
    fn of(
        context: &'a RequestContext,
        admitted: &Admitted<'_>,
        attributes: &Attributes<'a>,
        matched: &MatchedForm<'a>,
    ) -> Result<Self, Status> {
        let form = ObjectForm::of(&context.kinds, admitted.subject.resource, attributes, matched);
        let shown = |object: Option<&'a Value>| object.map(|object| form.shown(object)).transpose();
        let (object, old) = (shown(attributes.object)?, shown(attributes.old_object)?);
        Ok(Self { form, object, old })
    }
}

/// The form in which a webhook reviews a request; `None` if it does not.
///
/// # Errors
/// The webhook has an invalid selector; or a match condition fails to evaluate while none is false, under the failure
/// policy `Fail`; or pending.
fn matches<'a>(
    context: &'a RequestContext,
    admitted: &Admitted<'_>,
    hook: &Webhook,
    attributes: &Attributes<'a>,
) -> Result<Option<MatchedForm<'a>>, Undecided> {
    let Some(form) = hook.matches(attributes, &context.facts())? else { return Ok(None) };
    if !hook.has_conditions() {
        return Ok(Some(form));
    }
    let ShownObjects { object, old, .. } = ShownObjects::of(context, admitted, attributes, &form)?;
    let authorizer = admitted.calls.authorizer(admitted.subject.user);
    let matched =
        hook.conditions_match(attributes, form, object.as_deref(), old.as_deref(), Some(&authorizer));
    admitted.calls.check_access_answers()?;
    Ok(matched?.then_some(form))
}

/// A call to a webhook with the objects in the version that its rules name.
fn question(
    admitted: &Admitted<'_>,
    hook: &Arc<Webhook>,
    attributes: &Attributes<'_>,
    form: MatchedForm<'_>,
    shown: &ShownObjects<'_>,
) -> Result<WebhookCall, CallError> {
    let client = hook.client.clone();
    let client =
        client.ok_or_else(|| CallError::no_client(&hook.name, "it has neither a URL nor a service"))?;
    let uid = admitted.calls.uid();
    let (object, old) = (shown.object.as_deref(), shown.old.as_deref());
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
