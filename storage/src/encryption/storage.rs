//! [`EncryptedStorage`]: a storage that encrypts what it writes to another one, and decrypts what it reads.
//! Resources that the configuration does not name pass unchanged, with the same shared bytes.

use super::live::Encryption;
use super::open_error::OpenError;
use super::transformer::{OpenFailure, Opened, Providers, Transformers};
use crate::storage::{
    Commit, CommitError, Layer, Outcome, Page, Raw, RawBatch, RawWatch, ReadError, SharedStorage, Storage,
    Write,
};
use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use std::sync::Arc;

/// Encrypts and decrypts in front of another storage. A value that cannot be decrypted stays as it is stored,
/// with the reason in [`Raw::undecrypted`].
pub struct EncryptedStorage {
    inner: SharedStorage,
    encryption: Arc<Encryption>,
}

impl EncryptedStorage {
    pub(super) fn new(inner: SharedStorage, encryption: Arc<Encryption>) -> Self {
        Self { inner, encryption }
    }
}

impl Encryption {
    /// The plaintext of a value that is stored under a key of the apiserver, such as `/registry/secrets/a/b`, outside of any storage. A
    /// value of a resource that the configuration does not name is returned as it is.
    /// Boxed here, so that no crate above generates the code again.
    ///
    /// # Errors
    /// Why it cannot be decrypted.
    pub fn decrypt<'a>(&'a self, key: &'a str, stored: Bytes) -> BoxFuture<'a, Result<Bytes, String>> {
        Box::pin(async move {
            let transformers = self.transformers();
            let Some(providers) = transformers.of_key(key) else { return Ok(stored) };
            let opened = self.opened(providers, &stored, key).await;
            opened.map(|opened| opened.plain).map_err(|error| error.to_string())
        })
    }

    /// Decrypts a value, or records why it cannot be decrypted. A key management service is called only for a
    /// seed that it has not decrypted yet.
    async fn open_value(&self, transformers: &Transformers, raw: &mut Raw) {
        let Ok(key) = std::str::from_utf8(&raw.key) else { return };
        let Some(providers) = transformers.of_key(key) else { return };
        match self.opened(providers, &raw.value, key).await {
            Ok(opened) => raw.value = opened.plain,
            Err(error) => {
                self.record_failure();
                raw.undecrypted = Some(error.to_string().into());
            }
        }
    }

    async fn opened(&self, providers: &Providers, stored: &Bytes, key: &str) -> Result<Opened, OpenError> {
        let key = self.stored_key(key);
        match providers.open(stored, &key) {
            Ok(opened) => Ok(opened),
            Err(OpenFailure::Error(error)) => Err(error),
            Err(OpenFailure::NeedsSeed(service, seed)) => {
                service.fetch(&seed).await?;
                providers.open(stored, &key).map_err(|failure| match failure {
                    OpenFailure::Error(error) => error,
                    OpenFailure::NeedsSeed(..) => {
                        OpenError::Envelope("more seeds are in use than are kept".to_owned())
                    }
                })
            }
        }
    }

    /// Encrypts the values that a commit writes.
    fn seal_commit(&self, transformers: &Transformers, commit: &mut Commit) -> Result<(), CommitError> {
        for write in &mut commit.writes {
            if let Write::Put { key, value, .. } = write
                && let Some(providers) = transformers.of_key(key)
            {
                let sealed = providers.seal(value, &self.stored_key(key), &self.rng);
                *value = sealed.map_err(|error| CommitError::Failed(error.to_string()))?;
            }
        }
        Ok(())
    }

    /// Decrypts the values that a commit met.
    async fn open_outcome(&self, transformers: &Transformers, outcome: &mut Outcome) {
        if let Outcome::Lost { current } = outcome {
            for raw in current.iter_mut().flatten() {
                self.open_value(transformers, raw).await;
            }
        }
    }

    async fn open_batch(&self, batch: &mut RawBatch) {
        let transformers = self.transformers();
        for event in &mut batch.events {
            for raw in event.current.iter_mut().chain(&mut event.previous) {
                self.open_value(&transformers, raw).await;
            }
        }
    }
}

