//! [`AttemptSource`]: where the API server finds what the scheduler of its process says about attempts to place pods.

use serde_json::Value;

/// Which names an answer about attempts may have, beside those in the pod itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptNames {
    /// Whether the caller may list nodes.
    pub nodes: bool,
    /// Whether the caller may list the pods of all namespaces.
    pub pods: bool,
}

/// What the scheduler says about one attempt, or about several with equal results.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptDocument {
    /// The newest revision that the scheduler had read: the attempt is about the state of this revision or a later one.
    pub revision: i64,
    /// The attempt as the API answers it.
    pub document: Value,
}

/// The attempts of a scheduler.
pub trait AttemptSource: Send + Sync {
    /// The known attempts for pods of this name: the newest pod first, and of each pod the newest attempt first.
    fn attempts(&self, namespace: &str, name: &str, names: AttemptNames) -> Vec<AttemptDocument>;
}
