//! Defaults of pod certificate requests.
//!
//! Follows `SetDefaults_PodCertificateRequestSpec`.

use super::{default, make};
use serde_json::Value;

/// Longest lifetime of a certificate whose request names none, in seconds: a day.
const LONGEST: i64 = 86_400;

pub(crate) fn pod_certificate_request(object: &mut Value) {
    default(make(object, "spec"), "maxExpirationSeconds", LONGEST);
}
