//! [`Fault`] and [`FaultScript`]: scripted faults of a fake source's calls.

use super::Chaos;
use crate::{Key, SourceError};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Fault of one call and of the stream that it opens. Faults combine: `Fault::lag(3).and_cut_after(1)`.
#[derive(Clone, Debug, Default)]
pub struct Fault {
    pub(super) delay: Duration,
    pub(super) refuse: Option<SourceError>,
    pub(super) lag: u64,
    pub(super) cut: Option<(usize, Cut)>,
    pub(super) repeat: bool,
    pub(super) undecodable: Vec<Key>,
    pub(super) chaos: Option<Chaos>,
}

/// How a stream breaks.
#[derive(Clone, Debug)]
pub(super) enum Cut {
    End,
    Fail(SourceError),
    /// The stream stays open without any further message, even progress: a dead connection.
    Silence,
}

impl Fault {
    /// No fault.
    pub fn none() -> Self {
        Self::default()
    }

    /// The response is late.
    pub fn delay(by: Duration) -> Self {
        Self::none().and_delay(by)
    }

    /// The call fails with this error.
    pub fn refuse(error: SourceError) -> Self {
        Self { refuse: Some(error), ..Self::none() }
    }

    /// The call fails with [`SourceError::Expired`].
    pub fn expired() -> Self {
        Self::refuse(SourceError::Expired)
    }

    /// The stream ends after this many items. An initial state has three objects per item.
    pub fn cut_after(items: usize) -> Self {
        Self::none().and_cut_after(items)
    }

    /// The stream fails with this error after this many items.
    pub fn fail_after(items: usize, error: SourceError) -> Self {
        Self { cut: Some((items, Cut::Fail(error))), ..Self::none() }
    }

    /// The stream falls silent after this many items, without even progress.
    pub fn silence_after(items: usize) -> Self {
        Self { cut: Some((items, Cut::Silence)), ..Self::none() }
    }

    /// Each item is delivered twice.
    pub fn repeat() -> Self {
        Self { repeat: true, ..Self::none() }
    }

    /// The complete state is this many revisions old, regardless of the request: an unnoticed lagging
    /// replica.
    pub fn lag(revisions: u64) -> Self {
        Self::none().and_lag(revisions)
    }

    /// The object of this key is undecodable in the response.
    pub fn undecodable(key: Key) -> Self {
        Self { undecodable: vec![key], ..Self::none() }
    }

    /// Adds a late response.
    #[must_use]
    pub fn and_delay(self, by: Duration) -> Self {
        Self { delay: by, ..self }
    }

    /// Adds an end of the stream after this many items.
    #[must_use]
    pub fn and_cut_after(self, items: usize) -> Self {
        Self { cut: Some((items, Cut::End)), ..self }
    }

    /// Adds a lag of the complete state.
    #[must_use]
    pub fn and_lag(self, revisions: u64) -> Self {
        Self { lag: revisions, ..self }
    }

    pub(super) fn drawn_from(self, chaos: Chaos) -> Self {
        Self { chaos: Some(chaos), ..self }
    }
}

/// Faults by call. Clones are the same script. After the end of the script there are no faults, or
/// random ones.
///
/// ```
/// use kstore_informer::testing::{Fault, FaultScript, FakeStore, Sample};
/// // The first stream breaks within its initial state; the second call fails, because its revision expired.
/// let script = FaultScript::new([Fault::cut_after(1), Fault::expired()]);
/// let source = FakeStore::new().kind::<Sample>("samples").source().faults(&script);
/// ```
#[derive(Clone, Debug, Default)]
pub struct FaultScript(Arc<Mutex<Script>>);

#[derive(Debug, Default)]
struct Script {
    next: VecDeque<Fault>,
    chaos: Option<Chaos>,
    /// Outdated states since the last current one was complete: with a few more, the informer would switch to
    /// another history.
    lagged: u32,
}

impl FaultScript {
    /// A script of these faults, one per call.
    pub fn new(faults: impl IntoIterator<Item = Fault>) -> Self {
        let script = Self::default();
        faults.into_iter().for_each(|fault| script.push(fault));
        script
    }

    /// Random faults, reproducible by seed.
    pub fn random(seed: u64) -> Self {
        Self::chance(Chaos::seeded(seed))
    }

    /// Random faults with the probabilities of `chaos`.
    pub fn chance(chaos: Chaos) -> Self {
        Self(Arc::new(Mutex::new(Script { chaos: Some(chaos), ..Script::default() })))
    }

    /// Appends a fault.
    pub fn push(&self, fault: Fault) {
        self.0.lock().next.push_back(fault);
    }

    /// Ends the script: new calls have no faults.
    pub fn end(&self) {
        *self.0.lock() = Script::default();
    }

    /// The seed of the randomness, if known.
    pub fn seed(&self) -> Option<u64> {
        self.0.lock().chaos.as_ref()?.seed
    }

    /// The fault of the next call; `whole` if the call requests a complete state.
    pub(super) fn draw(&self, whole: bool) -> Fault {
        let mut script = self.0.lock();
        if let Some(fault) = script.next.pop_front() {
            return fault;
        }
        let Some(chaos) = &script.chaos else { return Fault::none() };
        let fault = chaos.call(whole && script.lagged < 3);
        script.lagged += u32::from(fault.lag > 0);
        fault
    }

    /// Records that a complete state was delivered with this fault.
    pub(super) fn given(&self, fault: &Fault) {
        if fault.lag == 0 {
            self.0.lock().lagged = 0;
        }
    }
}
