//! Encoding of `AdmissionReview` requests.

use super::{CallError, ReviewVersion};
use crate::admission::attributes::{Attributes, GroupVersionKind, GroupVersionResource, UserInfo};
use crate::admission::selection::MatchedForm;
use crate::admission::webhook::Webhook;
use serde::Serialize;
use serde_json::Value;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Review<'a> {
    kind: &'static str,
    api_version: &'static str,
    request: Request<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    uid: &'a str,
    kind: GroupVersionKind<'a>,
    resource: GroupVersionResource<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    sub_resource: &'a str,
    request_kind: GroupVersionKind<'a>,
    request_resource: GroupVersionResource<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    request_sub_resource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'a str,
    operation: &'static str,
    user_info: UserInfo<'a>,
    object: Option<&'a Value>,
    old_object: Option<&'a Value>,
    dry_run: bool,
    options: Option<&'a Value>,
}

/// Body of the POST to a webhook. `uid` must be unique to the call; the response must repeat it. `object` and
/// `old_object` have the version of `form`.
///
/// # Errors
/// The webhook supports no review version of this server.
pub fn encode_request(
    hook: &Webhook,
    attributes: &Attributes<'_>,
    form: MatchedForm<'_>,
    uid: &str,
    object: Option<&Value>,
    old_object: Option<&Value>,
) -> Result<Vec<u8>, CallError> {
    let api_version = match hook.review_version {
        Some(ReviewVersion::V1) => "admission.k8s.io/v1",
        Some(ReviewVersion::V1Beta1) => "admission.k8s.io/v1beta1",
        None => {
            let cause = "webhook does not accept known AdmissionReview versions (v1, v1beta1)";
            return Err(CallError::no_request(&hook.name, cause));
        }
    };
    let request = Request { object, old_object, ..describe(attributes, form, uid) };
    let review = Review { kind: "AdmissionReview", api_version, request };
    Ok(crate::json::to_vec(&review))
}

/// The request without its objects, as expressions see it.
pub(in crate::admission) fn request_value(attributes: &Attributes<'_>, form: MatchedForm<'_>) -> Value {
    serde_json::to_value(describe(attributes, form, "")).expect("a request has string keys only")
}

fn describe<'a>(attributes: &Attributes<'a>, form: MatchedForm<'a>, uid: &'a str) -> Request<'a> {
    Request {
        uid,
        kind: form.kind,
        resource: form.resource,
        sub_resource: attributes.subresource,
        request_kind: attributes.kind,
        request_resource: attributes.resource,
        request_sub_resource: attributes.subresource,
        name: attributes.name,
        namespace: attributes.namespace,
        operation: attributes.operation.as_str(),
        user_info: attributes.user,
        object: None,
        old_object: None,
        dry_run: attributes.dry_run,
        options: attributes.options,
    }
}
