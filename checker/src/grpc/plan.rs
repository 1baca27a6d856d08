//! The plan of a workload.

use std::time::Duration;

/// The mix of operations that clients perform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// All operations of etcd's clients, including historical reads and transactions of many operations.
    Etcd,
    /// The operations of a Kubernetes apiserver: lists, and writes with a compare on the mod revision.
    Kubernetes,
}

/// Configuration of a workload.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Endpoints as `http://host:port`, of one cluster; clients are distributed over them.
    pub endpoints: Vec<String>,
    /// Number of clients; each has one call in progress at a time.
    pub clients: u32,
    /// Number of streams with watches that start and stop. One additional stream watches everything.
    pub watchers: u32,
    /// The mix of operations.
    pub mix: Mix,
    /// Number of keys: few, so that the clients conflict.
    pub keys: u64,
    /// Most calls per second of all clients together; zero is unlimited.
    pub rate: u32,
    /// Time after which a call counts as unanswered.
    pub timeout: Duration,
    /// Time to live of leases in seconds.
    pub lease_ttl: i64,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Plan {
    /// A plan with eight clients, four watchers and a thousand calls per second.
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
