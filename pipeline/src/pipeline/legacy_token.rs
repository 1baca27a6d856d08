//! The label with the day on which a token of a Secret was last used. The server writes it at the first use of
//! a day, so that the legacy token cleaner finds tokens that are not used any more.

use super::Pipeline;
use kstore_access::authn::legacy_token::{LAST_USED, UsedSecret};
use kstore_access::authn::service_account::TokenAuthenticator;
use kstore_api::status::Status;
use kstore_registry::lookup::core;
use kstore_registry::provenance::Note;
use kstore_registry::registry::{Decision, WriteContext};
use kstore_registry::request::{Action, GetOptions, Target, own_request};
use kstore_storage::limits::TOKEN_USE_WRITE;
use serde_json::{Value, json};

impl Pipeline {
    /// Records the use of a token in the label of its Secret, unless the label has this day already. A failure
    /// is logged: it must not keep the caller from being authenticated.
    pub(super) async fn record_token_use(&self, tokens: &TokenAuthenticator, token: &str) {
        let used = tokens.unmarked_secret(token, &**self.cache(), self.nondet.clock.now());
        let Some(used) = used else { return };
        let labelled = tokio::time::timeout(TOKEN_USE_WRITE, self.label_secret(&used)).await;
        let error = match labelled {
            Ok(Ok(())) => return,
            Ok(Err(status)) => status.message,
            Err(late) => late.to_string(),
        };
        if let Some(suppressed) = tokens.may_warn() {
            let UsedSecret { namespace, name, .. } = &used;
            tracing::warn!(namespace, name, error, suppressed, "cannot record the use of a secret's token");
        }
    }

    async fn label_secret(&self, used: &UsedSecret) -> Result<(), Status> {
        let target = Target {
            resource: core("secrets"),
            custom: None,
            subresource: "",
            namespace: used.namespace.clone(),
            name: used.name.clone(),
        };
        let request = own_request(target, Action::Get(GetOptions::default()));
        let note = Note::of(&request, &self.nondet.clock).encode();
        let decide = |stored: Option<&Value>| {
            let Some(stored) = stored else {
                return Err(Status::not_found(request.target.resource, &used.name).into());
            };
            if stored["metadata"]["labels"][LAST_USED] == used.day.as_str() {
                return Ok(Decision::Keep);
            }
            let mut next = stored.clone();
            next["metadata"]["labels"][LAST_USED] = json!(used.day);
            Ok(Decision::Put(next))
        };
        let context = WriteContext { note, ..WriteContext::default() };
        self.registry.guaranteed_update(&request.target, context, false, decide).await.map(drop)
    }
}
