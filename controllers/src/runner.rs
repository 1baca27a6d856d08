//! Starts everything, in one place to be read as a list, and ends it in order.

use crate::apply::Hands;
use crate::caches::Caches;
use crate::node_lifecycle::Patience;
use crate::selection::Selection;
use crate::{
    daemon_set, deployment, disruption, endpoint_slice, garbage_collector, namespace, node_lifecycle, pod_gc,
    policy_type_checking, replicaset, root_ca, service_account, service_address, service_cidr, stateful_set,
    taint_eviction,
};
use kstore_client::{ApiError, Client, ClientSink};
use kstore_informer::metrics::Registry;
use kstore_informer::{Action, Context, Controller, CutError, Failure, Recorder, Supervisor, TaskGroup};
use kstore_nondet::Nondet;
use std::pin::Pin;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What the controllers must be told about their cluster.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The certificate (PEM) that pods check the API server with: published in every namespace as `kube-root-ca.crt`. Empty:
    /// nothing is published.
    pub root_ca: String,
    /// Which controllers run.
    pub controllers: Selection,
    /// How patient the node lifecycle controller is.
    pub patience: Patience,
    /// Where the figures of controllers and caches are shown.
    pub metrics: Registry,
}

/// A controller at work, until its cluster stops.
type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One controller.
pub(crate) struct Entry {
    /// Its name in kube-controller-manager.
    pub(crate) name: &'static str,
    /// Names that it had in earlier releases.
    pub(crate) aliases: &'static [&'static str],
    /// Sets it up: asks for its caches. The future is its work.
    run: fn(Arc<Cluster>) -> Task,
}

macro_rules! controllers {
    ($($name:literal $aliases:tt $run:path;)*) => {
        /// Every controller there is.
        pub(crate) const CONTROLLERS: &[Entry] =
            &[$(Entry { name: $name, aliases: &$aliases, run: |cluster| Box::pin($run(cluster)) }),*];
    };
}

controllers! {
    "deployment-controller" ["deployment"] deployment::run;
    "replicaset-controller" ["replicaset"] replicaset::run;
    "replicationcontroller-controller" ["replicationcontroller"] replicaset::run_replication_controllers;
    "statefulset-controller" ["statefulset"] stateful_set::run;
    "daemonset-controller" ["daemonset"] daemon_set::run;
    "garbage-collector-controller" ["garbagecollector"] garbage_collector::run;
    "namespace-controller" ["namespace"] namespace::run;
    "serviceaccount-controller" ["serviceaccount"] service_account::run;
    "root-ca-certificate-publisher-controller" ["root-ca-cert-publisher"] root_ca::run;
    "node-lifecycle-controller" ["nodelifecycle"] node_lifecycle::run;
    "taint-eviction-controller" [] taint_eviction::run;
    "pod-garbage-collector-controller" ["podgc"] pod_gc::run;
    "disruption-controller" ["disruption"] disruption::run;
    "endpointslice-controller" ["endpointslice"] endpoint_slice::run;
    "service-cidr-controller" [] service_cidr::run;
    // In Kubernetes it is a part of kube-apiserver.
    "ipallocator-repair-controller" [] service_address::run;
    "validatingadmissionpolicy-status-controller" ["validatingadmissionpolicy-status"] policy_type_checking::run;
}

/// What every controller is made from.
pub(crate) struct Cluster {
    pub client: Client,
    pub caches: Arc<Caches>,
    pub nondet: Nondet,
    pub config: Config,
    pub stop: CancellationToken,
    tasks: TaskGroup,
}

impl Cluster {
    /// The client and recorder of one component.
    pub(crate) fn hands(&self, component: &str) -> Hands {
        let client = self.client.agent(component);
        let sink = ClientSink::new(&client);
        let (recorder, driver) = Recorder::build(sink, component, &self.nondet, &self.stop);
        recorder.metrics(&self.config.metrics);
        self.tasks.spawn(driver);
        Hands { client, recorder, caches: Arc::clone(&self.caches) }
    }

