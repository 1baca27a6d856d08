//! [`Fault`] and [`FaultScript`]: what goes wrong with which call of a fake source.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use parking_lot::Mutex;

use super::Chaos;
use crate::{Key, SourceError};

/// What goes wrong with one call, and with the stream that it opens. Faults combine: `Fault::lag(3).and_cut_after(1)`.
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
    /// It stays open and says nothing more, not even its progress: a dead connection.
    Silence,
}

impl Fault {
    /// Nothing goes wrong.
    pub fn none() -> Self {
        Self::default()
    }

    /// The answer comes late.
    pub fn delay(by: Duration) -> Self {
        Self::none().and_delay(by)
    }

    /// The call fails with this.
    pub fn refuse(error: SourceError) -> Self {
        Self { refuse: Some(error), ..Self::none() }
    }

    /// The call is told that its revision is no longer kept.
    pub fn expired() -> Self {
        Self::refuse(SourceError::Expired)
    }

    /// The stream ends after so many items. An initial state has three objects in an item.
    pub fn cut_after(items: usize) -> Self {
        Self::none().and_cut_after(items)
    }

    /// The stream fails with this after so many items.
    pub fn fail_after(items: usize, error: SourceError) -> Self {
        Self { cut: Some((items, Cut::Fail(error))), ..Self::none() }
    }

    /// The stream stays open after so many items and says nothing more, not even its progress.
    pub fn silence_after(items: usize) -> Self {
        Self { cut: Some((items, Cut::Silence)), ..Self::none() }
    }

    /// Each item comes twice.
    pub fn repeat() -> Self {
        Self { repeat: true, ..Self::none() }
    }

    /// The whole state is so many revisions old, whatever was asked for: a replica that lags and does not know it.
    pub fn lag(revisions: u64) -> Self {
        Self::none().and_lag(revisions)
    }

    /// The object of this name cannot be read in the answer.
    pub fn undecodable(key: Key) -> Self {
        Self { undecodable: vec![key], ..Self::none() }
    }

    /// And the answer comes late.
    #[must_use]
    pub fn and_delay(self, by: Duration) -> Self {
        Self { delay: by, ..self }
    }

    /// And the stream ends after so many items.
    #[must_use]
    pub fn and_cut_after(self, items: usize) -> Self {
        Self { cut: Some((items, Cut::End)), ..self }
    }

    /// And the whole state is so many revisions old.
    #[must_use]
    pub fn and_lag(self, revisions: u64) -> Self {
        Self { lag: revisions, ..self }
    }

    pub(super) fn drawn_from(self, chaos: Chaos) -> Self {
        Self { chaos: Some(chaos), ..self }
    }
}

/// What goes wrong, call by call. Clones are the same script; when it is at its end, nothing goes wrong any more, or
/// chance goes on.
///
/// ```
/// use kstore_informer::testing::{Fault, FaultScript, FakeStore, Sample};
/// // The first stream breaks within its initial state; the second call is told that its revision expired.
/// let script = FaultScript::new([Fault::cut_after(1), Fault::expired()]);
/// let source = FakeStore::new().kind::<Sample>("samples").source().faults(&script);
/// ```
#[derive(Clone, Debug, Default)]
pub struct FaultScript(Arc<Mutex<Script>>);

#[derive(Debug, Default)]
struct Script {
    next: VecDeque<Fault>,
    chaos: Option<Chaos>,
    /// Old states that chance gave since the last new one was complete: a few more, and the informer would believe in
    /// another history.
    lagged: u32,
}

impl FaultScript {
    /// These faults, for one call each.
    pub fn new(faults: impl IntoIterator<Item = Fault>) -> Self {
        let script = Self::default();
        faults.into_iter().for_each(|fault| script.push(fault));
        script
    }

    /// Faults at random, the same for one seed.
    pub fn random(seed: u64) -> Self {
        Self::chance(Chaos::seeded(seed))
    }

    /// Faults at random, as often as `chaos` says.
    pub fn chance(chaos: Chaos) -> Self {
        Self(Arc::new(Mutex::new(Script { chaos: Some(chaos), ..Script::default() })))
    }

    /// One more fault, behind those that are there.
    pub fn push(&self, fault: Fault) {
        self.0.lock().next.push_back(fault);
    }

    /// From now on nothing goes wrong with new calls.
    pub fn end(&self) {
        *self.0.lock() = Script::default();
    }

    /// The seed that chance follows from, if it is known.
    pub fn seed(&self) -> Option<u64> {
        self.0.lock().chaos.as_ref()?.seed
    }

    /// What goes wrong with the next call; `whole` if that asks for a whole state.
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

    /// A whole state was given to its end, with this fault.
    pub(super) fn given(&self, fault: &Fault) {
        if fault.lag == 0 {
            self.0.lock().lagged = 0;
        }
    }
}
