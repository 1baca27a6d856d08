//! Tests of the expiry of bootstrap tokens.

use super::plan::plan;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use std::time::Duration;

const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

#[test]
fn an_expired_token_is_deleted() {
    let table = [
        (None, 0, None),
        (Some(""), 0, None),
        (Some("2026-01-01T00:01:00Z"), 0, Some(60)),
        (Some("2026-01-01T00:00:00Z"), 1, None),
        (Some("2025-12-31T23:00:00+01:00"), 1, None),
        (Some("soon"), 1, None),
    ];
    for (expiration, deletions, wait) in table {
        let data = expiration.map(|text| ("expiration".to_owned(), ByteString(text.as_bytes().to_vec())));
        let secret = Secret { data: Some(data.into_iter().collect()), ..Secret::default() };
        let plan = plan(&secret, NOW);
        assert_eq!(plan.actions.len(), deletions, "{expiration:?}");
        assert_eq!(plan.wake, wait.map(Duration::from_secs), "{expiration:?}");
    }
}
