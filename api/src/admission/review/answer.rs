//! Decoding of a webhook's response: allowed or denied, warnings, audit annotations, and the patch of a
//! mutating webhook.

use super::codec::{self, ReviewKind};
use super::patch::Patch;
use super::transport::HttpAnswer;
use super::{CallError, ReviewVersion};
use crate::admission::webhook::{Phase, Webhook};
use crate::go_json::Struct;
use crate::limits::{AUDIT_VALUE_MAX, WARNINGS_MAX, WEBHOOK_AUDIT_ANNOTATIONS_MAX};
use crate::status::{Cause, Details, Status};
use std::sync::Arc;

const ADMISSION_REVIEW: ReviewKind = ReviewKind { group: "admission.k8s.io", kind: "AdmissionReview" };

/// Audit annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditAnnotation {
    /// Key.
    pub key: String,
    /// Value.
    pub value: String,
}

/// Decoded response. Warnings and annotations apply whether the request is allowed or not.
#[derive(Clone, Debug)]
pub struct DecodedResponse {
    /// Texts of `Warning` headers, as many as fit in a response.
    pub warnings: Vec<String>,
    /// Annotations with keys `<hook>/<key>`.
    pub audit_annotations: Vec<AuditAnnotation>,
    /// Decision of the webhook: the patch to apply, if any, or the refusal for the client.
    pub verdict: Result<Option<Patch>, Status>,
}

/// Decodes a webhook's response to the review with this `uid`.
///
/// # Errors
/// The response cannot be used; the webhook's failure policy decides about the request.
pub fn read_answer(hook: &Webhook, uid: &str, answer: &HttpAnswer<'_>) -> Result<DecodedResponse, CallError> {
    let version = hook.review_version.unwrap_or(ReviewVersion::V1);
    let failed = |why: String| CallError::no_answer(&hook.name, why);
    let code = if answer.is_success() { 503 } else { answer.status };
    let body = answer.success().map_err(|why| CallError { code, ..failed(why) })?;
    let review = codec::decode(body, ADMISSION_REVIEW, version.as_str()).map_err(failed)?;
    let root = Struct::root(&review.value, "AdmissionReview", "v1.AdmissionReview").map_err(failed)?;
    let response = Response::read(&root).map_err(failed)?;
    let response = response.ok_or_else(|| CallError::invalid(&hook.name, "webhook response was absent"))?;
    response
        .check(version, uid, &review.stated_type, hook.phase())
        .map_err(|why| CallError::invalid(&hook.name, why))?;
    response.judge(hook, version)
}

/// Members of `AdmissionResponse`.
struct Response<'v> {
    uid: &'v str,
    allowed: bool,
    status: Option<Denial>,
    patch: Vec<u8>,
    patch_type: Option<&'v str>,
    audit_annotations: Vec<(&'v str, &'v str)>,
    warnings: Vec<&'v str>,
}

/// Members of the response's `status`.
struct Denial {
    message: String,
    reason: String,
    code: i32,
    details: Option<Details>,
}

impl<'v> Response<'v> {
    fn read(review: &Struct<'v>) -> Result<Option<Self>, String> {
        let Some(response) = review.object("response", "AdmissionResponse", "v1.AdmissionResponse")? else {
            return Ok(None);
        };
        Ok(Some(Self {
            uid: response.text("uid", "types.UID")?,
            allowed: response.bool("allowed")?,
            status: response
                .object("status", "Status", "v1.Status")?
                .map(|status| Denial::read(&status))
                .transpose()?,
            patch: response.bytes("patch")?,
            patch_type: response.optional_text("patchType", "v1.PatchType")?,
            audit_annotations: response.text_map("auditAnnotations")?,
            warnings: response.texts("warnings")?,
        }))
    }

