//! Type of a review response, by the rules of Kubernetes' codec for `apiVersion` and `kind`.

use crate::go_json::{self, Struct};
use crate::group_version::split_api_version;
use serde_json::Value;

/// Go struct of the type metadata, as the codec's errors print it.
const TYPE_META: &str = "struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }";

/// Name of Kubernetes' scheme in errors: the source line that created it.
const SCHEME: &str = "k8s.io/apiserver/pkg/util/webhook/client.go:71";

/// Group and kind of a review.
#[derive(Clone, Copy, Debug)]
pub(in crate::admission) struct ReviewKind {
    /// API group.
    pub(in crate::admission) group: &'static str,
    /// Kind.
    pub(in crate::admission) kind: &'static str,
}

/// Decoded response: a review in the version of the request.
#[derive(Debug)]
pub(in crate::admission) struct DecodedReview {
    /// The whole response.
    pub(in crate::admission) value: Value,
    /// The response's `apiVersion` and `kind` in Go's form.
    pub(in crate::admission) stated_type: String,
}

/// Decodes a response as a review in the version of the request. Missing type members are assumed to be
/// right.
///
/// # Errors
/// The message of Kubernetes' codec.
pub(in crate::admission) fn decode(
    body: &[u8],
    expected: ReviewKind,
    version: &str,
) -> Result<DecodedReview, String> {
    let unreadable = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    let value = go_json::parse(body).map_err(unreadable)?;
    let meta = Struct::root(&value, "", TYPE_META).map_err(unreadable)?;
    let api_version = meta.text("apiVersion", "string").map_err(unreadable)?;
    let kind = meta.text("kind", "string").map_err(unreadable)?;
    if api_version.matches('/').count() > 1 {
        return Err(format!("unexpected GroupVersion string: {api_version}"));
    }
    let (stated_group, stated_version) = split_api_version(api_version);
    let stated_type = format!("{stated_group}/{stated_version}, Kind={kind}");
    let (group, found_version) = match (stated_group, stated_version) {
        ("", "") => (expected.group, version),
        (group, "") if group == expected.group => (group, version),
        stated => stated,
    };
    let kind = if kind.is_empty() { expected.kind } else { kind };
    let known = ["v1", "v1beta1"].contains(&found_version);
    match (group, kind) {
        (group, kind) if known && group == expected.group && kind == expected.kind => {
            if found_version == version {
                Ok(DecodedReview { stated_type, value })
            } else {
                Err(format!("converting ({found_version}.{kind}) to ({version}.{kind}): unknown conversion"))
            }
        }
        ("", "Status") if found_version == "v1" => {
            Err(format!("converting (v1.Status) to ({version}.{}): unknown conversion", expected.kind))
        }
        (group, kind) => {
            let slash = if group.is_empty() { "" } else { "/" };
            Err(format!(
                "no kind \"{kind}\" is registered for version \"{group}{slash}{found_version}\" in scheme \"{SCHEME}\""
            ))
        }
    }
}
