//! A scheduler with a plugin of one's own: pods with the label `rack` run in that rack. It uses the API server of the given kubeconfig:
//! `cargo run -p kstore-scheduler --example same_rack -- kubeconfig.yaml`.

use kstore_client::{Client, Kubeconfig};
use kstore_nondet::Nondet;
use kstore_scheduler::event::{ClusterEvent, EventKind, EventSet};
use kstore_scheduler::node_state::NodeState;
use kstore_scheduler::plugin::{ClusterView, ExtensionPoint, Plugin, PreFilter, Refused, Row};
use kstore_scheduler::pod::PodInfo;
use kstore_scheduler::{Config, Profile, Registry};
use tokio_util::sync::CancellationToken;

/// Refuses nodes outside the rack that the pod's label names.
struct SameRack {
    /// The label of nodes with their rack.
    key: String,
}

impl Plugin for SameRack {
    type State<'a> = &'a str;

    const ROW: &'static Row = &Row {
        name: "SameRack",
        points: &[ExtensionPoint::Filter],
        weight: 0,
        reasons: &["node(s) were in another rack"],
        events: EventSet::of(&[EventKind::NodeAdded, EventKind::NodeChanged]),
    };

    fn prefilter<'a>(&self, pod: &'a PodInfo, _: ClusterView<'a>) -> PreFilter<'a, &'a str> {
        pod.labels.get("rack").map_or(PreFilter::Skip, |rack| PreFilter::Check(rack.as_str()))
    }

    fn check(&self, _: &PodInfo, rack: &&str, node: &NodeState) -> Result<(), Refused> {
        let is_there = node.info().labels.get(&self.key).is_some_and(|there| there == rack);
        if is_there { Ok(()) } else { Err(Refused::unresolvable(0)) }
    }

    fn may_help(&self, pod: &PodInfo, event: &ClusterEvent<'_>) -> bool {
        let (ClusterEvent::NodeAdded(node, _) | ClusterEvent::NodeChanged { new: node, .. }) = event else {
            return false;
        };
        node.labels.get(&self.key) == pod.labels.get("rack")
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("give the path of a kubeconfig")?;
    let client = Client::connect(&Kubeconfig::read(path.as_ref())?, "same-rack").await?;
    let plugins = Registry::in_tree().with(SameRack { key: "example.com/rack".to_owned() })?;
    let profile = Profile { plugins, ..Profile::default() };
    let config = Config { profiles: profile.into(), ..Config::default() };
    kstore_scheduler::run(client, Nondet::real(), config, CancellationToken::new()).await;
    Ok(())
}
