//! [`Extenders`]: servers of users that take part in decisions over HTTP, as kube-scheduler's `extenders` do. They filter and score nodes
//! after the plugins, change the candidates of preemption, and bind pods. This module is pure: a decision asks a [`Question`], and goes on
//! with the [`Answer`]s; `extender_client` calls the servers.

mod answer;
mod document;
mod question;
#[cfg(test)]
mod tests;

pub(crate) use answer::read_bind;
pub use answer::{Answer, FilterAnswer, ProposedVictims};
pub(crate) use document::{print, read};
pub use question::{Call, NodeVictims, Question, Topic};

use crate::pod::PodInfo;
use std::sync::Arc;
use std::time::Duration;

/// The largest score that an extender gives a node. kube-scheduler scales scores from it to those of plugins.
pub(crate) const MAX_EXTENDER_SCORE: i64 = 10;

/// A server that takes part in decisions. An empty verb means that the server is not asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extender {
    /// The URL before the verb.
    pub url_prefix: String,
    /// The path below the URL that filters nodes.
    pub filter_verb: String,
    /// The path that scores nodes.
    pub prioritize_verb: String,
    /// The path that changes the candidates of preemption.
    pub preempt_verb: String,
    /// The path that binds pods.
    pub bind_verb: String,
    /// The weight of its scores; positive if there is a path for them.
    pub weight: i64,
    /// Whether HTTPS is used without verification if no authority is given.
    pub enable_https: bool,
    /// The settings of HTTPS.
    pub tls: Option<ExtenderTls>,
    /// The time for a call, the whole answer included.
    pub timeout: Duration,
    /// Whether the server knows the nodes, so that it is sent names instead of objects.
    pub node_cache_capable: bool,
    /// The extended resources of pods for which the server is asked; none: it is asked for every pod.
    pub managed_resources: Vec<ManagedResource>,
    /// Whether decisions go on without the server if it fails.
    pub is_ignorable: bool,
}

/// An extended resource that an extender manages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagedResource {
    /// The resource's name.
    pub name: String,
    /// Whether NodeResourcesFit does not look at the resource.
    pub is_ignored_by_scheduler: bool,
}

/// The settings of HTTPS: `tlsConfig`. Members are empty if they are not given. Data takes precedence over files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtenderTls {
    /// Whether the server's certificate is not verified.
    pub insecure: bool,
    /// The name that the server's certificate must have, instead of the host in the URL.
    pub server_name: String,
    /// The file of the client certificate (PEM).
    pub cert_file: String,
    /// The file of the client's key (PEM).
    pub key_file: String,
    /// The file of the authorities that may have signed the server's certificate (PEM).
    pub ca_file: String,
    /// The client certificate: PEM in base64.
    pub cert_data: String,
    /// The client's key: PEM in base64.
    pub key_data: String,
    /// The authorities: PEM in base64.
    pub ca_data: String,
}

impl Extender {
    /// The name in texts: the URL.
    pub fn name(&self) -> &str {
        &self.url_prefix
    }

    /// The URL of a verb.
    pub fn url(&self, verb: &str) -> String {
        format!("{}/{verb}", self.url_prefix.trim_end_matches('/'))
    }

    /// Whether the extender is asked about the pod.
    pub fn is_interested(&self, pod: &PodInfo) -> bool {
        let manages = |name: &str| self.managed_resources.iter().any(|managed| managed.name == name);
        self.managed_resources.is_empty() || pod.requests.iter_extended().any(|(name, _)| manages(name))
    }
}

/// The extenders of a scheduler in the order in which they are asked: those that are ignorable last, as in kube-scheduler. Clones share
/// them.
#[derive(Clone, Debug, Default)]
pub struct Extenders(Arc<[Arc<Extender>]>);

impl Extenders {
    /// These extenders, in the order of the configuration.
    pub(crate) fn new(all: impl IntoIterator<Item = Extender>) -> Self {
        let (ignorable, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|one| one.is_ignorable);
        Self(others.into_iter().chain(ignorable).map(Arc::new).collect())
    }

    /// The extenders.
    pub fn iter(&self) -> std::slice::Iter<'_, Arc<Extender>> {
        self.0.iter()
    }

    /// Whether an extender filters or scores nodes, so that a search must not end with the first feasible node.
    pub(crate) fn compare_nodes(&self) -> bool {
        self.iter().any(|one| !(one.filter_verb.is_empty() && one.prioritize_verb.is_empty()))
    }

    /// The first extender from `place` on that filters nodes for the pod.
    pub(crate) fn filter(&self, pod: &PodInfo, place: usize) -> Option<(usize, &Arc<Extender>)> {
        self.find(pod, place, |one| &one.filter_verb)
    }

    /// The first extender from `place` on that changes the candidates of preemption for the pod.
    pub(crate) fn preemptor(&self, pod: &PodInfo, place: usize) -> Option<(usize, &Arc<Extender>)> {
        self.find(pod, place, |one| &one.preempt_verb)
    }

    /// The extender that binds the pod.
    pub(crate) fn binder(&self, pod: &PodInfo) -> Option<&Arc<Extender>> {
        self.find(pod, 0, |one| &one.bind_verb).map(|(_, one)| one)
    }

    /// The extenders that score nodes for the pod.
    pub(crate) fn prioritizers(&self, pod: &PodInfo) -> Vec<Arc<Extender>> {
        let scores = |one: &&Arc<Extender>| !one.prioritize_verb.is_empty() && one.is_interested(pod);
        self.iter().filter(scores).cloned().collect()
    }

    fn find(
        &self,
        pod: &PodInfo,
        place: usize,
        verb: fn(&Extender) -> &String,
    ) -> Option<(usize, &Arc<Extender>)> {
        let asked = |(_, one): &(usize, &Arc<Extender>)| !verb(one).is_empty() && one.is_interested(pod);
        self.iter().enumerate().skip(place).find(asked)
    }
}
