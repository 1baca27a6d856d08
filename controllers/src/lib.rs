//! The workload and cluster controllers, plain clients of the API.
mod action;
mod claim;
mod disruption;
mod limits;
mod resource;
mod selector;
mod view;
mod deployment { pub(crate) mod arith; pub(crate) mod plan; pub(crate) mod revision; pub(crate) mod status; }
mod replicaset { pub(crate) mod plan; pub(crate) mod victims; }
mod garbage_collector { pub(crate) mod graph; pub(crate) mod plan; }
mod namespace { pub(crate) mod plan; }
mod service_account { pub(crate) mod plan; }
mod pod_gc { pub(crate) mod plan; }
mod taint_eviction { pub(crate) mod plan; }
mod node_lifecycle { pub(crate) mod plan; pub(crate) mod zone; }
