//! Polling of referenced Secrets, one by one. Permission to watch Secrets is permission to read all of them,
//! and a node needs only those of its pods. A Secret is polled often while a pod waits for it, otherwise as
//! rarely as a kubelet's cache does. Decides nothing.

use super::follow::Report;
use crate::limits::{SECRET_REFRESH, SECRET_RETRY_BASE, SECRET_RETRY_MAX};
use crate::pod_object::source::{SourceKey, SourceState};
use crate::stream::Latest;
use k8s_openapi::api::core::v1::Secret;
use kstore_client::{ApiError, Client};
use kstore_nondet::{Backoff, Rng};
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};

/// The polling rate of a Secret. Each change of it polls at once.
pub(super) struct Pace(Latest<bool>);

impl Pace {
    /// A rate for a Secret that no pod waits for.
    pub(super) fn new() -> Self {
        Self(Latest::new(false))
    }

    /// Sets whether a pod waits for the Secret.
    pub(super) fn set_awaited(&self, is_awaited: bool) {
        if *self.0.get().1 != is_awaited {
            self.0.set(is_awaited);
        }
    }

    /// Polls the Secret now.
    pub(super) fn refresh(&self) {
        let (_, is_awaited) = self.0.get();
        self.0.set(*is_awaited);
    }
}

/// Polls one Secret.
pub(super) struct SecretPoll {
    pub(super) client: Client,
    pub(super) key: SourceKey,
    pub(super) pace: Arc<Pace>,
    /// Bounds the concurrent reads of Secrets.
    pub(super) gets: Arc<Semaphore>,
    pub(super) rng: Rng,
    pub(super) reports: mpsc::Sender<Report>,
}

impl SecretPoll {
    /// Reports the Secret's state repeatedly until the receiver is dropped.
    pub(super) async fn run(self) {
        let mut retries = Backoff::doubling(SECRET_RETRY_BASE, SECRET_RETRY_MAX).waits();
        loop {
            let (seen, is_awaited) = self.pace.0.get();
            let fetched = {
                let _permit = self.gets.acquire().await;
                self.get().await
            };
            let is_answered = fetched.is_ok();
            match fetched {
                Ok(state) => {
                    if self.reports.send(Report::state(&self.key, state)).await.is_err() {
                        return;
                    }
                }
                Err(error) => tracing::debug!(secret = ?self.key, %error, "a Secret could not be read"),
            }
            let wait = if *is_awaited || !is_answered { retries.advance() } else { SECRET_REFRESH };
            // With jitter, so that Secrets that were first read together do not stay synchronized.
            let wait = self.rng.scaled(wait, 0.75..1.0);
            tokio::select! {
                biased;
                _ = self.pace.0.after(seen) => retries.reset(),
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    async fn get(&self) -> Result<SourceState, ApiError> {
        let SourceKey { namespace, name, .. } = &self.key;
        match self.client.api::<Secret>().get(namespace, name).await {
            Ok(secret) => Ok(SourceState::Present(secret.data.unwrap_or_default().into_keys().collect())),
            Err(error) if error.is_not_found() => Ok(SourceState::Missing),
            Err(error) => Err(error),
        }
    }
}
