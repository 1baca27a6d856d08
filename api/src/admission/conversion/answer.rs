//! Decoding of a conversion webhook's response, with Kubernetes' messages.

use crate::admission::review::ReviewVersion;
use crate::admission::review::codec::{self, ReviewKind};
use crate::admission::review::transport::HttpAnswer;
use crate::go_json::Struct;
use crate::object::kind;
use crate::schema::scalar::json_kind;
use serde_json::Value;

/// API group of conversion reviews.
pub(super) const GROUP: &str = "apiextensions.k8s.io";
/// Kind of conversion reviews.
pub(super) const KIND: &str = "ConversionReview";

/// Decodes the converted objects of a response.
pub(super) fn read(version: ReviewVersion, uid: &str, answer: &HttpAnswer<'_>) -> Result<Vec<Value>, String> {
    let body = answer.success()?;
    let review = codec::decode(body, ReviewKind { group: GROUP, kind: KIND }, version.as_str())?;
    let root = Struct::root(&review.value, "ConversionReview", "v1.ConversionReview")?;
    let response = root.object("response", "ConversionResponse", "v1.ConversionResponse")?;
    let members = match &response {
        None => None,
        Some(response) => {
            let result = response.object("result", "Status", "v1.Status")?;
            let (status, message) = match &result {
                Some(result) => (result.text("status", "string")?, result.text("message", "string")?),
                None => ("", ""),
            };
            let objects = response.items("convertedObjects", "[]runtime.RawExtension")?;
            Some((response.text("uid", "types.UID")?, status, message, objects))
        }
    };
    let expected = "apiextensions.k8s.io/v1, Kind=ConversionReview";
    if version == ReviewVersion::V1 && review.stated_type != expected {
        return Err(format!("expected webhook response of {expected}, got {}", review.stated_type));
    }
    let Some((found, status, message, objects)) = members else {
        return Err("no response provided".to_owned());
    };
    if version == ReviewVersion::V1 && found != uid {
        return Err(format!("expected response.uid={uid:?}, got {found:?}"));
    }
    match (status, message) {
        ("Success", _) => Ok(objects.to_vec()),
        (status, "") => Err(format!("response.result.status was '{status}', not 'Success'")),
        (_, message) => Err(message.to_owned()),
    }
}

/// Checks that a converted object is a JSON object.
pub(super) fn object(value: Value) -> Result<Value, String> {
    match &value {
        Value::Null => Err("unexpected end of JSON input".to_owned()),
        Value::Object(_) if kind(&value).is_empty() => Err(format!("Object 'Kind' is missing in '{value}'")),
        Value::Object(_) => Ok(value),
        other => Err(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_kind(other)
        )),
    }
}
