//! The metrics server in the apiserver's process: answers requests for its Service instead of dialling it,
//! and creates its objects in the background. The crate `metrics-server` computes the answers; the
//! apiserver's aggregator decides which requests are for the Service and whether it is available.

use crate::args::MetricsServer as MetricsServerMode;
use axum::body::Body;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use kstore_api::version::Minor;
use kstore_client::{ApiError, Client};
use kstore_cluster::Phase;
use kstore_metrics_server::{MetricsServer, NAME, NAMESPACE, PORT};
use kstore_nondet::Backoff;
use kstore_registry::lookup::Lookup;
use kstore_registry::outbound::{
    Answer, ApiBackend, Call, Network, NoAnswer, Outbound, ServiceBackends, Unreachable,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Delay before the first retry of failed object writes; it doubles up to [`RETRY_CAP`].
const RETRY_BASE: Duration = Duration::from_millis(250);
/// Longest delay between retries.
const RETRY_CAP: Duration = Duration::from_secs(30);

/// A metrics server that is set later: it needs an apiserver, which needs its outbound connections first.
#[derive(Clone, Debug, Default)]
enum Slot {
    /// Requests wait.
    #[default]
    Starting,
    /// Requests are answered.
    Serving(MetricsServer),
    /// The apiserver ends. Its outbound connections no longer keep a client of it, which would keep it in memory.
    Ended,
}

/// A [`Network`] that answers requests for the metrics server's Service itself.
#[derive(Clone, Debug)]
pub(crate) struct WithMetricsServer {
    network: Network,
    /// `None`: the network also gets the requests for that Service.
    slot: Option<Arc<watch::Sender<Slot>>>,
    /// The Kubernetes version of the API server.
    minor: Minor,
}

impl WithMetricsServer {
    /// Wraps a network. A backend that the user configured for the metrics server's Service takes precedence.
    pub(crate) fn new(
        network: Network,
        choice: MetricsServerMode,
        backends: &ServiceBackends,
        minor: Minor,
    ) -> Self {
        let is_here = choice != MetricsServerMode::Off && !backends.serves(NAMESPACE, NAME, PORT);
        Self { network, slot: is_here.then(Arc::default), minor }
    }

    /// Sets the metrics server, with this client, until `phase` is stopped. Only the function that starts the apiserver calls it.
    pub(crate) fn begin(&self, client: impl FnOnce() -> Client, phase: &Phase) {
        let Some(slot) = self.slot.clone() else { return };
        slot.send_replace(Slot::Serving(MetricsServer::new(client(), self.minor)));
        let stop = phase.stop();
        phase.spawn("metrics-server-client", async move {
            stop.cancelled().await;
            slot.send_replace(Slot::Ended);
        });
    }

    fn slot_of(&self, backend: &ApiBackend) -> Option<&Arc<watch::Sender<Slot>>> {
        let is_own = *backend.namespace == *NAMESPACE && *backend.name == *NAME && backend.port == PORT;
        self.slot.as_ref().filter(|_| is_own)
    }
}

impl Outbound for WithMetricsServer {
    fn post(&self, cluster: Arc<dyn Lookup>, call: Call) -> BoxFuture<'static, Result<Answer, NoAnswer>> {
        self.network.post(cluster, call)
    }

    fn check(&self, cluster: &dyn Lookup, backend: &ApiBackend) -> Result<(), Unreachable> {
        match self.slot_of(backend) {
            Some(_) => Ok(()),
            None => self.network.check(cluster, backend),
        }
    }

    fn forward(
        &self,
        cluster: Arc<dyn Lookup>,
        backend: ApiBackend,
        request: Request<Body>,
    ) -> BoxFuture<'static, Result<Response<Body>, NoAnswer>> {
        let Some(slot) = self.slot_of(&backend).cloned() else {
            return self.network.forward(cluster, backend, request);
        };
        async move {
            let (parts, _) = request.into_parts();
            match serving(&slot).await {
                Some(server) => Ok(server.answer(&parts).await.map(Body::from)),
                None => Err(NoAnswer("the apiserver ends".to_owned())),
            }
        }
        .boxed()
    }
}

/// The metrics server, once it is set; `None` if it has ended.
async fn serving(slot: &watch::Sender<Slot>) -> Option<MetricsServer> {
    let mut states = slot.subscribe();
    let state = states.wait_for(|state| !matches!(state, Slot::Starting)).await.ok()?;
    match &*state {
        Slot::Serving(server) => Some(server.clone()),
        Slot::Starting | Slot::Ended => None,
    }
}

/// Creates the objects of the metrics server, or deletes its APIService if the mode is off, then waits for
/// `stop`. Failures are retried, since a full or unreachable store may recover.
pub(crate) async fn keep_objects(
    client: Client,
    (choice, minor): (MetricsServerMode, Minor),
    stop: CancellationToken,
) {
    let mut waits = Backoff::doubling(RETRY_BASE, RETRY_CAP).waits();
    loop {
        let done = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            done = write_objects(&client, choice, minor) => done,
        };
        let Err(error) = done else { break };
        if waits.failures() == 0 {
            warn!(%error, "the objects of the metrics server cannot be written; retrying");
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(waits.advance()) => {}
        }
    }
    stop.cancelled().await;
}

async fn write_objects(client: &Client, choice: MetricsServerMode, minor: Minor) -> Result<(), ApiError> {
    match choice {
        MetricsServerMode::Off => kstore_metrics_server::uninstall(client).await,
        MetricsServerMode::Answers => Ok(()),
        MetricsServerMode::Installed => {
            kstore_metrics_server::install(client, minor).await?;
            info!("the metrics API is registered");
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_registry::outbound::Trust;

    #[test]
    fn only_the_metrics_servers_service_is_answered_in_process_and_a_configured_backend_takes_precedence() {
        let none = ServiceBackends::default;
        let named =
            || ServiceBackends::new(vec!["kube-system/metrics-server=127.0.0.1:4443".parse().unwrap()]);
        let own = (NAMESPACE, NAME, PORT);
        let cases = [
            (MetricsServerMode::Installed, none(), own, true),
            (MetricsServerMode::Answers, none(), own, true),
            (MetricsServerMode::Off, none(), own, false),
            (MetricsServerMode::Installed, named(), own, false),
            (MetricsServerMode::Installed, none(), (NAMESPACE, NAME, 444), false),
            (MetricsServerMode::Installed, none(), (NAMESPACE, "other", PORT), false),
            (MetricsServerMode::Installed, none(), ("default", NAME, PORT), false),
        ];
        for (choice, backends, (namespace, name, port), wanted) in cases {
            let outbound =
                WithMetricsServer::new(Network::new(backends.clone()), choice, &backends, Minor::DEFAULT);
            let backend =
                ApiBackend { namespace: namespace.into(), name: name.into(), port, trust: Trust::Insecure };
            assert_eq!(outbound.slot_of(&backend).is_some(), wanted, "{choice:?} {namespace}/{name}:{port}");
        }
    }
}
