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
    /// Answers all other requests.
    pub(crate) router: Router,
    /// Answers requests over HTTP/1.1, which has no calls.
    pub(crate) pages: Router,
    /// Counters of calls.
    pub(crate) calls: Calls,
    /// Memory budget of all connections.
    pub(crate) budget: Budget,
    /// Activity of this connection.
    pub(crate) activity: Arc<ConnectionActivity>,
}
