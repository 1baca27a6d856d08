//! Defaults of API services.
//!
//! Follows `SetDefaults_ServiceReference`.

use super::{default, make, member};
use serde_json::Value;

pub(crate) fn api_service(object: &mut Value) {
    if let Some(service) = member(make(object, "spec"), "service") {
        default(service, "port", 443);
    }
}
