//! NetworkPolicies in the network of simulated pods. One watch has those of all namespaces; it begins with the first connection that they
//! could restrict, so a cluster whose pods do not connect has none. A connection is never let through unjudged.

use super::network::{Asker, PodNetwork, Transport};
use super::{Snapshot, Streams};
use crate::limits::CONNECT_TIME;
use crate::network_policy::{PolicyEnd, PolicyPod, decide};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kstore_client::{Client, WatchParams};
use kstore_informer::{Builder, Informer, Key, Object, Revision, TaskGroup};
use kstore_nondet::Rng;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use tokio::time::timeout;

/// The NetworkPolicies of the cluster. Clones are the same.
#[derive(Clone)]
pub(crate) struct Policies {
    client: Client,
    rng: Rng,
    tasks: TaskGroup,
    informer: Arc<OnceLock<Informer<PolicyRecord>>>,
}

impl Policies {
    /// The policies that `client` may list and watch. Their watch runs as one of `tasks`, once they are asked for.
    pub(crate) fn new(client: Client, rng: Rng, tasks: TaskGroup) -> Self {
        Self { client, rng, tasks, informer: Arc::default() }
    }

    /// The cache of all policies, once it has the first list; `None` if that does not come in the time of a connection.
    async fn synced(&self) -> Option<&Informer<PolicyRecord>> {
        let informer = self.informer.get_or_init(|| {
            let source = self.client.api::<NetworkPolicy>();
            let source = source.project(WatchParams::default(), PolicyRecord::decode);
            let builder = Builder::new(source).name("kubelet-network-policies").rng(&self.rng);
            let (informer, driver) = builder.build(self.tasks.stop());
            self.tasks.spawn(driver);
            informer
        });
        timeout(CONNECT_TIME, informer.synced()).await.ok()?.ok()?;
        Some(informer)
    }
}

/// A NetworkPolicy in the cache.
struct PolicyRecord {
    key: Key,
    revision: Revision,
    uid: String,
    policy: NetworkPolicy,
}

impl PolicyRecord {
    fn decode(json: &[u8]) -> Result<Self, serde_json::Error> {
        let policy: NetworkPolicy = serde_json::from_slice(json)?;
        let meta = &policy.metadata;
        let text = |member: &Option<String>| member.clone().unwrap_or_default();
        let key = Key::new(&text(&meta.namespace), &text(&meta.name));
        let revision = Revision(text(&meta.resource_version).parse().unwrap_or_default());
        Ok(Self { key, revision, uid: text(&meta.uid), policy })
    }
}

impl Object for PolicyRecord {
    fn key(&self) -> Key {
        self.key.clone()
    }
    fn uid(&self) -> &str {
        &self.uid
    }
    fn revision(&self) -> Revision {
        self.revision
    }
}

impl PodNetwork {
    /// Whether NetworkPolicies let the pod reach an address, which that of `target` is, or no pod's. Kubelets reach the pods of their
    /// node always. Without any policy no request is made.
    pub(super) async fn is_let_through(
        &self,
        (to, transport): (SocketAddr, Transport),
        target: Option<&Snapshot>,
    ) -> bool {
        if self.asker == Asker::Kubelet {
            return true;
        }
        // Without enforcement there are none.
        let Some(policies) = &self.streams.policies else { return true };
        let Some(all) = policies.synced().await else { return false };
        if all.is_empty() {
            return true;
        }
        // A node always reaches its own pods.
        if self.is_of_node && target.is_some_and(|snapshot| *snapshot.record.pod.spec.node_name == *self.node)
        {
            return true;
        }
        let target = target.map(|snapshot| &snapshot.record.pod.metadata);
        let mut records = all.namespace(&self.tenant);
        if let Some(other) = target.filter(|other| *other.namespace != *self.tenant) {
            records.extend(all.namespace(&other.namespace));
        }
        if records.is_empty() {
            return true;
        }
        // A pod that cannot be read is judged as one that no policy lets through.
        let from = match self.is_of_node {
            true => None,
            false => match self.streams.policy_pod(&self.tenant, &self.name).await {
                Some(pod) => Some(pod),
                None => return false,
            },
        };
        let pod = match target {
            None => None,
            Some(other) => match self.streams.policy_pod(&other.namespace, &other.name).await {
                Some(pod) => Some(pod),
                None => return false,
            },
        };
        let Some(address) = self.address else { return false };
        let from = PolicyEnd { address, pod: from };
        let to_end = PolicyEnd { address: to.ip(), pod };
        let policies = records.iter().map(|record| &record.policy);
        decide(policies, &from, &to_end, (to.port(), transport.text()))
    }
}

impl Streams {
    /// What policies know of a pod; `None` if it cannot be read.
    async fn policy_pod(&self, namespace: &str, name: &str) -> Option<PolicyPod> {
        let pod = self.client.api::<Pod>().get(namespace, name).await.ok()?;
        let labels = self.client.api::<Namespace>().get("", namespace).await.ok()?.metadata.labels;
        Some(PolicyPod::of(&pod, labels.unwrap_or_default()))
    }
}
