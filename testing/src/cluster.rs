//! [`Cluster`]: a running cluster, the ways to its API, and its end.

use crate::builder::{Builder, client};
use crate::faults::{Edge, FaultCounts, Faults, OWN_AGENT};
use crate::listen::{Endpoint, ListenError};
use kstore_apiserver::authn::UserInfo;
use kstore_apiserver::token::Tokens;
use kstore_apiserver::{ApiServer, InProcess};
use kstore_client::Client;
use kstore_client::manifest::{self, Applier, ApplyError, ManifestObject};
use kstore_informer::metrics::Registry;
use kstore_kubelet_sim::Handle;
use kstore_nondet::Nondet;
use kstore_store::Store;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A Kubernetes control plane in this process. It ends with [`Cluster::stop`], or when it is dropped.
///
/// Any number of clusters can run in one process. What one does is not seen in another. They share the memory of initial objects, such as
/// default roles, which the first cluster of the process creates: of those, only namespaces have UIDs of their own in each cluster.
pub struct Cluster {
    pub(crate) parts: Parts,
    client: Client,
    endpoint: OnceCell<Endpoint>,
}

/// What a running cluster consists of.
pub(crate) struct Parts {
    /// What it was started from.
    pub(crate) builder: Builder,
    pub(crate) nondet: Nondet,
    pub(crate) api: ApiServer,
    /// Where faults happen.
    pub(crate) edge: Edge,
    pub(crate) nodes: Handle,
    pub(crate) store: Store,
    pub(crate) tokens: Option<Arc<Tokens>>,
    /// How many forks lie between it and a cluster that was started.
    pub(crate) generation: u64,
    /// What controllers, scheduler and nodes tell about themselves.
    pub(crate) metrics: Registry,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("revision", &self.parts.store.revision()).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Starts a cluster with controllers, a scheduler and one node, in real time.
    ///
    /// # Panics
    /// If it cannot start.
    pub async fn start() -> Self {
        Builder::default().start().await
    }

