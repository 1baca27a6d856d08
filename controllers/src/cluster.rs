//! [`Cluster`]: what a controller gets to run, and [`Reconcile`], what it gives. All controllers stand on this file; `runner`, which lists
//! them, is above them.

use crate::apply::Executor;
use crate::caches::Caches;
use crate::config::Config;
use kstore_client::{ApiError, Client, ClientSink};
use kstore_informer::{Action, Context, Controller, CutError, Failure, NotSynced, Recorder, TaskGroup};
use kstore_nondet::Nondet;
use std::pin::Pin;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Inputs for setting up a controller.
pub(crate) struct Cluster {
    /// Client that lists and watches for the caches. Writes use [`Cluster::executor`]: of objects other than
    /// service accounts and Secrets, this client has no write permissions.
    pub client: Client,
    /// Service account of the controller.
    pub account: &'static str,
    pub caches: Arc<Caches>,
    pub nondet: Nondet,
    pub config: Arc<Config>,
    pub stop: CancellationToken,
    pub tasks: TaskGroup,
}

impl Cluster {
    /// An executor for one component, with the controller's account.
    pub(crate) fn executor(&self, component: &str) -> Executor {
        self.executor_of(self.account, component)
    }

    /// An executor for one component with another account, where Kubernetes has a separate controller.
    pub(crate) fn executor_of(&self, account: &str, component: &str) -> Executor {
        let client = match account {
            "" => self.client.clone(),
            account => self.config.accounts.client(account, &self.client),
        };
        let client = client.agent(component);
        let sink = ClientSink::new(&client);
        let (recorder, driver) = Recorder::build(sink, event_source(component), &self.nondet, &self.stop);
        recorder.metrics(&self.config.metrics);
        self.tasks.spawn(driver);
        Executor { client, recorder, caches: Arc::clone(&self.caches) }
    }

    /// Spawns a task beside the controllers; it must end when `stop` is cancelled.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// A controller that watches nothing yet. It waits for its caches without limit, because their server may
    /// start at the same time.
    pub(crate) fn controller(&self, name: &str) -> Controller {
        Controller::new(name, &self.nondet).sync_timeout(None).metrics(&self.config.metrics)
    }
}

/// Source of a component's events. Some controllers of Kubernetes name it otherwise than their account.
fn event_source(component: &str) -> &str {
    match component {
        "generic-garbage-collector" => "garbage-collector-controller",
        "disruption-controller" => "controllermanager",
        "endpointslice-controller" => "endpoint-slice-controller",
        "endpointslice-mirroring-controller" => "endpoint-slice-mirroring-controller",
        "resource-claim-controller" => "resource_claim",
        component => component,
    }
}

/// Reconcile function of a controller.
pub(crate) trait Reconcile: Send + Sync + 'static {
    fn reconcile(&self, cx: Context) -> impl Future<Output = Result<Action, ReconcileError>> + Send;
}

/// Error of a run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReconcileError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Cut(#[from] CutError),
    /// The controller could not do its part yet, for this reason.
    #[error("{0}")]
    Failed(String),
}

impl ReconcileError {
    /// Respects `Retry-After` of a server. No error is terminal: quotas and admission change without an
    /// event.
    fn into_failure(self) -> Failure<Self> {
        let wait = if let Self::Api(error) = &self { error.retry_after() } else { None };
        match wait {
            Some(wait) => Failure::RetryIn(self, wait),
            None => Failure::Retry(self),
        }
    }
}

/// Runs a controller until `stop` is cancelled.
pub(crate) fn work(
    controller: Controller,
    stop: CancellationToken,
    me: impl Reconcile,
) -> impl Future<Output = ()> + Send {
    let me = Arc::new(me);
    let reconcile = move |cx| {
        let me = Arc::clone(&me);
        async move { me.reconcile(cx).await.map_err(ReconcileError::into_failure) }
    };
    logged(controller.run(stop, reconcile))
}

/// Logs why a controller stopped. Apart, so that it is one future for all controllers.
async fn logged(run: Pin<Box<dyn Future<Output = Result<(), NotSynced>> + Send>>) {
    if let Err(error) = run.await {
        tracing::error!(%error, "controller stopped: caches did not sync");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn events_name_the_sources_of_kubernetes() {
        let table = [
            ("generic-garbage-collector", "garbage-collector-controller"),
            ("disruption-controller", "controllermanager"),
            ("deployment-controller", "deployment-controller"),
        ];
        for (component, source) in table {
            assert_eq!(event_source(component), source);
        }
    }

    fn refused(details: serde_json::Value) -> ReconcileError {
        let status = serde_json::json!({ "code": 429, "reason": "TooManyRequests", "details": details });
        let status: Box<_> = serde_json::from_value(status).unwrap();
        ApiError::Status(status).into()
    }

    #[test]
    fn retry_after_of_the_server_is_respected() {
        let failure = refused(serde_json::json!({ "retryAfterSeconds": 7 })).into_failure();
        assert!(matches!(failure, Failure::RetryIn(_, wait) if wait == Duration::from_secs(7)));
        assert!(matches!(refused(serde_json::json!({})).into_failure(), Failure::Retry(_)));
        assert!(matches!(ReconcileError::from(CutError::Late).into_failure(), Failure::Retry(_)));
    }
}
