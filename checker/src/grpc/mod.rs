//! Traffic against a real endpoint, and the recorder of what its clients see. It judges nothing: that is [`crate::judge()`].
//!
//! [`Workload::start`] looks at what the endpoint holds and lets clients, a compactor and watchers loose on it;
//! [`Workload::finish`] stops them and hands over the history. Whatever happens to the server in between is the caller's
//! business: clients reconnect.

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
