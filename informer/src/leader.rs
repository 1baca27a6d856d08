//! [`Elector`]: of several candidates, at most one works. Knows a lease as a record with a revision; where it is stored is a
//! [`LeaseStore`]. Speaks the protocol of Kubernetes' own components, so that candidates of both kinds can share a lease.
//!
//! Clocks of other machines are never compared: a lease has run out when *our* clock has moved by its duration since *we*
//! saw the record change. `leader/candidate` holds the rules; this file does the waiting. What no clock can promise, that
//! nothing of an old leader is on its way any more, the [`Fence`] does; also when somebody deletes the lease by hand, after
//! which another candidate may begin at once.

mod candidate;
mod election;
mod fence;
mod lease;
mod options;
#[cfg(test)]
mod tests;
mod watchdog;

use std::{fmt, future::Future, pin::pin, time::Duration};

use jiff::Timestamp;
use kstore_nondet::Nondet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::{Environment, Revision, limits::RELEASE_TRIES, metrics::Registry};
use candidate::{Candidate, Move};
pub use election::Election;
pub use fence::Fence;
use lease::micros;
pub use lease::{LeaseError, LeaseRecord, LeaseStore};
pub use options::{ElectorOptions, OptionsError};
use watchdog::Watch;
pub use watchdog::Watchdog;

/// One term of leadership of this candidate.
#[derive(Clone, Debug)]
pub struct Leadership {
    lost: CancellationToken,
    fence: Fence,
}

impl Leadership {
    /// Cancelled when the lease is lost or the elector stops. Work must then end within [`ElectorOptions::grace`]; what has
    /// not is dropped. Tasks that the work has spawned are its own to end: they are not dropped with it.
    pub fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Names this term. A store that is told with each write can refuse the late ones of a leader that was deposed; no two
    /// terms have the same.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }
}

/// A candidate for one lease.
pub struct Elector<S> {
    store: S,
    options: ElectorOptions,
    candidate: Candidate,
    election: Election,
    watchdog: Option<Watchdog>,
    nondet: Nondet,
}

impl<S: fmt::Debug> fmt::Debug for Elector<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elector").field("store", &self.store).finish_non_exhaustive()
    }
}

/// What an attempt to hold the lease led to.
enum Attempt {
    Held,
    /// Someone else holds it.
    Waiting,
    /// We held it, and do not any more.
    Lost,
}

impl<S: LeaseStore> Elector<S> {
    /// A candidate with the usual durations that calls itself `identity`, which no other candidate may do.
    ///
    /// # Panics
    /// When the identity is empty: that means "nobody".
    pub fn new(store: S, identity: &str, environment: impl Into<Environment>) -> Self {
        Self::with(store, ElectorOptions::new(identity), environment)
            .expect("the usual durations fit; an empty identity means that nobody leads")
    }

    /// A candidate with these options.
    ///
    /// # Errors
    /// When they do not fit together.
    pub fn with(
        store: S,
        mut options: ElectorOptions,
        environment: impl Into<Environment>,
    ) -> Result<Self, OptionsError> {
        options.check()?;
        if options.name.is_empty() {
            store.name().clone_into(&mut options.name);
        }
        Ok(Self::unchecked(store, options, &environment.into().into_nondet()))
    }

    fn unchecked(store: S, options: ElectorOptions, nondet: &Nondet) -> Self {
        let nondet = Nondet { clock: nondet.clock, rng: nondet.rng.fork(&options.identity) };
        let candidate = Candidate::new(&options);
        Self { store, candidate, election: Election::new(&options), watchdog: None, nondet, options }
    }

    /// Calls `told` with each new leader that this candidate hears of, itself included. It is called between two requests
    /// and must not block.
    #[must_use]
    pub fn on_new_leader(self, told: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.election.on_new_leader(told);
        self
    }

    /// Adds a watchdog for work that blocks its executor, where no deadline of this crate can reach it.
    #[must_use]
    pub fn watchdog(self, watchdog: Watchdog) -> Self {
        Self { watchdog: Some(watchdog), ..self }
    }

    /// Puts whether this candidate leads on the page of `registry`, as long as the elector or an [`Election`] of it exists.
    #[must_use]
    pub fn metrics(self, registry: &Registry) -> Self {
        self.election.metrics(registry);
        self
    }

    /// What this candidate knows of the election, to be read from anywhere.
    pub fn election(&self) -> Election {
        self.election.clone()
    }

    /// Does `work` whenever this candidate leads, until `work` ends by itself or `stop` is cancelled; gives the lease up
    /// then, after the work has ended. Work that lost the lease is told by [`Leadership::lost`], dropped after a grace that
    /// ends before the lease does, and begins anew when the candidate leads again.
    ///
    /// The work must not block its thread: renewing, and dropping it, happen on the same task (see [`Watchdog`]). Informers may
    /// run before it, so that a candidate which begins to lead has warm caches; queues belong into the work.
    pub async fn run<F, Fut>(mut self, stop: CancellationToken, work: F)
    where
        F: Fn(Leadership) -> Fut + Send,
        Fut: Future<Output = ()> + Send,
    {
        while let Some(fence) = stop.run_until_cancelled(self.acquire()).await {
            tracing::info!(name = self.options.name, identity = self.options.identity, %fence, "became leader");
            let leadership = Leadership { lost: stop.child_token(), fence };
            let leading = self.election.lead();
            let finished = self.lead(leadership.clone(), work(leadership)).await;
            drop(leading);
            if finished || stop.is_cancelled() {
                break;
            }
            tracing::warn!(name = self.options.name, identity = self.options.identity, "lost leadership");
            self.candidate.resign();
        }
        self.release().await;
    }

