//! Tests of [`DynListerWatcher`]: it keeps the contract of sources.

use crate::DynListerWatcher;
use crate::testing::Sample;
use crate::testing::world::World;

async fn world() -> World<DynListerWatcher<Sample>> {
    World::over(|source| DynListerWatcher::new(source.with_paging()))
}

crate::source_contract!(
    #[tokio::test(start_paused = true)]
    world
);