    /// Runs a task beside the controllers; it must end when `stop` is cancelled.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// A controller that watches nothing yet. It waits for its caches as long as it takes: the server that they come from may
    /// start with us.
    pub(crate) fn controller(&self, name: &str) -> Controller {
        Controller::new(name, &self.nondet).sync_timeout(None).metrics(&self.config.metrics)
    }
}

/// What a controller does for one key.
pub(crate) trait Reconcile: Send + Sync + 'static {
    fn reconcile(&self, cx: Context) -> impl Future<Output = Result<Action, Trouble>> + Send;
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Cut(#[from] CutError),
    /// The content of a namespace could not be deleted, as its conditions say.
    #[error("content of the namespace remains: {0}")]
    Content(String),
}

impl Trouble {
    /// A server that says when to come back is obeyed. Nothing is hopeless: quotas and admission change without an event.
    fn into_failure(self) -> Failure<Self> {
        let wait = if let Self::Api(error) = &self { error.retry_after() } else { None };
        match wait {
            Some(wait) => Failure::RetryIn(self, wait),
            None => Failure::Retry(self),
        }
    }
}

/// Runs a controller until `stop` is cancelled.
pub(crate) async fn work(controller: Controller, stop: CancellationToken, me: impl Reconcile) {
    let me = Arc::new(me);
    let reconcile = move |cx| {
        let me = Arc::clone(&me);
        async move { me.reconcile(cx).await.map_err(Trouble::into_failure) }
    };
    if let Err(error) = controller.run(stop, reconcile).await {
        tracing::error!(%error, "a controller does not run");
    }
}

/// Runs the selected controllers until `stop` is cancelled. All of their tasks have ended when this returns.
///
/// If one of their tasks panics, all are ended and started again, with new caches, after a back-off; the restarts are counted.
/// A panic of a reconcile is none of these: its key is tried again.
///
/// The controllers are clients like any other: `client` may lead into this process or over the network. Each writes under
/// its own name (`deployment-controller`, …) and says which revisions led to its writes.
// Boxed, so that the code of the future is generated in this crate and not in every program that runs it.
pub fn run(
    client: Client,
    nondet: Nondet,
    config: Config,
    stop: CancellationToken,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let supervisor = Supervisor::new("controllers", &config.metrics);
    Box::pin(
        supervisor.run(stop, move |tasks| run_all(client.clone(), nondet.clone(), config.clone(), tasks)),
    )
}

/// One generation of all controllers.
async fn run_all(client: Client, nondet: Nondet, config: Config, tasks: TaskGroup) {
    let stop = tasks.stop().clone();
    let caches = Caches::new(client.agent("controllers"), &nondet, &config.metrics, &tasks);
    let caches = Arc::new(caches);
    let cluster = Arc::new(Cluster {
        client,
        caches: Arc::clone(&caches),
        nondet,
        config,
        stop: stop.clone(),
        tasks: tasks.clone(),
    });
    let selected = CONTROLLERS.iter().filter(|controller| cluster.config.controllers.runs(controller.name));
    // All are set up before the first one works: so their caches share one stream from the beginning.
    let works: Vec<Task> = selected.map(|controller| (controller.run)(Arc::clone(&cluster))).collect();
    caches.launch();
    works.into_iter().for_each(|work| tasks.spawn(work));
    drop(caches);
    drop(cluster);
    stop.cancelled().await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn refused(details: serde_json::Value) -> Trouble {
        let status = serde_json::json!({ "code": 429, "reason": "TooManyRequests", "details": details });
        let status: Box<_> = serde_json::from_value(status).unwrap();
        ApiError::Status(status).into()
    }

    #[test]
    fn a_server_that_says_when_to_come_back_is_obeyed() {
        let told = refused(serde_json::json!({ "retryAfterSeconds": 7 })).into_failure();
        assert!(matches!(told, Failure::RetryIn(_, wait) if wait == Duration::from_secs(7)));
        assert!(matches!(refused(serde_json::json!({})).into_failure(), Failure::Retry(_)));
        assert!(matches!(Trouble::from(CutError::Late).into_failure(), Failure::Retry(_)));
    }
}
