//! Traffic against a real endpoint, and the recorder of what its clients observe. [`crate::judge()`] checks the
//! recording.
//!
//! [`Workload::start`] reads what the endpoint holds and starts clients, a compactor and watchers. [`Workload::finish`]
//! stops them and returns the history. The caller may disturb the server meanwhile: clients reconnect.

mod client;
mod clock;
mod compactor;
mod link;
mod plan;
mod traffic;
mod watcher;
mod wire;
mod workload;

pub use plan::{Mix, Plan};
pub use workload::{Recording, StartError, Workload};
