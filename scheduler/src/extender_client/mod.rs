//! Calls of extenders: the HTTP of the scheduler. [`ExtenderCalls`] gives a [`Question`] the objects that it is about and returns the
//! answers; what they mean is decided in `scheduler`.

mod raw_node;
mod request;
mod server;

use crate::action::Binding;
use crate::extender::{Answer, Call, Extender, Extenders, NodeVictims, Question, Topic, read_bind};
use crate::limits::EXTENDER_PODS_IN_FLIGHT;
use crate::pod::PodInfo;
use futures::future::join_all;
use futures::{StreamExt as _, stream};
use kstore_client::{Client, Gvr};
use kstore_informer::{Informer, Key};
use kstore_nondet::Clock;
pub(crate) use raw_node::{RawNode, decode as decode_node};
use request::{
    ExtenderArgs, ExtenderBindingArgs, ExtenderPreemptionArgs, ListMeta, MetaPod, NodeList, Victims,
};
use serde_json::value::RawValue;
use server::Server;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

/// Answers of a question, in the order of its calls; the error of each that failed.
pub(crate) type Answers = Vec<Result<Answer, String>>;

/// An extender, and its server, or why its certificates cannot be used.
type ConfiguredServer = (Arc<Extender>, Result<Arc<Server>, String>);

/// The clients of the extenders. Clones share them.
#[derive(Clone)]
pub(crate) struct ExtenderCalls {
    client: Client,
    clock: Clock,
    /// The nodes as objects, if an extender does not know them.
    nodes: Option<Informer<RawNode>>,
    servers: Arc<[ConfiguredServer]>,
}

/// Whether an extender is sent nodes as objects.
pub(crate) fn needs_nodes(extenders: &Extenders) -> bool {
    let compares = |one: &Extender| !(one.filter_verb.is_empty() && one.prioritize_verb.is_empty());
    extenders.iter().any(|one| !one.node_cache_capable && compares(one))
}

/// Checks that the certificates and keys of the extenders can be read.
///
/// # Errors
///
/// The first that cannot, in kube-scheduler's words.
pub fn check_extenders(extenders: &Extenders) -> Result<(), String> {
    let unusable = extenders.iter().find_map(|one| Server::of(one).err());
    unusable.map_or(Ok(()), |why| Err(format!("couldn't build extenders: {why}")))
}

impl ExtenderCalls {
    /// Reads the certificates of the extenders. Calls of one whose certificates are unusable fail.
    pub(crate) fn new(
        client: Client,
        clock: Clock,
        extenders: &Extenders,
        nodes: Option<Informer<RawNode>>,
    ) -> Self {
        let servers = extenders.iter().map(|one| (Arc::clone(one), Server::of(one).map(Arc::new)));
        Self { client, clock, nodes, servers: servers.collect() }
    }

    /// Makes the calls of a question at the same time.
    pub(crate) fn ask(&self, question: Question) -> Pin<Box<dyn Future<Output = Answers> + Send>> {
        let this = self.clone();
        Box::pin(async move {
            let pod = match this.object_of(&question.pod).await {
                Ok(pod) => pod,
                Err(why) => return question.calls.iter().map(|_| Err(why.clone())).collect(),
            };
            join_all(question.calls.iter().map(|call| this.call(call, &pod))).await
        })
    }

    /// Lets an extender bind a pod.
    pub(crate) async fn bind(&self, extender: &Arc<Extender>, binding: &Binding) -> Result<(), String> {
        let body =
            serde_json::to_vec(&ExtenderBindingArgs::of(binding)).map_err(|error| error.to_string())?;
        let answer = self.post(extender, &extender.bind_verb, body).await?;
        read_bind(&extender.url(&extender.bind_verb), &answer)
    }

    async fn call(&self, call: &Call, pod: &RawValue) -> Result<Answer, String> {
        let body = match &call.topic {
            Topic::Filter(nodes) | Topic::Prioritize(nodes) => {
                self.args(call.extender.node_cache_capable, pod, nodes)?
            }
            Topic::Preempt(candidates) if call.extender.node_cache_capable => uids(pod, candidates)?,
            Topic::Preempt(candidates) => self.victims(pod, candidates).await?,
        };
        let answer = self.post(&call.extender, call.verb(), body).await?;
        Answer::read(call, &answer)
    }

