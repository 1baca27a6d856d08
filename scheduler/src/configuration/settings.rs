//! What a file says, before plugins read their arguments: [`Document`].

use super::merge::PluginsDoc;
use crate::extender::Extender;
use serde_json::Value;

/// A KubeSchedulerConfiguration with its defaults.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) parallelism: i64,
    pub(super) leader_election: LeaderElection,
    pub(super) client_connection: ClientConnection,
    /// `percentageOfNodesToScore` of profiles without their own.
    pub(super) percentage: Option<i64>,
    /// `podInitialBackoffSeconds`.
    pub(super) initial: i64,
    /// `podMaxBackoffSeconds`.
    pub(super) longest: i64,
    pub(super) profiles: Vec<ProfileDoc>,
    pub(super) extenders: Vec<Extender>,
}

/// `leaderElection`; absent members have the defaults of the program. Durations are nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderElection {
    /// Whether the scheduler works only while it is the leader.
    pub leader_elect: Option<bool>,
    /// Kind of the lock object.
    pub resource_lock: Option<String>,
    /// Namespace of the Lease.
    pub resource_namespace: Option<String>,
    /// Name of the Lease.
    pub resource_name: Option<String>,
    /// Nanoseconds after the last renewal until another candidate may become the leader.
    pub lease_duration: Option<i64>,
    /// Nanoseconds without a successful renewal after which a leader stops.
    pub renew_deadline: Option<i64>,
    /// Nanoseconds between two attempts to acquire or renew the Lease.
    pub retry_period: Option<i64>,
}

/// `clientConnection`, as far as it has an effect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientConnection {
    /// Path of the kubeconfig file.
    pub kubeconfig: Option<String>,
}

/// An item of `profiles`.
#[derive(Clone, Debug, Default)]
pub(super) struct ProfileDoc {
    pub(super) scheduler_name: Option<String>,
    /// Whether the file has the name, perhaps an empty one.
    pub(super) has_name: bool,
    pub(super) percentage: Option<i64>,
    pub(super) plugins: PluginsDoc,
    pub(super) args: Vec<PluginArgs>,
}

impl ProfileDoc {
    /// The profile's name; empty if it has none.
    pub(super) fn name(&self) -> &str {
        self.scheduler_name.as_deref().unwrap_or_default()
    }
}

/// An item of `pluginConfig`.
#[derive(Clone, Debug)]
pub(super) struct PluginArgs {
    pub(super) name: String,
    /// The path of the arguments from the root of the file.
    pub(super) path: String,
    pub(super) args: Value,
}
