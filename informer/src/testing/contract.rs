//! What every source must keep, as tests: implement [`ContractWorld`] for a place where your source can be tried, and let
//! [`source_contract!`](crate::source_contract) make the tests.
//!
//! Each test makes a world of its own, writes a short history, and compares what the source tells with that history. Most go
//! by one rule: after every item of a stream, and after every list, what was told equals the history at exactly the highest
//! revision that was told of.

mod checks;
mod history;

use std::future::Future;

use crate::{ListerWatcher, Revision};
pub use checks::*;

/// A place with objects of one kind, empty when it is made, and a source that shows them.
///
/// An object has a name and holds a number; how it holds it is the world's matter. Nobody else writes that kind.
pub trait ContractWorld: Send + Sync + 'static {
    /// The source that must keep the contract.
    type Source: ListerWatcher;

    /// Another source over the same objects, all of them.
    fn source(&self) -> Self::Source;

    /// Creates an object; the revision that did it.
    fn create(&self, name: &str, number: u64) -> impl Future<Output = Revision> + Send;

    /// Lets an object hold another number; the revision that did it.
    fn update(&self, name: &str, number: u64) -> impl Future<Output = Revision> + Send;

    /// Deletes an object for good; the revision that did it.
    fn delete(&self, name: &str) -> impl Future<Output = Revision> + Send;

    /// The number that an object holds.
    fn number(&self, object: &<Self::Source as ListerWatcher>::Obj) -> u64;

    /// Makes a revision that this source does not show: a write of another kind. `None` if this world has no other kind, or
    /// the source's progress does not tell of other kinds.
    fn elsewhere(&self) -> impl Future<Output = Option<Revision>> + Send {
        async { None }
    }

    /// Forgets the history up to now, so that a watch from before it expires. Whether the world can do so.
    fn compact(&self) -> impl Future<Output = bool> + Send {
        async { false }
    }

    /// Breaks every open stream, as a lost connection does. Whether the world can do so.
    fn disconnect(&self) -> impl Future<Output = bool> + Send {
        async { false }
    }
}

/// Makes one test of each rule that sources must keep. The argument is a function that makes a [`ContractWorld`]; what
/// stands before it becomes the attribute of each test, `#[tokio::test]` if nothing does.
///
/// ```
/// use kstore_informer::testing::{FakeKind, FakeSource, FakeStore, Sample, contract::ContractWorld};
/// use kstore_informer::{Key, Object, Revision};
///
/// struct World(FakeKind<Sample>);
///
/// impl ContractWorld for World {
///     type Source = FakeSource<Sample>;
///     fn source(&self) -> FakeSource<Sample> {
///         self.0.source()
///     }
///     async fn create(&self, name: &str, number: u64) -> Revision {
///         self.0.create(Sample::new("", name).value(number)).unwrap().revision()
///     }
///     async fn update(&self, name: &str, number: u64) -> Revision {
///         self.0.update(Sample::new("", name).value(number)).unwrap().revision()
///     }
///     async fn delete(&self, name: &str) -> Revision {
///         self.0.delete(&Key::new("", name)).unwrap()
///     }
///     fn number(&self, object: &Sample) -> u64 {
///         object.value
///     }
/// }
///
/// mod a_fake_source {
///     use super::*;
///     async fn world() -> World {
///         World(FakeStore::new().kind("samples"))
///     }
///     kstore_informer::source_contract!(#[tokio::test(start_paused = true)] world);
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! source_contract {
    ($(#[$test:meta])+ $world:expr) => {
        $crate::source_contract! { @each { $(#[$test])+ } { $world }
            a_list_is_everything_at_its_revision
            pages_are_one_state
            an_exact_list_is_that_past
            no_state_is_older_than_was_asked
            a_watch_tells_what_follows
            an_initial_stream_ends_once_and_goes_on
            a_deletion_has_its_own_revision
            an_object_made_anew_is_another
            a_forgotten_revision_is_expired
            a_lost_connection_ends_the_stream
            a_quiet_stream_tells_its_progress
            a_call_that_is_dropped_harms_nobody
            an_informer_converges
        }
    };
    (@each $test:tt { $world:expr } $($rule:ident)+) => {
        $($crate::source_contract! { @one $test { $world } $rule })+
    };
    (@one { $($test:tt)+ } { $world:expr } $rule:ident) => {
        $($test)+
        async fn $rule() {
            $crate::testing::contract::$rule(($world)().await).await;
        }
    };
    ($world:expr) => {
        $crate::source_contract! { #[tokio::test] $world }
    };
}
