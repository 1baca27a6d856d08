//! Third-party clients, unmodified, against an apiserver in this process.

/// Clients that wait for the revisions of their own writes.
mod own_writes;
/// Connections of kube-rs that end between events of one revision.
mod shared_revisions;
