//! Third-party clients, unmodified, against an apiserver in this process.

/// Connections of kube-rs that end between events of one revision.
mod shared_revisions;