    /// Tries until the lease is ours; gives back the fence of the term that begins.
    async fn acquire(&mut self) -> Fence {
        loop {
            match self.attempt().await {
                Ok(Attempt::Held) => return self.fence(),
                Ok(Attempt::Waiting | Attempt::Lost) => {}
                Err(error) => tracing::debug!(%error, "cannot take the lease"),
            }
            sleep(self.options.pause(self.nondet.rng.unit())).await;
        }
    }

    fn fence(&self) -> Fence {
        Fence {
            namespace: self.store.namespace().to_owned(),
            name: self.store.name().to_owned(),
            holder: self.options.identity.clone(),
            transitions: self.candidate.term().expect("who holds the lease has a term").transitions,
        }
    }

    /// Works and renews. True if the work ended by itself; else it was told to end, or dropped.
    async fn lead(&mut self, leadership: Leadership, work: impl Future<Output = ()> + Send) -> bool {
        // Made before the work is pinned, so that it is still there when the work is dropped.
        let watch = self.watch();
        let mut work = pin!(work);
        let lost = leadership.lost.clone();
        let grace = tokio::select! {
            biased;
            () = &mut work => return true,
            () = lost.cancelled() => self.options.grace(),
            grace = self.keep(watch.as_ref()) => grace,
        };
        lost.cancel();
        // Work that is not done by then is dropped on return.
        let _ = timeout(grace, work).await;
        false
    }

    fn watch(&self) -> Option<Watch> {
        self.watchdog.as_ref().map(|dog| dog.watch(&self.options.name, self.until_bite()))
    }

    fn until_bite(&self) -> Duration {
        let renewed = self.candidate.renewed_at().unwrap_or_else(Instant::now);
        (renewed + self.options.bite()).saturating_duration_since(Instant::now())
    }

    /// Renews until that has failed for too long. Gives back how long the work may take to end.
    async fn keep(&mut self, watch: Option<&Watch>) -> Duration {
        let mut deadline = self.candidate.renewed_at().unwrap_or_else(Instant::now) + self.options.renew;
        loop {
            if timeout_at(deadline, sleep(self.options.retry)).await.is_err() {
                return self.options.grace();
            }
            let began = Instant::now();
            match timeout_at(deadline, self.attempt()).await {
                Ok(Ok(Attempt::Held)) => {
                    deadline = began + self.options.renew;
                    if let Some(watch) = watch {
                        watch.renewed(self.until_bite());
                    }
                }
                Ok(Ok(Attempt::Waiting | Attempt::Lost)) => return Duration::ZERO,
                Ok(Err(error)) => tracing::warn!(%error, "cannot renew the lease"),
                Err(_) => return self.options.grace(),
            }
        }
    }

    /// One attempt to hold the lease. Who holds it renews without looking; if that fails, or nobody knows, it looks first.
    async fn attempt(&mut self) -> Result<Attempt, LeaseError> {
        if self.candidate.holds(Instant::now()) {
            match self.step().await {
                Err(error) => tracing::debug!(%error, "the lease must be read again"),
                done => return done,
            }
        }
        self.look().await?;
        self.election.slow_path(self.candidate.term().is_some());
        self.step().await
    }

    /// Does what the rules say about the lease as we know it.
    async fn step(&mut self) -> Result<Attempt, LeaseError> {
        let began = Instant::now();
        let (record, at) = match self.candidate.next(self.now(), began) {
            Move::Wait => return Ok(Attempt::Waiting),
            Move::Lost => return Ok(Attempt::Lost),
            Move::Create(record) => (record, None),
            Move::Replace(record, at) => (record, Some(at)),
        };
        self.write(record, at, began).await.map(|()| Attempt::Held)
    }

    /// Reads the lease.
    async fn look(&mut self) -> Result<(), LeaseError> {
        let stored = self.answer(self.store.get()).await?;
        self.candidate.saw(stored, Instant::now());
        self.election.saw(self.candidate.leader());
        Ok(())
    }

    /// Writes a record that makes us the holder.
    async fn write(
        &mut self,
        record: LeaseRecord,
        at: Option<Revision>,
        began: Instant,
    ) -> Result<(), LeaseError> {
        self.candidate.asks(&record);
        // Until the answer is there, also if this future is dropped before: what is stored has to be read again.
        self.candidate.forget();
        let written = match at {
            None => self.answer(self.store.create(&record)).await,
            Some(at) => self.answer(self.store.replace(&record, at)).await,
        };
        self.candidate.wrote(record, written?, began);
        self.election.renewed(began, self.candidate.leader());
        Ok(())
    }

    /// The answer of the store, if it comes in time.
    async fn answer<T>(&self, call: impl Future<Output = Result<T, LeaseError>>) -> Result<T, LeaseError> {
        let late = |_| LeaseError::Failed("no answer in time".into());
        timeout(self.options.request(), call).await.map_err(late)?
    }

    fn now(&self) -> Timestamp {
        micros(self.nondet.clock.now())
    }

    /// Tells the others that they need not wait. Without effect if the lease is not ours any more. An attempt that was cut
    /// short may still arrive; it was made at an older revision and is refused once this is written.
    async fn release(&mut self) {
        // Best effort: otherwise the lease runs out by itself.
        let _ = timeout(self.options.request(), self.try_release()).await;
    }

    async fn try_release(&mut self) -> Result<(), LeaseError> {
        for _ in 0..RELEASE_TRIES {
            if !self.candidate.may_hold() {
                break;
            }
            if self.candidate.is_uncertain() {
                self.look().await?;
            }
            let Some((record, at)) = self.candidate.farewell(self.now()) else { break };
            match self.store.replace(&record, at).await {
                Err(LeaseError::Conflict) => self.candidate.forget(),
                outcome => return outcome.map(|_| self.election.saw(None)),
            }
        }
        Ok(())
    }
}
