//! Decisions while the file of the modes changes.

use super::webhook::{AuthorizationWebhook, AuthorizationWebhookOptions};
use super::{Attributes, Authorizer, Mode, ModeList, Modes, More, Target};
use crate::reloaded::Reloaded;
use kstore_nondet::Rng;
use kstore_registry::outbound::Remote;
use kstore_registry::outbound::test_server::{Reply, TestServer};
use kstore_registry::testing::MapLookup;
use kstore_registry::user::UserInfo;
use serde_json::json;
use std::sync::Arc;

/// Every call of the webhook replaces its mode by AlwaysDeny before it allows the request.
#[tokio::test]
async fn a_decision_ends_with_the_modes_that_it_began_with() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("modes");
    std::fs::write(&file, "Webhook").unwrap();
    let changed = file.clone();
    let server = TestServer::start(move |_| {
        std::fs::write(&changed, "AlwaysDeny").unwrap();
        let status = json!({"allowed": true});
        Reply::json(
            &json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "status": status}),
        )
    })
    .await;
    let remote = server.config();
    let make = move |contents: &[String], _: Option<&ModeList>| {
        let mode = if contents == ["Webhook"] {
            let remote = Remote::new(&remote).unwrap();
            let options = AuthorizationWebhookOptions::default();
            Mode::Webhook(Arc::new(AuthorizationWebhook::new(remote, options, &[], Rng::seeded(1)).unwrap()))
        } else {
            Mode::AlwaysDeny
        };
        Ok(ModeList::new([mode]))
    };
    let modes = Modes::following(Reloaded::new(vec![file], make).unwrap());
    let authorizer = Authorizer::of_modes(MapLookup::of([]), modes);
    let user = UserInfo::new("ann", [""; 0]);
    let attributes =
        Attributes { user: &user, verb: "get", target: Target::Path("/a"), more: More::default() };
    assert_eq!(authorizer.check(&attributes).await, Ok(()));
    assert_eq!(authorizer.check(&attributes).await.unwrap_err().code, 403);
    assert_eq!(server.count(), 1);
}
