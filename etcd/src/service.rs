//! [`Service`]: what every connection serves.

use crate::budget::Budget;
use crate::calls::Calls;
use crate::connection_slots::ConnectionActivity;
use crate::node::Node;
use axum::Router;
use std::sync::Arc;

/// The services of every connection.
#[derive(Clone)]
pub(crate) struct Service {
    /// Answers reads and writes of keys.
    pub(crate) node: Node,
    /// Answers all other requests, and those of `node` over HTTP/1.1.
    pub(crate) router: Router,
    /// Counters of calls.
    pub(crate) calls: Calls,
    /// Memory budget of all connections.
    pub(crate) budget: Budget,
    /// Activity of this connection.
    pub(crate) activity: Arc<ConnectionActivity>,
}
