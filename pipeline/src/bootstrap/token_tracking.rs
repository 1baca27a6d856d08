//! The ConfigMap with the day since which the server records the last use of tokens in Secrets. The legacy
//! token cleaner deletes no token before it was observed for long enough.

use super::server_identity;
use crate::pipeline::Pipeline;
use jiff::civil::Date;
use kstore_access::authn::legacy_token::day;
use kstore_api::resource::Resource;
use kstore_api::status::Status;
use serde_json::{Value, json};

const SINCE: &str = "since";

/// Creates the ConfigMap, or corrects a value that is not a day.
pub(super) async fn reconcile(pipeline: &Pipeline) -> Result<(), Status> {
    let wanted = tracking(&day(pipeline.nondet().clock.now()));
    server_identity::reconcile_with(pipeline, &wanted, |row, stored| changed(row, stored, &wanted)).await
}

fn tracking(since: &str) -> Value {
    let name = "kube-apiserver-legacy-service-account-token-tracking";
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": "kube-system" },
        "data": { SINCE: since } })
}

/// The corrected ConfigMap; `None` if it has a day.
fn changed(row: &'static Resource, stored: &Value, wanted: &Value) -> Option<Value> {
    let has_day = stored["data"][SINCE].as_str().is_some_and(|day| day.parse::<Date>().is_ok());
    (!has_day).then(|| server_identity::changed(row, stored, wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_api::kind;

    #[test]
    fn the_first_day_of_tracking_is_kept_unless_it_is_not_a_day() {
        let row = kind::lookup("", "v1", "configmaps").unwrap();
        let wanted = tracking("2026-01-01");
        assert_eq!(changed(row, &tracking("2025-03-04"), &wanted), None);
        for bad in ["", "yesterday", "2025-13-01"] {
            let corrected = changed(row, &tracking(bad), &wanted).unwrap();
            assert_eq!(corrected["data"], json!({ "since": "2026-01-01" }), "{bad}");
        }
        let mut empty = tracking("2025-03-04");
        empty["data"] = json!({ "other": "x" });
        assert!(changed(row, &empty, &wanted).is_some());
    }
}