#[async_trait]
impl Layer for EncryptedStorage {
    fn inner(&self) -> &dyn Storage {
        &*self.inner
    }

    async fn get(&self, key: &str, revision: i64) -> Result<Option<Raw>, ReadError> {
        let mut found = self.inner.get(key, revision).await?;
        if let Some(raw) = &mut found {
            self.encryption.open_value(&self.encryption.transformers(), raw).await;
        }
        Ok(found)
    }

    async fn list(&self, start: &str, end: &str, limit: i64, revision: i64) -> Result<Page, ReadError> {
        let mut page = self.inner.list(start, end, limit, revision).await?;
        let transformers = self.encryption.transformers();
        for raw in &mut page.items {
            self.encryption.open_value(&transformers, raw).await;
        }
        Ok(page)
    }

    async fn commit(&self, mut commit: Commit) -> Result<Outcome, CommitError> {
        let transformers = self.encryption.transformers();
        self.encryption.seal_commit(&transformers, &mut commit)?;
        let mut outcome = self.inner.commit(commit).await?;
        self.encryption.open_outcome(&transformers, &mut outcome).await;
        Ok(outcome)
    }

    /// All of them are refused if a value of one cannot be encrypted: the next would fail in the same way.
    async fn commit_each(&self, mut commits: Vec<Commit>) -> Vec<Result<Outcome, CommitError>> {
        let transformers = self.encryption.transformers();
        let mut sealed = commits.iter_mut().map(|commit| self.encryption.seal_commit(&transformers, commit));
        if let Err(error) = sealed.try_for_each(|sealed| sealed) {
            return vec![Err(error); commits.len()];
        }
        let mut outcomes = self.inner.commit_each(commits).await;
        for outcome in outcomes.iter_mut().flatten() {
            self.encryption.open_outcome(&transformers, outcome).await;
        }
        outcomes
    }

    async fn watch(&self, prefix: &str, after: i64) -> Result<Box<dyn RawWatch>, ReadError> {
        let generation = self.encryption.generation();
        let inner = self.inner.watch(prefix, after).await?;
        let (encryption, is_complete) = (self.encryption.clone(), prefix.is_empty());
        Ok(Box::new(DecryptedWatch { inner, encryption, is_complete, generation, revision: after }))
    }

    async fn is_stale(&self, key: &str) -> Result<bool, ReadError> {
        let transformers = self.encryption.transformers();
        let Some(providers) = transformers.of_key(key) else { return Ok(false) };
        let Some(raw) = self.inner.get(key, 0).await? else { return Ok(false) };
        let opened = self.encryption.opened(providers, &raw.value, key).await;
        Ok(opened.is_ok_and(|opened| opened.stale))
    }

    fn has_healthy_keys(&self) -> Option<bool> {
        self.encryption.has_healthy_keys()
    }
}

/// A watch whose values are decrypted.
struct DecryptedWatch {
    inner: Box<dyn RawWatch>,
    encryption: Arc<Encryption>,
    /// Whether it watches all keys, as the watch cache does.
    is_complete: bool,
    generation: u64,
    /// The revision up to which batches were delivered.
    revision: i64,
}

#[async_trait]
impl RawWatch for DecryptedWatch {
    /// The next batch. After the configuration changed, a watch of all keys ends with `Compacted` if values
    /// could not be decrypted before: the watch cache then reads everything again.
    async fn next(&mut self) -> Option<Result<RawBatch, ReadError>> {
        loop {
            let next = tokio::select! {
                biased;
                () = self.encryption.changed_since(self.generation), if self.is_complete => None,
                next = self.inner.next() => Some(next),
            };
            let Some(next) = next else {
                self.generation = self.encryption.generation();
                if self.encryption.take_failure() {
                    return Some(Err(ReadError::Compacted { oldest: self.revision + 1 }));
                }
                continue;
            };
            let mut next = next?;
            if let Ok(batch) = &mut next {
                self.revision = batch.revision;
                self.encryption.open_batch(batch).await;
            }
            return Some(next);
        }
    }
}
