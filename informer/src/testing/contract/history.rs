//! [`History`]: the writes of a test, by revision, and [`DeliveredState`]: the state that a stream delivered; both must
//! agree.

use super::ContractWorld;
use crate::{Frame, Frames, ListerWatcher, Object, Page, Revision, SourceError};
use futures::StreamExt;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::timeout;

/// Time limit for everything that a source guarantees.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// ObjectNumbers of the objects by name.
pub(super) type ObjectNumbers = BTreeMap<String, u64>;

type Obj<W> = <<W as ContractWorld>::Source as ListerWatcher>::Obj;

/// A world and the history of its writes.
pub(super) struct History<W> {
    pub world: W,
    states: BTreeMap<Revision, ObjectNumbers>,
    now: ObjectNumbers,
}

impl<W: ContractWorld> History<W> {
    pub(super) fn of(world: W) -> Self {
        Self { world, states: BTreeMap::new(), now: ObjectNumbers::new() }
    }

    /// Creates five objects, updates one and deletes one.
    pub(super) async fn begin(world: W) -> Self {
        let mut history = Self::of(world);
        for (number, name) in (1..).zip(["a", "b", "c", "d", "e"]) {
            history.create(name, number).await;
        }
        history.update("b", 20).await;
        history.delete("c").await;
        history
    }

    pub(super) async fn create(&mut self, name: &str, number: u64) -> Revision {
        let revision = self.world.create(name, number).await;
        self.now.insert(name.to_owned(), number);
        self.note(revision)
    }

    pub(super) async fn update(&mut self, name: &str, number: u64) -> Revision {
        let revision = self.world.update(name, number).await;
        self.now.insert(name.to_owned(), number);
        self.note(revision)
    }

    pub(super) async fn delete(&mut self, name: &str) -> Revision {
        let revision = self.world.delete(name).await;
        self.now.remove(name);
        self.note(revision)
    }

    fn note(&mut self, revision: Revision) -> Revision {
        assert!(revision > self.newest(), "a write has a revision above all before it");
        self.states.insert(revision, self.now.clone());
        revision
    }

    /// The revision of the newest write.
    pub(super) fn newest(&self) -> Revision {
        self.states.last_key_value().map_or(Revision(0), |(revision, _)| *revision)
    }

    /// The revisions of all writes.
    pub(super) fn revisions(&self) -> Vec<Revision> {
        self.states.keys().copied().collect()
    }

    /// The objects at a revision.
    pub(super) fn at(&self, revision: Revision) -> ObjectNumbers {
        self.states.range(..=revision).next_back().map(|(_, state)| state.clone()).unwrap_or_default()
    }

    /// Checks that a list equals the history at its revision.
    pub(super) fn check(&self, items: &[Obj<W>], revision: Revision) {
        let state: ObjectNumbers = items.iter().map(|object| self.read(object)).collect();
        assert_eq!(state.len(), items.len(), "a list shows no object twice");
        assert_eq!(state, self.at(revision), "a list is everything at its revision {revision}");
    }

    pub(super) fn read(&self, object: &Obj<W>) -> (String, u64) {
        (object.key().name().to_owned(), self.world.number(object))
    }
}

/// State that one stream has delivered so far.
pub(super) struct DeliveredState<T> {
    frames: Frames<T>,
    state: ObjectNumbers,
    /// Everything up to this revision was delivered. `None` within an initial state.
    pub revision: Option<Revision>,
    /// How often an initial state ended.
    pub ends: u32,
}

impl<T: Object> DeliveredState<T> {
    /// Delivered state of a stream that starts after a revision, at which the objects had this state.
    pub(super) fn after(frames: Frames<T>, revision: Revision, state: ObjectNumbers) -> Self {
        Self { frames, state, revision: Some(revision), ends: 0 }
    }

    /// Delivered state of a stream that starts with the complete state.
    pub(super) fn initial(frames: Frames<T>) -> Self {
        Self { frames, state: ObjectNumbers::new(), revision: None, ends: 0 }
    }

    /// The next raw item.
    pub(super) async fn item(&mut self) -> Option<Result<Vec<Frame<T>>, SourceError>> {
        timeout(PATIENCE, self.frames.next()).await.expect("the stream says something in time")
    }

    /// Reads until everything up to `revision` was delivered, and compares with the history after every item.
    pub(super) async fn until<W>(&mut self, revision: Revision, history: &History<W>)
    where
        W: ContractWorld,
        W::Source: ListerWatcher<Obj = T>,
    {
        while self.revision.is_none_or(|delivered| delivered < revision) {
            let item = self.item().await.expect("the stream goes on");
            self.take(item.expect("the stream does not fail"), history);
        }
    }

    /// Applies one item. Repeated frames have no effect.
    pub(super) fn take<W>(&mut self, frames: Vec<Frame<T>>, history: &History<W>)
    where
        W: ContractWorld,
        W::Source: ListerWatcher<Obj = T>,
    {
        let before = self.revision.unwrap_or_default();
        for frame in frames {
            let revision = frame.revision();
            if let Frame::Progress { initial_done: true, .. } = frame {
                self.ends += 1;
                assert!(self.revision.is_none(), "an initial state ends once");
                self.revision = Some(revision);
            }
            if revision <= before {
                continue;
            }
            self.revision = self.revision.map(|delivered| delivered.max(revision));
            match frame {
                Frame::Put(object) => self.state.extend([history.read(&object)]),
                Frame::Gone { key, .. } => drop(self.state.remove(key.name())),
                Frame::Undecodable(what) => panic!("{} can be read: {}", what.key, what.error),
                Frame::Progress { .. } => {}
            }
        }
        if let Some(delivered) = self.revision {
            assert_eq!(
                self.state,
                history.at(delivered),
                "the changes delivered up to {delivered} make the state of then"
            );
        }
    }
}

/// Concatenates all pages of a list.
pub(super) fn joined<T>(pages: Vec<Page<T>>) -> (Vec<T>, Revision) {
    let revision = pages.first().map_or(Revision(0), |page| page.revision);
    assert!(pages.iter().all(|page| page.revision == revision), "all pages show one revision");
    assert!(pages.iter().all(|page| page.undecodable.is_empty()), "all objects can be read");
    (pages.into_iter().flat_map(|page| page.items).collect(), revision)
}
