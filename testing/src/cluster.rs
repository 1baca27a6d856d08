//! [`Cluster`]: a running cluster, its API clients, and its shutdown.

use crate::components::Builder;
use crate::faults::{FaultCounts, FaultInjector, Faults, OWN_AGENT};
use crate::listen::{Endpoint, ListenError};
use kstore_access::token::Tokens;
use kstore_apiserver::InProcess;
use kstore_client::Client;
use kstore_client::manifest::{self, Applier, ApplyError, ManifestObject};
use kstore_cluster::ControlPlane;
use kstore_kubelet_sim::Handle;
use kstore_registry::user::UserInfo;
use kstore_store::Store;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;

/// A running Kubernetes control plane in this process. It ends with [`Cluster::stop`], or when it is dropped.
///
/// Any number of clusters can run in one process, isolated from each other. They share the memory of initial objects, such as default
/// roles, which the first cluster of the process creates. Only the namespaces among them have different UIDs in each cluster.
pub struct Cluster {
    pub(crate) plane: ControlPlane,
    /// The builder that the cluster was started from.
    pub(crate) builder: Builder,
    /// Injects faults into API requests.
    pub(crate) injector: FaultInjector,
    pub(crate) tokens: Option<Arc<Tokens>>,
    client: Client,
    endpoint: OnceCell<Endpoint>,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("revision", &self.store().revision()).finish_non_exhaustive()
    }
}

impl Cluster {
    /// A builder that chooses the components of a cluster.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(
        plane: ControlPlane,
        builder: Builder,
        injector: FaultInjector,
        tokens: Option<Arc<Tokens>>,
    ) -> Self {
        let client = plane.client(admin(), OWN_AGENT);
        Self { plane, builder, injector, tokens, client, endpoint: OnceCell::new() }
    }

    pub(crate) fn store(&self) -> &Store {
        self.plane.store().expect("the cluster has a store in memory")
    }

    /// kstore's own client, as `kubernetes-admin` in the group `system:masters`.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// kstore's own client, as another user, who is authorized as on a real cluster.
    pub fn client_as<'a>(&self, user: &str, groups: impl IntoIterator<Item = &'a str>) -> Client {
        self.plane.client(UserInfo::new(user, groups), user)
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

    /// A client of kube-rs, as `kubernetes-admin`, for the namespace `default`, with this user agent.
    /// [`Faults::client`] selects clients by it, and reports of failed waits show it.
    ///
    /// # Panics
    /// If `agent` is not a valid header value.
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
        self.plane.service(admin())
    }

    /// The Kubernetes REST API and kstore's gRPC API as a tower service, as another user.
    pub fn service_as<'a>(&self, user: &str, groups: impl IntoIterator<Item = &'a str>) -> InProcess {
        self.plane.service(UserInfo::new(user, groups))
    }

    /// Serves the API over TLS on a free port of the loopback interface, for other processes, and returns the endpoint. Later calls return
    /// the same endpoint. The cluster accepts connections until it ends. A client without a certificate or token is `system:anonymous`.
    ///
    /// Use it in real time. With a paused runtime clock, every wait for a socket advances virtual time to the next timer, so hours may pass
    /// before a response.
    ///
    /// # Errors
    /// The port cannot be bound, or the keys and certificates cannot be created.
    pub async fn listen(&self) -> Result<&Endpoint, ListenError> {
        let listen = || async {
            let (endpoint, listener, tls) = Endpoint::bind().await?;
            self.plane.phases().listeners.spawn("listener", self.plane.api().serve(listener, tls));
            Ok(endpoint)
        };
        self.endpoint.get_or_try_init(listen).await
    }

    /// The text of a kubeconfig file (YAML) for `kubernetes-admin`. Calls [`Self::listen`].
    ///
    /// # Errors
    /// [`Self::listen`] fails.
    pub async fn kubeconfig(&self) -> Result<String, ListenError> {
        Ok(self.listen().await?.kubeconfig().to_owned())
    }

    /// Replaces the injected faults and resets their request counts; `None` ends them. A watch that was already selected to break still
    /// breaks.
    pub fn set_faults(&self, faults: Option<Faults>) {
        self.injector.set(faults);
    }

    /// Number of requests that each fault hit since the last [`Self::set_faults`].
    pub fn fault_counts(&self) -> FaultCounts {
        self.injector.counts()
    }

    /// Handle that stops and resumes simulated nodes.
    pub fn nodes(&self) -> &Handle {
        self.plane.nodes()
    }

    /// Whether the cluster has virtual time.
    pub(crate) fn has_virtual_time(&self) -> bool {
        self.builder.seed.is_some()
    }

    /// Applies every object of a YAML or JSON text by server-side apply, as `kubectl apply --server-side --force-conflicts` does:
    /// CustomResourceDefinitions and Namespaces first, then the others in the order of the text. Namespaced objects without a namespace are
    /// created in `default`. A custom kind is usable as soon as its definition is applied. Returns the stored objects in the order of
    /// application.
    ///
    /// # Errors
    /// The first document or object that is refused; objects before it stay applied.
    pub async fn apply(&self, manifest: &str) -> Result<Vec<Value>, ApplyError> {
        let mut objects = manifest::objects(manifest)?;
        objects.iter().try_for_each(ManifestObject::check)?;
        manifest::sort_for_apply(&mut objects);
        let (applier, mut stored) = (Applier::new(&self.client), Vec::new());
        for object in objects {
            stored.push(applier.apply(object).await?.object);
        }
        Ok(stored)
    }

    /// Lets `time` of the cluster's clock pass. In virtual time, everything that is due meanwhile happens at once; in real time, this
    /// waits.
    pub async fn advance(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Ends all tasks of the cluster and frees its memory. On return no task of the cluster runs.
    pub async fn stop(self) {
        self.plane.end(None).await;
    }
}

/// User name of clients for which the test names no user.
const ADMIN: &str = "kubernetes-admin";

/// The user `kubernetes-admin` in the group `system:masters`, which is authorized for every request.
pub(crate) fn admin() -> UserInfo {
    UserInfo::new(ADMIN, ["system:masters"])
}
