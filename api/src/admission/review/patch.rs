//! JSON patch (RFC 6902) of a mutating webhook, for the object in the version that the webhook got.

use crate::admission::webhook::Webhook;
use crate::go_json;
use crate::patch::json;
use crate::schema::Type;
use crate::schema::decode::{Mode, normalize};
use crate::schema::scalar::json_kind;
use crate::status::Status;
use serde_json::Value;

/// JSON patch with at least one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch(Value);

impl Patch {
    /// Decodes a patch; `None` if it has no operations.
    ///
    /// # Errors
    /// The reason of a failed call.
    pub(super) fn read(bytes: &[u8], patch_type: &str) -> Result<Option<Self>, String> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let undecodable = |why: String| format!("received undecodable patch in webhook response: {why}");
        let value = go_json::parse(bytes).map_err(undecodable)?;
        let into = |value: &Value, go_type: &str| {
            undecodable(format!(
                "json: cannot unmarshal {} into Go value of type jsonpatch.{go_type}",
                json_kind(value)
            ))
        };
        let operations = match &value {
            Value::Null => return Ok(None),
            Value::Array(operations) => operations,
            other => return Err(into(other, "Patch")),
        };
        if let Some(other) =
            operations.iter().find(|operation| !operation.is_object() && !operation.is_null())
        {
            return Err(into(other, "Operation"));
        }
        if operations.is_empty() {
            return Ok(None);
        }
        if patch_type != "JSONPatch" {
            return Err(format!("unsupported patch type {patch_type:?}"));
        }
        Ok(Some(Self(value)))
    }

    /// The operations as JSON, for the audit log.
    #[must_use]
    pub fn operations(&self) -> &Value {
        &self.0
    }
}

/// Applies the patch of a webhook; the result is not decoded yet. `object` is the object that the webhook
/// got.
///
/// # Errors
/// 500: there is no object (a deletion), or an operation fails. The failure policy does not apply.
pub fn apply_patch(hook: &Webhook, patch: &Patch, object: Option<&Value>) -> Result<Value, Status> {
    let Some(object) = object else {
        return Err(Status::internal(format!(
            "admission webhook \"{}\" attempted to modify the object, which is not supported for this operation",
            hook.name
        )));
    };
    json::apply(object, &patch.0).map_err(Status::internal)
}

/// Decodes a patched object of a built-in kind: checks types and drops unknown members. The caller sets
/// defaults afterwards. Objects of custom kinds are pruned by their schema instead.
///
/// # Errors
/// 500 if a member has the wrong type.
pub fn decode_patched(mut patched: Value, ty: &'static Type) -> Result<Value, Status> {
    normalize(&mut patched, ty, Mode::Whole).map_err(Status::internal)?;
    Ok(patched)
}
