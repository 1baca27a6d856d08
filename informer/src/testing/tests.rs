//! The fakes keep what real sources must keep, and fail as they are told to.

use std::time::Duration;

use super::{contract::ContractWorld, *};

/// What a source is made able to do.
type Able = fn(FakeSource<Sample>) -> FakeSource<Sample>;

struct World {
    kind: FakeKind<Sample>,
    source: FakeSource<Sample>,
}

impl World {
    fn able(able: Able) -> Self {
        let kind = FakeStore::new().kind("samples");
        Self { source: able(kind.source()), kind }
    }
}

impl ContractWorld for World {
    type Source = FakeSource<Sample>;

    fn source(&self) -> FakeSource<Sample> {
        self.source.clone()
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
        self.source.disconnect();
        true
    }
}

mod a_source_that_streams {
    use super::*;

    async fn world() -> World {
        World::able(|source| source.with_progress(Duration::from_secs(5)))
    }

    crate::source_contract!(
        #[tokio::test(start_paused = true)]
        world
    );
}

mod a_source_that_lists {
    use super::*;

    async fn world() -> World {
        World::able(|source| source.without_streaming().with_paging().with_exact_lists())
    }

    crate::source_contract!(
        #[tokio::test(start_paused = true)]
        world
    );
}
