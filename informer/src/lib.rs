//! Informers, work queues, controllers and leader election, as in client-go and controller-runtime.
//!
//! A [`ListerWatcher`] is a source of objects: kstore's client implements it, and any store with revisions
//! can. A [`Builder`] creates an [`Informer`] over it: a shared cache with typed indexes and subscriptions. A
//! [`Controller`] turns changes into runs of a reconcile function, through a [`Queue`] that merges, delays
//! and retries keys.
//!
//! The crate is no client: it writes no objects and knows neither Kubernetes types nor a transport. Time is
//! tokio's, so a paused runtime makes all of it virtual; randomness is an argument.

mod any_object;
mod builder;
mod cache;
mod causes;
pub mod client_go;
mod conflict;
mod controller;
mod cut;
mod driver;
mod environment;
pub mod finalizer;
mod hub;
mod image;
mod informer;
mod key;
#[cfg(feature = "rest")]
pub mod kube;
mod leader;
pub mod limits;
mod lister_watcher;
mod map;
pub mod metrics;
mod object;
mod priority;
mod queue;
mod recorder;
mod reflector;
mod shared;
mod slow_start;
mod status;
mod subscription;
mod supervisor;
mod task_group;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod wait;
#[cfg(test)]
mod warnings;

pub use any_object::{AnyObject, SharedObject};
pub use builder::Builder;
pub use cache::history::ViewError;
pub use cache::index::Index;
pub use cache::view::View;
pub use causes::Causes;
pub use conflict::{Modified, Refusal, Tries, Writer, modify, on_conflict};
pub use controller::{Action, Context, Controller, Failure, IntoFailure};
pub use cut::{Cut, CutError, snapshot};
pub use environment::{Environment, Randomness};
pub use hub::delta_fifo::Delta;
pub use hub::{Delivery, Overflow};
pub use image::{CacheImage, CacheSet};
pub use informer::Informer;
pub use key::Key;
pub use leader::{
    Election, Elector, ElectorOptions, Fence, Leadership, LeaseError, LeaseRecord, LeaseStore, OptionsError,
    Watchdog,
};
pub use lister_watcher::erased::typed_frames;
pub use lister_watcher::{
    Capabilities, Capability, Continue, Domain, DynListerWatcher, Frame, Frames, ListRequest, ListerWatcher,
    Page, ReadAt, Revisions, SourceError, Start, Undecodable,
};
pub use map::Map;
pub use object::{Object, Revision};
pub use priority::Priority;
pub use queue::{
    Add, Backoff, Fair, KeyLease, Queue, QueueMetrics, QueueOptions, QueueStats, Rate, Ticket, Verdict,
};
pub use recorder::{Event, EventSink, EventType, Occurrence, Recorder, RecorderStats, Reference, SinkError};
pub use slow_start::{Started, slow_start, slow_start_together};
pub use status::{NotSynced, Status, Stopped};
pub use subscription::{HandlerPanicked, Subscription, SubscriptionSynced};
pub use supervisor::Supervisor;
pub use task_group::TaskGroup;

/// Compiles and runs the example of the README as a test.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../README.md")]
struct Readme;
