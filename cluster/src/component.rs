//! [`Component`]: controllers, scheduler or simulated nodes with a client of their API server, which may be in this process or elsewhere.
//! Those that take part in an election work only while they are the leader.

use crate::phase::Phase;
use kstore_client::{Client, ClientLease};
use kstore_informer::metrics::Registry;
use kstore_informer::{Elector, ElectorOptions, Fence, Leadership};
use kstore_nondet::Nondet;
use std::pin::Pin;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// The namespace of the Leases for which components compete.
pub const LEASE_NAMESPACE: &str = "kube-system";

/// The name of the Lease of the controllers: that of Kubernetes' program for the same work.
pub const CONTROLLERS_LEASE: &str = "kube-controller-manager";

/// The name of the Lease of the scheduler: that of Kubernetes' program for the same work.
pub const SCHEDULER_LEASE: &str = "kube-scheduler";

/// The name of the Lease of the process that simulates the NodeGroups of a cluster, and with them all its other simulated nodes.
pub const NODES_LEASE: &str = "kubelet-sim-default";

/// The elector of a process that simulates NodeGroups. It logs which other process does, and that this one waits.
pub(crate) fn nodes_elector(
    client: &Client,
    options: ElectorOptions,
    nondet: &Nondet,
    metrics: &Registry,
) -> Elector<ClientLease> {
    let own = options.identity.clone();
    let lease = ClientLease::new(client, LEASE_NAMESPACE, NODES_LEASE);
    let elector = Elector::with(lease, options, nondet).expect("the durations of nodes' Leases are valid");
    elector.metrics(metrics).on_new_leader(move |holder| {
        if holder != own {
            warn!(
                lease = NODES_LEASE,
                "another process simulates the NodeGroups of this cluster (holder {holder}); waiting"
            );
        }
    })
}

/// A unique identity of a candidate for a Lease, in the format of Kubernetes' programs (`HOST_UUID`).
pub fn candidate(host: &str, nondet: &Nondet) -> String {
    format!("{host}_{}", nondet.rng.uuid())
}

/// The future of a running component.
type Working = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Controllers, scheduler or simulated nodes that have not started yet.
#[derive(Clone)]
pub struct Component {
    work: Work,
    client: Client,
    nondet: Nondet,
}

#[derive(Clone)]
enum Work {
    Controllers(Box<kstore_controllers::Config>),
    Scheduler(Box<kstore_scheduler::Config>),
    Nodes(Box<kstore_kubelet_sim::Config>),
}

impl Component {
    /// The controllers. `client` fills their caches; they write with the accounts of the configuration.
    pub fn controllers(config: kstore_controllers::Config, client: Client, nondet: &Nondet) -> Self {
        Self { work: Work::Controllers(Box::new(config)), client, nondet: nondet.clone() }
    }

    /// The scheduler.
    pub fn scheduler(config: kstore_scheduler::Config, client: Client, nondet: &Nondet) -> Self {
        Self { work: Work::Scheduler(Box::new(config)), client, nondet: nondet.clone() }
    }

    /// The simulated nodes. They write with the identities of the configuration.
    pub fn nodes(config: kstore_kubelet_sim::Config, client: Client, nondet: &Nondet) -> Self {
        Self { work: Work::Nodes(Box::new(config)), client, nondet: nondet.clone() }
    }

    /// The component's name in logs and among the tasks of a phase.
    pub fn name(&self) -> &'static str {
        match self.work {
            Work::Controllers(_) => "controllers",
            Work::Scheduler(_) => "scheduler",
            Work::Nodes(_) => "kubelet-sim",
        }
    }

    /// The name of the Lease for which processes with the same work compete; `None` for simulated nodes without the kinds of
    /// `sim.kstore.io`, which work in several processes at the same time.
    pub fn lease(&self) -> Option<&'static str> {
        match &self.work {
            Work::Controllers(_) => Some(CONTROLLERS_LEASE),
            Work::Scheduler(_) => Some(SCHEDULER_LEASE),
            Work::Nodes(config) => config.has_sim_api.then_some(NODES_LEASE),
        }
    }

    /// The client that fills the component's caches.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// A candidate for the component's Lease, called `identity`, which renews it with this client; `None` if there is no Lease.
    pub fn elector(
        &self,
        client: &Client,
        identity: &str,
        metrics: &Registry,
    ) -> Option<Elector<ClientLease>> {
        let lease = self.lease()?;
        if lease == NODES_LEASE {
            return Some(nodes_elector(client, ElectorOptions::new(identity), &self.nondet, metrics));
        }
        let lease = ClientLease::new(client, LEASE_NAMESPACE, lease);
        Some(Elector::new(lease, identity, &self.nondet).metrics(metrics))
    }

    /// Works until `stop` is cancelled. With a fence, the API server refuses writes after the end of that term of leadership.
    pub fn work(&self, fence: Option<&Fence>, stop: CancellationToken) -> Working {
        let fenced = |client: &Client| fence.map_or_else(|| client.clone(), |fence| client.fence(fence));
        let (client, nondet) = (fenced(&self.client), self.nondet.clone());
        match &self.work {
            Work::Controllers(config) => {
                let mut config = (**config).clone();
                if let Some(fence) = fence.cloned() {
                    config.accounts = config.accounts.map(move |client| client.fence(&fence));
                }
                kstore_controllers::run(client, nondet, config, stop)
            }
            Work::Scheduler(config) => kstore_scheduler::run(client, nondet, (**config).clone(), stop),
            Work::Nodes(config) => {
                Box::pin(kstore_kubelet_sim::run(client, nondet, (**config).clone(), stop))
            }
        }
    }

    /// Starts the component as a task of `phase`.
    pub fn start(self, elector: Option<Elector<ClientLease>>, phase: &Phase) {
        let name = self.name();
        info!(component = name, elects = elector.is_some(), "component started");
        phase.spawn(name, self.run(elector, phase.stop()));
    }

    /// Works until `stop` is cancelled; with an elector, only while it is the leader.
    pub fn run(self, elector: Option<Elector<ClientLease>>, stop: CancellationToken) -> Working {
        let Some(elector) = elector else { return self.work(None, stop) };
        Box::pin(async move {
            let lead =
                |leadership: Leadership| self.work(Some(leadership.fence()), leadership.lost().clone());
            // Boxed: the future contains the future of the whole component.
            Box::pin(elector.run(stop, lead)).await;
        })
    }
}
