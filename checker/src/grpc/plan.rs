//! What is to be done to an endpoint.

use std::time::Duration;

/// What clients do, in which proportion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Everything that etcd's clients do, old reads and transactions of many operations included.
    Etcd,
    /// What a Kubernetes apiserver does: lists, and writes that are done only if nothing has changed.
    Kubernetes,
}

/// What is to be done to an endpoint.
#[derive(Clone, Debug)]
pub struct Plan {
    /// `http://host:port`, one or several of one cluster; clients are spread over them.
    pub endpoints: Vec<String>,
    /// Clients, each with one call under way at a time.
    pub clients: u32,
    /// Streams with watches that come and go; one more watches everything all the time.
    pub watchers: u32,
    /// What the clients do.
    pub mix: Mix,
    /// Keys they do it to: few, so that they get in each other's way.
    pub keys: u64,
    /// Calls per second of all clients together, at most; zero is as many as there can be.
    pub rate: u32,
    /// When a call counts as unanswered.
    pub timeout: Duration,
    /// Seconds that leases are granted for.
    pub lease_ttl: i64,
    /// What all random choices follow from.
    pub seed: u64,
}

impl Plan {
    /// Eight clients and four watchers, a thousand calls a second.
    pub fn new(endpoint: impl Into<String>, seed: u64) -> Self {
        Self {
            endpoints: vec![endpoint.into()],
            clients: 8,
            watchers: 4,
            mix: Mix::Etcd,
            keys: 10,
            rate: 1_000,
            timeout: Duration::from_secs(1),
            lease_ttl: 60,
            seed,
        }
    }
}
