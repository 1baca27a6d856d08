//! [`KmsProvider`]: one configured service, the seed for writes and the decrypted seeds for reads.

use super::KmsConfig;
use super::envelope::{Envelope, SEED, SealedSeed, shown_key_id};
use super::service::Service;
use super::write_key::{StatusStep, WRITE_TIME, WriteKey, accept, judge_status};
use crate::encryption::key::Key;
use crate::encryption::open_error::OpenError;
use crate::encryption::seal_error::SealError;
use crate::limits::{KMS_CHECK, KMS_CHECK_FAILED, KMS_RETRY, KMS_SEEDS};
use kstore_nondet::Rng;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use tokio::sync::Notify;
use tokio::time::Instant;
use tonic::{Code, Status};

/// Most checks between two attempts to read values again whose seed the service could not decrypt.
const MOST_CHECKS: u32 = 64;

/// A service and its seeds. Shared by `Arc`.
pub(crate) struct KmsProvider {
    name: String,
    /// The beginning of all values of this provider.
    pub(in crate::encryption) prefix: String,
    service: Service,
    rng: Rng,
    state: Mutex<ProviderState>,
    /// Asks for a check before its time.
    wake: Notify,
}

#[derive(Default)]
struct ProviderState {
    write: Option<WriteKey>,
    seeds: Seeds,
    /// The interface's version in the first right status.
    version: String,
    /// Time and result of the last check.
    checked: Option<(Instant, Result<(), String>)>,
    /// The last call that failed because the service did not answer.
    unanswered: Option<(Instant, Status)>,
    retries: Retries,
}

/// Decrypted seeds by the fingerprints of the encrypted ones. Beyond [`KMS_SEEDS`] the oldest are dropped.
#[derive(Default)]
struct Seeds {
    keys: BTreeMap<[u8; 32], Key>,
    order: VecDeque<[u8; 32]>,
}

impl Seeds {
    fn insert(&mut self, fingerprint: [u8; 32], key: Key) {
        if self.keys.insert(fingerprint, key).is_none() {
            self.order.push_back(fingerprint);
        }
        if self.order.len() > KMS_SEEDS
            && let Some(oldest) = self.order.pop_front()
        {
            self.keys.remove(&oldest);
        }
    }
}

/// When values that could not be decrypted are read again: after 1, 2, 4, … successful checks.
#[derive(Default)]
struct Retries {
    /// Whether a seed could not be decrypted since the last retry.
    has_failed: bool,
    wait: u32,
    passed: u32,
}

impl Retries {
    /// Counts a successful check; returns whether to read again now.
    fn is_due(&mut self) -> bool {
        if !self.has_failed {
            (self.wait, self.passed) = (0, 0);
            return false;
        }
        self.passed += 1;
        if self.passed < self.wait {
            return false;
        }
        self.wait = (self.wait * 2).clamp(1, MOST_CHECKS);
        (self.passed, self.has_failed) = (0, false);
        true
    }
}

impl std::fmt::Debug for KmsProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KmsProvider").field("name", &self.name).finish_non_exhaustive()
    }
}

impl KmsProvider {
    /// A provider that has not been checked. Must be called inside a tokio runtime.
    pub(in crate::encryption) fn new(config: &KmsConfig, rng: &Rng) -> Self {
        Self {
            name: config.name.clone(),
            prefix: format!("k8s:enc:kms:v2:{}:", config.name),
            service: Service::new(config, rng.fork("kms-calls")),
            rng: rng.fork("kms-seeds"),
            state: Mutex::default(),
            wake: Notify::new(),
        }
    }

    /// Appends the encrypted value to the provider's prefix.
    pub(in crate::encryption) fn seal(
        &self,
        plain: &[u8],
        storage_key: &[u8],
        rng: &Rng,
    ) -> Result<Vec<u8>, SealError> {
        let write = self.state.lock().write.clone().ok_or(SealError::NoSeed)?;
        if Instant::now() > write.expires {
            return Err(SealError::Expired(shown_key_id(&write.sealed.key_id)));
        }
        let body = write.sealed.seal(&write.seed, plain, storage_key, rng);
        Ok([self.prefix.as_bytes(), &body].concat())
    }

    /// Decrypts a value behind the provider's prefix. Returns whether another key than the service's current
    /// one encrypted its seed. `Ok(Err(seed))`: the service must decrypt this seed first.
    pub(in crate::encryption) fn open(
        &self,
        stored: &[u8],
        storage_key: &[u8],
    ) -> Result<Result<(Vec<u8>, bool), SealedSeed>, OpenError> {
        let envelope = Envelope::decode(stored)?;
        let (source, is_stale) = {
            let state = self.state.lock();
            let source = state.seeds.keys.get(&envelope.sealed.fingerprint()).cloned();
            let current = state.write.as_ref().map(|write| &write.sealed);
            let is_current = |current: &SealedSeed| {
                current.key_id == envelope.sealed.key_id && current.kind == envelope.sealed.kind
            };
            (source, current.is_some_and(|current| !is_current(current)))
        };
        match source {
            None => Ok(Err(envelope.sealed)),
            Some(source) => Ok(Ok((envelope.open(&source, storage_key)?, is_stale))),
        }
    }