    /// Checks the rules of version v1; v1beta1 only demands that a response exists.
    fn check(
        &self,
        version: ReviewVersion,
        uid: &str,
        stated_type: &str,
        phase: Phase,
    ) -> Result<(), String> {
        if version == ReviewVersion::V1Beta1 {
            return Ok(());
        }
        if self.uid != uid {
            return Err(format!("expected response.uid={uid:?}, got {:?}", self.uid));
        }
        let expected = "admission.k8s.io/v1, Kind=AdmissionReview";
        if stated_type != expected {
            return Err(format!("expected webhook response of {expected}, got {stated_type}"));
        }
        let refused = match (phase, self.patch.is_empty(), self.patch_type) {
            (Phase::Mutating, false, None) => "webhook returned response.patch but not response.patchType",
            (Phase::Mutating, true, Some(_)) => "webhook returned response.patchType but not response.patch",
            (Phase::Mutating, false, Some("")) => "webhook returned invalid response.patchType of \"\"",
            (Phase::Validating, false, _) => "validating webhook may not return response.patch",
            (Phase::Validating, true, Some(_)) => "validating webhook may not return response.patchType",
            (Phase::Mutating | Phase::Validating, _, _) => return Ok(()),
        };
        Err(refused.to_owned())
    }

    fn judge(self, hook: &Webhook, version: ReviewVersion) -> Result<DecodedResponse, CallError> {
        let warnings = self.warnings.iter().take(WARNINGS_MAX).map(|text| (*text).to_owned()).collect();
        let annotations = self.audit_annotations.iter().take(WEBHOOK_AUDIT_ANNOTATIONS_MAX);
        let audit_annotations = annotations
            .map(|(key, value)| AuditAnnotation {
                key: format!("{}/{key}", hook.name),
                value: beginning(value, AUDIT_VALUE_MAX).to_owned(),
            })
            .collect();
        let verdict = match (self.allowed, hook.phase()) {
            (false, _) => Err(refusal(&hook.name, self.status)),
            (true, Phase::Validating) => Ok(None),
            (true, Phase::Mutating) => {
                let patch_type = if version == ReviewVersion::V1Beta1 {
                    "JSONPatch"
                } else {
                    self.patch_type.unwrap_or_default()
                };
                let patch = Patch::read(&self.patch, patch_type);
                Ok(patch.map_err(|reason| CallError { webhook: hook.name.clone(), reason, code: 503 })?)
            }
        };
        Ok(DecodedResponse { warnings, audit_annotations, verdict })
    }
}

/// The longest prefix of a text within `max` bytes that ends at a character boundary.
fn beginning(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

impl Denial {
    fn read(status: &Struct<'_>) -> Result<Self, String> {
        Ok(Self {
            message: status.text("message", "string")?.to_owned(),
            reason: status.text("reason", "v1.StatusReason")?.to_owned(),
            code: status.int("code")?,
            details: status
                .object("details", "StatusDetails", "v1.StatusDetails")?
                .map(|d| details(&d))
                .transpose()?,
        })
    }
}

fn details(details: &Struct<'_>) -> Result<Details, String> {
    let causes = details.items("causes", "[]v1.StatusCause")?.iter().map(|item| {
        let cause = details.item("causes", item, "StatusCause", "v1.StatusCause")?;
        Ok(Cause {
            reason: cause.text("reason", "v1.CauseType")?.to_owned(),
            message: cause.text("message", "string")?.to_owned(),
            field: cause.text("field", "string")?.to_owned(),
        })
    });
    Ok(Details {
        name: details.text("name", "string")?.to_owned(),
        group: details.text("group", "string")?.to_owned(),
        kind: details.text("kind", "string")?.to_owned(),
        uid: details.text("uid", "types.UID")?.to_owned(),
        causes: causes.collect::<Result<_, String>>()?,
        retry_after_seconds: u32::try_from(details.int("retryAfterSeconds")?).unwrap_or_default(),
    })
}

/// Highest code of an HTTP status line.
const HTTP_CODE_MAX: u16 = 999;

/// Refusal for the client whose request a webhook denied. Codes below 400 would signal success and are
/// replaced.
fn refusal(hook: &Arc<str>, denial: Option<Denial>) -> Status {
    let denial = denial.unwrap_or_else(|| Denial {
        message: String::new(),
        reason: String::new(),
        code: 0,
        details: None,
    });
    let denied = format!("admission webhook \"{hook}\" denied the request");
    let message = match (denial.message.as_str(), denial.reason.as_str()) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = u16::try_from(denial.code.max(400)).unwrap_or(HTTP_CODE_MAX).min(HTTP_CODE_MAX);
    let mut status = Status::foreign(code, denial.reason, message);
    status.details = denial.details.map(Box::new);
    status
}
