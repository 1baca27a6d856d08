//! Contract tests for sources: implement [`ContractWorld`] for an environment of your source, and generate
//! the tests with [`source_contract!`](crate::source_contract).
//!
//! Each test creates a new world, writes a short history, and compares the source's output with it. Most
//! tests follow one rule: after every stream item and every list, the delivered state equals the history at
//! the highest delivered revision.

mod checks;
mod history;

use crate::{ListerWatcher, Revision};
pub use checks::*;
use std::future::Future;

/// Environment with objects of one kind, initially empty, and a source of them.
///
/// An object has a name and a number; the world chooses its representation. No other writer changes that
/// kind.
pub trait ContractWorld: Send + Sync + 'static {
    /// The source under test.
    type Source: ListerWatcher;

    /// A new source over the same objects.
    fn source(&self) -> Self::Source;

    /// Creates an object and returns the revision.
    fn create(&self, name: &str, number: u64) -> impl Future<Output = Revision> + Send;

    /// Changes the number of an object and returns the revision.
    fn update(&self, name: &str, number: u64) -> impl Future<Output = Revision> + Send;

    /// Deletes an object permanently and returns the revision.
    fn delete(&self, name: &str) -> impl Future<Output = Revision> + Send;

    /// The number in an object.
    fn number(&self, object: &<Self::Source as ListerWatcher>::Obj) -> u64;

    /// Creates a revision that this source does not show, by writing another kind. `None` if the world has no
    /// other kind, or if the source's progress does not cover other kinds.
    fn elsewhere(&self) -> impl Future<Output = Option<Revision>> + Send {
        async { None }
    }

    /// Compacts the history up to now, so that a watch from before it expires. Returns whether the world can
    /// do so.
    fn compact(&self) -> impl Future<Output = bool> + Send {
        async { false }
    }

    /// Breaks every open stream, as a lost connection does. Returns whether the world can do so.
    fn disconnect(&self) -> impl Future<Output = bool> + Send {
        async { false }
    }
}

/// Generates one test for each rule of the contract. The argument is a function that creates a [`ContractWorld`];
/// an attribute before it becomes the attribute of each test, by default `#[tokio::test]`.
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
            a_list_contains_every_object_at_its_revision
            all_pages_have_one_revision
            an_exact_list_is_the_state_at_its_revision
            no_list_is_older_than_requested
            a_watch_delivers_every_later_change
            an_initial_stream_marks_its_end_once_and_continues
            a_deletion_has_its_own_revision
            a_recreated_object_has_another_uid
            a_forgotten_revision_is_expired
            a_lost_connection_ends_the_stream
            an_idle_stream_delivers_progress
            a_dropped_call_does_not_affect_the_source
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