    fn args(&self, takes_names: bool, pod: &RawValue, nodes: &[Arc<str>]) -> Result<Vec<u8>, String> {
        let objects: Vec<Arc<RawNode>> = match &self.nodes {
            Some(known) if !takes_names => {
                nodes.iter().filter_map(|name| known.get(&Key::new("", name))).collect()
            }
            _ => Vec::new(),
        };
        let list =
            || NodeList { metadata: ListMeta {}, items: objects.iter().map(|node| node.json()).collect() };
        encode(&ExtenderArgs {
            pod,
            nodes: (!takes_names).then(list),
            node_names: takes_names.then(|| nodes.iter().map(|name| &**name).collect()),
        })
    }

    /// The candidates with the victims as objects. A victim that is gone is left out.
    async fn victims(&self, pod: &RawValue, candidates: &[NodeVictims]) -> Result<Vec<u8>, String> {
        let all = candidates.iter().flat_map(|one| &one.victims);
        let reads: Vec<_> =
            all.map(|victim| async move { (&victim.uid, self.object_of(victim).await.ok()) }).collect();
        let objects: BTreeMap<_, _> = stream::iter(reads).buffered(EXTENDER_PODS_IN_FLIGHT).collect().await;
        let of_node = |one: &NodeVictims| {
            let pods = one.victims.iter().filter_map(|victim| objects[&victim.uid].as_deref()).collect();
            Victims { pods, violations: one.violations }
        };
        let victims = candidates.iter().map(|one| (&*one.node, of_node(one))).collect();
        encode(&ExtenderPreemptionArgs {
            pod,
            node_name_to_victims: Some(victims),
            node_name_to_meta_victims: None,
        })
    }

    /// The pod as the API has it now.
    async fn object_of(&self, pod: &PodInfo) -> Result<Box<RawValue>, String> {
        let api = self.client.dynamic(Gvr::new("", "v1", "pods"));
        let object = api.get(pod.key.namespace(), pod.key.name()).await.map_err(|error| error.to_string())?;
        if object["metadata"]["uid"].as_str() != Some(&*pod.uid) {
            return Err(format!("pods \"{}\" not found", pod.key.name()));
        }
        serde_json::value::to_raw_value(&object).map_err(|error| error.to_string())
    }

    async fn post(&self, extender: &Arc<Extender>, verb: &str, body: Vec<u8>) -> Result<Vec<u8>, String> {
        let server = self.servers.iter().find(|(other, _)| Arc::ptr_eq(other, extender));
        let (_, server) = server.expect("an extender of the configuration is asked");
        let (server, extender) = (server.clone()?, Arc::clone(extender));
        let verb = verb.to_owned();
        let call = async move { server.post(&extender, &verb, body).await.map(Vec::from) };
        Box::pin(in_real_time(self.clock, call)).await
    }
}

/// The candidates with the uids of the victims.
fn uids(pod: &RawValue, candidates: &[NodeVictims]) -> Result<Vec<u8>, String> {
    let victims = candidates.iter().map(|one| {
        let pods = one.victims.iter().map(|victim| MetaPod { uid: &victim.uid }).collect();
        (&*one.node, Victims { pods, violations: one.violations })
    });
    encode(&ExtenderPreemptionArgs {
        pod,
        node_name_to_victims: None,
        node_name_to_meta_victims: Some(victims.collect()),
    })
}

fn encode(body: &impl serde::Serialize) -> Result<Vec<u8>, String> {
    serde_json::to_vec(body).map_err(|error| error.to_string())
}

/// Makes a call in real time. A virtual clock stands meanwhile: the extender has no virtual time, and its timeout is one of the real world.
async fn in_real_time<T: Send + 'static>(
    clock: Clock,
    call: impl Future<Output = Result<T, String>> + Send + 'static,
) -> Result<T, String> {
    if !clock.is_simulated() {
        return call.await;
    }
    // tokio moves a paused clock only while no blocking task runs.
    let called = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| error.to_string())?.block_on(call)
    });
    called.await.unwrap_or_else(|error| Err(error.to_string()))
}
