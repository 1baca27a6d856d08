//! The metrics server in the process of the apiserver: requests for its Service are answered here instead of being dialled, and its
//! objects are created in the background. What it answers is `kstore_metrics_server`'s; when a request is for its Service, and whether
//! it is available, the aggregator's.

use crate::args::MetricsServer as Choice;
use axum::body::Body;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Response};
use kstore_apiserver::lookup::Lookup;
use kstore_apiserver::outbound::{
    Answer, ApiBackend, Call, Network, NoAnswer, Outbound, ServiceBackends, Unreachable,
};
use kstore_client::{ApiError, Client};
use kstore_metrics_server::{MetricsServer, NAME, NAMESPACE, PORT};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::SetOnce;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// The first wait before the objects are written again after a failure; it doubles up to [`RETRY_CAP`].
const RETRY_BASE: Duration = Duration::from_millis(250);
/// The longest such wait.
const RETRY_CAP: Duration = Duration::from_secs(30);

/// The place of the metrics server, which needs an apiserver, which needs its outbound connections before. Requests wait until it is
/// taken.
type Slot = Arc<SetOnce<MetricsServer>>;

/// The [`Network`], but for requests to the Service of the metrics server.
#[derive(Clone, Debug)]
pub(crate) struct WithMetricsServer {
    network: Network,
    /// `None`: requests for that Service go to the network as well.
    slot: Option<Slot>,
}

impl WithMetricsServer {
    /// The network with the metrics server of `choice`. A backend that the user named for its Service takes precedence.
    pub(crate) fn new(network: Network, choice: Choice, backends: &ServiceBackends) -> Self {
        let is_here = choice != Choice::Off && !backends.serves(NAMESPACE, NAME, PORT);
        Self { network, slot: is_here.then(Slot::default) }
    }

    /// Lets the metrics server answer, as this client. Only the first one counts.
    pub(crate) fn begin(&self, client: impl FnOnce() -> Client) {
        if let Some(slot) = &self.slot {
            // It is set once, by the one place that starts an apiserver.
            let _ = slot.set(MetricsServer::new(client()));
        }
    }

    fn slot_of(&self, backend: &ApiBackend) -> Option<&Slot> {
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
            Ok(slot.wait().await.answer(&parts).await.map(Body::from))
        }
        .boxed()
    }
}

/// Creates the objects of the metrics server, or deletes its APIService if it is off, and waits for `stop`. Failures are repeated: a
/// store that is full or not reached may take them later.
pub(crate) async fn keep_objects(client: Client, choice: Choice, stop: CancellationToken) {
    let mut wait = RETRY_BASE;
    loop {
        let done = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            done = write_objects(&client, choice) => done,
        };
        let Err(error) = done else { break };
        if wait == RETRY_BASE {
            warn!(%error, "the objects of the metrics server cannot be written; trying again");
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
        wait = wait.saturating_mul(2).min(RETRY_CAP);
    }
    stop.cancelled().await;
}

async fn write_objects(client: &Client, choice: Choice) -> Result<(), ApiError> {
    match choice {
        Choice::Off => kstore_metrics_server::uninstall(client).await,
        Choice::Answers => Ok(()),
        Choice::Installed => {
            kstore_metrics_server::install(client).await?;
            info!("the metrics API is registered");
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_apiserver::outbound::Trust;

    #[test]
    fn only_the_service_of_the_metrics_server_is_answered_here_and_only_unless_the_user_names_a_backend() {
        let none = ServiceBackends::default;
        let named =
            || ServiceBackends::new(vec!["kube-system/metrics-server=127.0.0.1:4443".parse().unwrap()]);
        let own = (NAMESPACE, NAME, PORT);
        let cases = [
            (Choice::Installed, none(), own, true),
            (Choice::Answers, none(), own, true),
            (Choice::Off, none(), own, false),
            (Choice::Installed, named(), own, false),
            (Choice::Installed, none(), (NAMESPACE, NAME, 444), false),
            (Choice::Installed, none(), (NAMESPACE, "other", PORT), false),
            (Choice::Installed, none(), ("default", NAME, PORT), false),
        ];
        for (choice, backends, (namespace, name, port), wanted) in cases {
            let outbound = WithMetricsServer::new(Network::new(backends.clone()), choice, &backends);
            let backend =
                ApiBackend { namespace: namespace.into(), name: name.into(), port, trust: Trust::Insecure };
            assert_eq!(outbound.slot_of(&backend).is_some(), wanted, "{choice:?} {namespace}/{name}:{port}");
        }
    }
}
