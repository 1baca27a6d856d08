//! [`World`]: a fake store for contract tests of a source, either bare or inside another source. For tests of
//! this crate.

use super::contract::ContractWorld;
use super::{FakeKind, FakeSource, FakeStore, Sample};
use crate::{Key, ListerWatcher, Object, Revision};

/// A store, and the source under test over it.
pub(crate) struct World<S> {
    kind: FakeKind<Sample>,
    fake: FakeSource<Sample>,
    over: fn(FakeSource<Sample>) -> S,
}

impl<S> World<S> {
    /// A world whose source under test is `over` applied to a fake source.
    pub(crate) fn over(over: fn(FakeSource<Sample>) -> S) -> Self {
        let kind: FakeKind<Sample> = FakeStore::new().kind("samples");
        Self { fake: kind.source(), kind, over }
    }
}

impl<S: ListerWatcher<Obj = Sample>> ContractWorld for World<S> {
    type Source = S;

    fn source(&self) -> S {
        (self.over)(self.fake.clone())
    }

    async fn create(&self, name: &str, number: u64) -> Revision {
        self.kind.create(Sample::new("", name).value(number)).unwrap().revision()
    }

    async fn update(&self, name: &str, number: u64) -> Revision {
        self.kind.update(Sample::new("", name).value(number)).unwrap().revision()
    }

    async fn delete(&self, name: &str) -> Revision {
        self.kind.delete(&Key::new("", name)).unwrap()
    }

    fn number(&self, object: &Sample) -> u64 {
        object.value
    }

    async fn elsewhere(&self) -> Option<Revision> {
        Some(self.kind.store.kind::<Sample>("others").put(Sample::new("", "x")).revision())
    }

    async fn compact(&self) -> bool {
        self.kind.store.compact(self.kind.store.revision());
        true
    }

    async fn disconnect(&self) -> bool {
        self.fake.disconnect();
        true
    }
}
