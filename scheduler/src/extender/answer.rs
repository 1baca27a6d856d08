//! [`Answer`]: what an extender says, read from JSON as Go reads it: names of members in any case, null as absent, unknown members skipped.

use super::question::{Call, Topic};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// The answer to a [`Call`], as far as it can be read without the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Of a filter.
    Filter(FilterAnswer),
    /// The scores, by node. A node may be absent, or there twice.
    Prioritize(Vec<(String, i64)>),
    /// The victims by node.
    Preempt(Vec<(String, ProposedVictims)>),
}

/// What a filter says about nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterAnswer {
    /// The nodes that may take the pod.
    pub kept: Vec<String>,
    /// Nodes that refuse the pod, with the reason; the removal of pods may change that.
    pub failed: BTreeMap<String, String>,
    /// Nodes that refuse the pod whatever pods are removed, with the reason.
    pub unresolvable: BTreeMap<String, String>,
}

/// The pods that an extender would evict on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProposedVictims {
    /// The uids of the pods.
    pub uids: Vec<String>,
    /// The number of victims whose eviction exceeds a disruption budget.
    pub violations: usize,
}

/// Defines a document whose members are `None` if they are absent or null.
macro_rules! go_object {
    ($($name:ident { $($field:ident: $type:ty = $member:literal,)* })*) => {$(
        #[derive(Default)]
        struct $name {
            $($field: Option<$type>,)*
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Members;

                impl<'de> Visitor<'de> for Members {
                    type Value = $name;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("an object")
                    }

                    fn visit_unit<E>(self) -> Result<$name, E> {
                        Ok($name::default())
                    }

                    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<$name, A::Error> {
                        let mut read = $name::default();
                        while let Some(member) = members.next_key::<String>()? {
                            $(if member.eq_ignore_ascii_case($member) {
                                read.$field = members.next_value()?;
                                continue;
                            })*
                            members.next_value::<IgnoredAny>()?;
                        }
                        Ok(read)
                    }
                }

                deserializer.deserialize_any(Members)
            }
        }
    )*};
}

go_object! {
    ExtenderFilterResult {
        nodes: NodeList = "nodes",
        node_names: Vec<String> = "nodenames",
        failed: BTreeMap<String, Option<String>> = "failednodes",
        unresolvable: BTreeMap<String, Option<String>> = "failedandunresolvablenodes",
        error: String = "error",
    }
    NodeList { items: Vec<NamedNode> = "items", }
    NamedNode { metadata: NamedMeta = "metadata", }
    NamedMeta { name: String = "name", }
    HostPriority { host: String = "host", score: i64 = "score", }
    ExtenderPreemptionResult { victims: BTreeMap<String, Option<MetaVictims>> = "nodenametometavictims", }
    MetaVictims { pods: Vec<Option<MetaPod>> = "pods", violations: i64 = "numpdbviolations", }
    MetaPod { uid: String = "uid", }
    ExtenderBindingResult { error: String = "error", }
}

impl Answer {
    /// Reads the body of an answer to `call`.
    ///
    /// # Errors
    ///
    /// It is no answer to such a call, or says that the extender failed.
    pub fn read(call: &Call, body: &[u8]) -> Result<Self, String> {
        let extender = &call.extender;
        let unreadable = |error: serde_json::Error| {
            format!("cannot read the answer of extender at URL {}: {error}", extender.url(call.verb()))
        };
        match &call.topic {
            Topic::Filter(_) => {
                let read: ExtenderFilterResult = serde_json::from_slice(body).map_err(unreadable)?;
                filter_answer(read, extender.node_cache_capable).map(Self::Filter)
            }
            Topic::Prioritize(_) => {
                let read: Option<Vec<HostPriority>> = serde_json::from_slice(body).map_err(unreadable)?;
                let pair = |one: HostPriority| (one.host.unwrap_or_default(), one.score.unwrap_or_default());
                Ok(Self::Prioritize(read.unwrap_or_default().into_iter().map(pair).collect()))
            }
            Topic::Preempt(_) => {
                let read: ExtenderPreemptionResult = serde_json::from_slice(body).map_err(unreadable)?;
                let victims = read.victims.unwrap_or_default().into_iter();
                Ok(Self::Preempt(
                    victims.map(|(node, all)| (node, proposed(all.unwrap_or_default()))).collect(),
                ))
            }
        }
    }
}

/// Reads the body of an answer to a bind by the extender at `url`.
///
/// # Errors
///
/// It is no answer to a bind, or says that the bind failed.
pub(crate) fn read_bind(url: &str, body: &[u8]) -> Result<(), String> {
    let read: ExtenderBindingResult = serde_json::from_slice(body)
        .map_err(|error| format!("cannot read the answer of extender at URL {url}: {error}"))?;
    read.error.filter(|error| !error.is_empty()).map_or(Ok(()), Err)
}

fn filter_answer(read: ExtenderFilterResult, takes_names: bool) -> Result<FilterAnswer, String> {
    if let Some(error) = read.error.filter(|error| !error.is_empty()) {
        return Err(error);
    }
    let name = |node: NamedNode| node.metadata.unwrap_or_default().name.unwrap_or_default();
    let kept = match (read.node_names.filter(|_| takes_names), read.nodes) {
        (Some(names), _) => names,
        (None, Some(nodes)) => nodes.items.unwrap_or_default().into_iter().map(name).collect(),
        (None, None) => Vec::new(),
    };
    let texts = |all: Option<BTreeMap<String, Option<String>>>| {
        let all = all.unwrap_or_default().into_iter();
        all.map(|(node, why)| (node, why.unwrap_or_default())).collect()
    };
    Ok(FilterAnswer { kept, failed: texts(read.failed), unresolvable: texts(read.unresolvable) })
}

fn proposed(read: MetaVictims) -> ProposedVictims {
    let pods = read.pods.unwrap_or_default().into_iter();
    ProposedVictims {
        uids: pods.map(|pod| pod.unwrap_or_default().uid.unwrap_or_default()).collect(),
        violations: usize::try_from(read.violations.unwrap_or_default()).unwrap_or_default(),
    }
}
