//! Informers, work queues, controllers and leader election, as in client-go and controller-runtime.
//!
//! A [`ListerWatcher`] is a source of objects: kstore's client implements it, and any store with revisions
//! can. A [`Builder`] creates an [`Informer`] over it: a shared cache with typed indexes and subscriptions. A
//! [`Controller`] turns changes into runs of a reconcile function, through a [`Queue`] that merges, delays
//! and retries keys.
//!
//! The crate is no client: it writes no objects and knows neither Kubernetes types nor a transport. Time is
//! tokio's, so a paused runtime makes all of it virtual; randomness is an argument.

mod backlog;
mod builder;
mod causes;
mod conflict;
mod controller;
mod delivery;
mod delta_fifo;
mod driver;
mod environment;
mod expectations;
mod factory;
pub mod finalizer;
mod history;
mod hub;
mod index;
mod indexer;
mod informer;
mod key;
#[cfg(feature = "kube")]
pub mod kube;
mod leader;
pub mod limits;
mod lister;
mod lister_watcher;
pub mod metrics;
mod not_synced;
mod object;
mod objects;
mod order;
mod queue;
mod recorder;
mod reflector;
mod shared;
mod slots;
mod slow_start;
mod snapshot;
mod sorted;
mod source;
mod status;
mod subscription;
mod subscription_synced;
mod supervisor;
mod table;
mod task_group;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod view;
pub mod wait;
mod waiters;
#[cfg(test)]
mod warnings;
mod whole;

pub use builder::Builder;
pub use causes::Causes;
pub use conflict::{Modified, Refusal, Tries, Writer, modify, on_conflict};
pub use controller::{Action, Context, Controller, Failure, IntoFailure};
pub use delivery::{Delivery, Overflow};
pub use delta_fifo::Delta;
pub use environment::{Environment, Randomness};
pub use expectations::{Creation, Deletion, Expectations};
pub use factory::{AlreadyRegistered, Factory, Missing};
pub use history::ViewError;
pub use index::Index;
pub use informer::{Informer, Stopped};
pub use key::Key;
pub use leader::{
    Election, Elector, ElectorOptions, Fence, Leadership, LeaseError, LeaseRecord, LeaseStore, OptionsError,
    Watchdog,
};
pub use lister::{Lister, NamespaceLister};
pub use lister_watcher::{
    Capabilities, Capability, Continue, Domain, Frame, Frames, ListRequest, ListerWatcher, Page, ReadAt,
    Revisions, SourceError, Start, Undecodable,
};
pub use not_synced::NotSynced;
pub use object::{Object, Revision};
pub use queue::{
    Add, Backoff, Fair, Lease, Priority, Queue, QueueMetrics, QueueOptions, QueueStats, Rate, Ticket, Verdict,
};
pub use recorder::{Event, EventSink, EventType, Occurrence, Recorder, RecorderStats, Reference, SinkError};
pub use slow_start::{Started, slow_start};
pub use snapshot::{Cut, CutError, snapshot};
pub use source::{DynListerWatcher, Map};
pub use status::Status;
pub use subscription::{HandlerPanicked, Subscription};
pub use subscription_synced::SubscriptionSynced;
pub use supervisor::Supervisor;
pub use task_group::TaskGroup;
pub use view::View;

/// Compiles and runs the example of the README as a test.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../README.md")]
struct Readme;