    /// Chooses what the cluster consists of.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(parts: Parts) -> Self {
        let client = client(&parts.api.in_process(admin()), &parts.edge, ADMIN, OWN_AGENT);
        Self { parts, client, endpoint: OnceCell::new() }
    }

    /// kstore's own client, as `kubernetes-admin` in the group `system:masters`.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// kstore's own client, as another user. Permissions are judged as on a real cluster.
    pub fn client_as<'a>(&self, user: &str, groups: impl IntoIterator<Item = &'a str>) -> Client {
        client(&self.service_as(user, groups), &self.parts.edge, user, user)
    }

    /// A client of kube-rs, as `kubernetes-admin`, for the namespace `default`. Requests go through memory.
    #[cfg(feature = "kube")]
    pub fn kube(&self) -> kube_client::Client {
        kube_client::Client::new(self.service(), "default")
    }

    /// A client of kube-rs, as another user, for the namespace `default`.
    #[cfg(feature = "kube")]
    pub fn kube_as<'a>(&self, user: &str, groups: impl IntoIterator<Item = &'a str>) -> kube_client::Client {
        kube_client::Client::new(self.service_as(user, groups), "default")
    }

    /// A client of kube-rs, as `kubernetes-admin`, for the namespace `default`, whose requests have a user agent: the name for
    /// [`Faults::client`], and the one that reports of failed waits show.
    ///
    /// # Panics
    /// If the name is no text for a header.
    #[cfg(feature = "kube")]
    pub fn kube_named(&self, agent: &str) -> kube_client::Client {
        let agent = http::HeaderValue::from_str(agent).expect("a user agent is text for a header");
        let service = tower::ServiceBuilder::new()
            .map_request(move |mut request: http::Request<kube_client::client::Body>| {
                request.headers_mut().insert(http::header::USER_AGENT, agent.clone());
                request
            })
            .service(self.service());
        kube_client::Client::new(service, "default")
    }

    /// The Kubernetes REST API and kstore's gRPC API as a tower service, as `kubernetes-admin`.
    pub fn service(&self) -> InProcess {
        self.parts.api.in_process(admin())
    }

    /// As [`Self::service`], as another user.
    pub fn service_as<'a>(&self, user: &str, groups: impl IntoIterator<Item = &'a str>) -> InProcess {
        self.parts.api.in_process(UserInfo::new(user, groups))
    }

    /// Serves the cluster on a free port of the loopback interface, by TLS, for programs outside of this process, and returns where. Later
    /// calls return the same. The cluster accepts connections until it ends. A client without a certificate or token is
    /// `system:anonymous`.
    ///
    /// Bytes of sockets take no virtual time: while the runtime's clock is paused, a wait for a client advances it to the next timer, and
    /// hours may pass before an answer. Use it in real time.
    ///
    /// # Errors
    /// If no port is free, or the machine makes no keys.
    pub async fn listen(&self) -> Result<&Endpoint, ListenError> {
        let listen = || async {
            let (endpoint, listener, tls) = Endpoint::bind().await?;
            self.parts.tasks.spawn(self.parts.api.serve(listener, tls));
            Ok(endpoint)
        };
        self.endpoint.get_or_try_init(listen).await
    }

    /// A kubeconfig file, as YAML, for `kubernetes-admin`; see [`Self::listen`], which this calls.
    ///
    /// # Errors
    /// As [`Self::listen`].
    pub async fn kubeconfig(&self) -> Result<String, ListenError> {
        Ok(self.listen().await?.kubeconfig().to_owned())
    }

    /// Replaces the faults at the API's edge, from now on and from their beginning; `None`: nothing goes wrong any more. Watches that are
    /// to be cut already still are.
    pub fn set_faults(&self, faults: Option<Faults>) {
        self.parts.edge.set(faults);
    }

    /// How many requests met each fault since the faults were set.
    pub fn fault_counts(&self) -> FaultCounts {
        self.parts.edge.counts()
    }

    /// Stops and resumes simulated nodes.
    pub fn nodes(&self) -> &Handle {
        &self.parts.nodes
    }

    /// Whether the cluster's clock follows tokio's.
    pub(crate) fn has_virtual_time(&self) -> bool {
        self.parts.builder.seed.is_some()
    }

    /// Applies every object of a YAML or JSON text by server-side apply, as `kubectl apply --server-side --force-conflicts` does:
    /// CustomResourceDefinitions and Namespaces first, then in the order of the text. Objects without a namespace go to `default`. A
    /// custom kind can be used as soon as its definition is applied. Returns the stored objects in that order.
    ///
    /// # Errors
    /// The first text or object that is refused; objects before it stay.
    pub async fn apply(&self, manifest: &str) -> Result<Vec<Value>, ApplyError> {
        let mut objects = manifest::objects(manifest)?;
        objects.iter().try_for_each(ManifestObject::check)?;
        manifest::definitions_first(&mut objects);
        let (applier, mut stored) = (Applier::new(&self.client), Vec::new());
        for object in objects {
            stored.push(applier.apply(object).await?.object);
        }
        Ok(stored)
    }

    /// Lets the cluster's time pass: in virtual time at once, with everything that happens meanwhile; in real time it waits.
    pub async fn advance(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Ends all tasks of the cluster and frees its memory. On return nothing of it runs.
    pub async fn stop(self) {
        self.parts.stop.cancel();
        self.parts.tasks.close();
        self.parts.tasks.wait().await;
    }
}

impl Drop for Cluster {
    /// Ends the cluster's tasks soon; use [`Cluster::stop`] to wait for that.
    fn drop(&mut self) {
        self.parts.stop.cancel();
    }
}

/// The user of the clients that name none.
const ADMIN: &str = "kubernetes-admin";

/// That user, who may do everything.
pub(crate) fn admin() -> UserInfo {
    UserInfo::new(ADMIN, ["system:masters"])
}