    /// Has the service decrypt a seed, for later calls of [`Self::open`].
    pub(in crate::encryption) async fn fetch(&self, sealed: &SealedSeed) -> Result<(), OpenError> {
        let recent = self.state.lock().unanswered.clone();
        let answer = match recent.filter(|(when, _)| when.elapsed() < KMS_RETRY) {
            // Many values may wait for a service that is down: they do not wait one after the other.
            Some((_, status)) => Err(status),
            None => self.decrypted(sealed).await,
        };
        let mut state = self.state.lock();
        match answer {
            Ok(key) => {
                state.seeds.insert(sealed.fingerprint(), key);
                Ok(())
            }
            Err(status) => {
                state.retries.has_failed = true;
                Err(OpenError::Envelope(format!("failed to decrypt DEK, error: {}", shown(&status))))
            }
        }
    }

    async fn decrypted(&self, sealed: &SealedSeed) -> Result<Key, Status> {
        let answer = self.service.decrypt(sealed).await;
        let is_unanswered =
            |status: &Status| matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded);
        let unanswered = answer.as_ref().err().filter(|status| is_unanswered(status));
        self.state.lock().unanswered = unanswered.map(|status| (Instant::now(), status.clone()));
        answer.map(|source| Key::new(source.to_vec()))
    }

    /// Asks the service for its status, and replaces or extends the seed for writes. Returns whether values
    /// that could not be decrypted should be read again.
    pub(in crate::encryption) async fn check(&self) -> bool {
        let result = self.checked_status().await;
        if let Err(error) = &result {
            tracing::error!(name = self.name, "kms plugin failed health check probe: {error}");
        }
        let mut state = self.state.lock();
        let is_due = result.is_ok() && state.retries.is_due();
        state.checked = Some((Instant::now(), result));
        is_due
    }

    async fn checked_status(&self) -> Result<(), String> {
        let status = self.service.status().await.map_err(|status| {
            let (name, status) = (&self.name, shown(&status));
            format!("failed to perform status section of the healthz check for KMS Provider {name}, error: {status}")
        })?;
        // The time runs from before the call: it bounds how long an old key is used.
        let expires = Instant::now() + WRITE_TIME;
        let (step, mut errors) = {
            let mut state = self.state.lock();
            let ProviderState { version, write, .. } = &mut *state;
            judge_status(&status, version, write.as_ref())
        };
        match step {
            None => {}
            Some(StatusStep::Extend) => {
                if let Some(write) = &mut self.state.lock().write {
                    write.expires = expires;
                }
            }
            Some(StatusStep::Replace) => {
                if let Err(reason) = self.replace(&status.key_id, expires).await {
                    errors.push(format!("failed to rotate DEK: {reason}"));
                }
            }
        }
        if errors.is_empty() {
            return Ok(());
        }
        let errors = if errors.len() == 1 { errors.remove(0) } else { format!("[{}]", errors.join(", ")) };
        Err(format!("kmsv2 Provider {} is not healthy, error: {errors}", self.name))
    }

    async fn replace(&self, key_id: &str, expires: Instant) -> Result<(), String> {
        let mut seed = vec![0; SEED];
        self.rng.fill_secret(&mut seed);
        let answer = self.service.encrypt(seed.clone().into()).await;
        let answer = answer.map_err(|status| format!("failed to encrypt DEK, error: {}", shown(&status)))?;
        let write = accept(Key::new(seed), answer, key_id, expires)?;
        tracing::info!(name = self.name, key = shown_key_id(key_id), "a new seed encrypts values");
        let mut state = self.state.lock();
        state.seeds.insert(write.sealed.fingerprint(), write.seed.clone());
        state.write = Some(write);
        Ok(())
    }

    /// Whether the last check succeeded. If it is old, has another one made.
    pub(in crate::encryption) fn is_healthy(&self) -> bool {
        let state = self.state.lock();
        let Some((when, result)) = &state.checked else { return false };
        let age = if result.is_ok() { crate::limits::KMS_HEALTH } else { crate::limits::KMS_HEALTH_FAILED };
        if when.elapsed() > age {
            self.wake.notify_one();
        }
        result.is_ok()
    }

    /// Checks the service at intervals; `again` has values read again. Never returns.
    pub(in crate::encryption) async fn keep_checking(&self, again: impl Fn()) {
        loop {
            let pause = if self.last_succeeded() { KMS_CHECK } else { KMS_CHECK_FAILED };
            tokio::select! {
                biased;
                () = self.wake.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
            if self.check().await {
                again();
            }
        }
    }

    fn last_succeeded(&self) -> bool {
        self.state.lock().checked.as_ref().is_some_and(|(_, result)| result.is_ok())
    }

    /// Why the last check failed.
    pub(in crate::encryption) fn last_error(&self) -> Option<String> {
        let state = self.state.lock();
        state.checked.as_ref().and_then(|(_, result)| result.as_ref().err().cloned())
    }
}

/// A failed call, as Go's gRPC shows it.
fn shown(status: &Status) -> String {
    format!("rpc error: code = {:?} desc = {}", status.code(), status.message())
}
