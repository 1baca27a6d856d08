//! [`Network`]: the [`Outbound`] that uses the network. It has one pool of HTTP/1.1 connections for each
//! server and set of trusted authorities.

use super::call_runtime::in_real_time;
use super::connect::{Connector, DialledPod};
use super::exchange::{self, cause};
use super::front_proxy::FrontProxy;
use super::service::{self, Destination, ServiceBackends, Unreachable};
use super::tls::{self, TlsError};
use super::trust::Trust;
use super::{Answer, ApiBackend, Call, NoAnswer, Outbound};
use crate::lookup::Lookup;
use axum::body::Body;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, USER_AGENT};
use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kstore_api::admission::client::Endpoint;
use kstore_storage::limits;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Idle connections to one server that stay open.
const IDLE_CONNECTIONS: usize = 16;

type Pool = Client<Connector, Body>;

/// The HTTPS client. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Network(Arc<Shared>);

struct Shared {
    backends: ServiceBackends,
    /// Connection pools, the most recently used last; at most [`limits::OUTBOUND_SERVERS`].
    pools: Mutex<VecDeque<(PoolKey, Pool)>>,
    /// The authorities that this machine trusts, loaded when they are first needed.
    system_roots: OnceLock<Arc<RootCertStore>>,
    /// The client certificate for API servers; webhooks never receive it.
    front_proxy: Option<FrontProxy>,
}

/// Calls with the same key may share connections.
#[derive(Clone, PartialEq, Eq)]
struct PoolKey {
    address: String,
    server_name: String,
    trust: Trust,
    /// Whether the server receives the client certificate of the front proxy.
    as_front_proxy: bool,
    /// The pod that is connected to, and how; `None`: the address is dialled.
    pod: Option<DialledPod>,
}

/// The answer to a request, once its head has come.
type Sent = BoxFuture<'static, Result<Response<Incoming>, hyper_util::client::legacy::Error>>;

/// Where a request goes.
struct Way {
    address: String,
    pod: Option<DialledPod>,
}

impl Way {
    /// The way to a port of a Service: through the node of its pod where one can be reached, else to its address.
    fn to_service(
        cluster: &dyn Lookup,
        backends: &ServiceBackends,
        (namespace, name, port): (&str, &str, u16),
    ) -> Result<Self, String> {
        let Destination { address, pod } = service::resolve(cluster, backends, namespace, name, port)?;
        let dialled = |port| cluster.pod_dialer().map(|dialer| DialledPod { dialer, port });
        let pod = pod.and_then(dialled).filter(|pod| pod.dialer.reaches(&pod.port.node));
        Ok(Self { address, pod })
    }
}

impl Network {
    /// A client without open connections. `backends` take precedence over the cluster's objects when a
    /// Service is resolved.
    pub fn new(backends: ServiceBackends) -> Self {
        Self::build(backends, None)
    }

    /// Like [`Network::new`], with a client certificate as front proxy. Without it, API servers behind
    /// APIServices do not trust the identities of callers in forwarded requests.
    pub fn with_front_proxy(backends: ServiceBackends, front_proxy: FrontProxy) -> Self {
        Self::build(backends, Some(front_proxy))
    }

    fn build(backends: ServiceBackends, front_proxy: Option<FrontProxy>) -> Self {
        let (pools, system_roots) = (Mutex::default(), OnceLock::new());
        Self(Arc::new(Shared { backends, pools, system_roots, front_proxy }))
    }

    async fn answer(self, cluster: Arc<dyn Lookup>, call: Call) -> Result<Answer, NoAnswer> {
        let timeout = call.timeout;
        let (sent, in_cluster) = self.send(&*cluster, call).map_err(NoAnswer)?;
        exchange::answer(sent, timeout, in_cluster).await
    }

    /// Begins a call. Returns what yields the head of the answer, and whether a pod of the cluster answers.
    fn send(&self, cluster: &dyn Lookup, call: Call) -> Result<(Sent, bool), String> {
        let uri: http::Uri = call.url().parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
        let (Way { address, pod }, server_name) = match &call.client.endpoint {
            Endpoint::Url(_) => {
                let host = uri.host().ok_or("http: no Host in request URL")?;
                let address = format!("{host}:{}", uri.port_u16().unwrap_or(443));
                (Way { address, pod: None }, host.trim_matches(['[', ']']).to_owned())
            }
            Endpoint::Service { namespace, name, port, .. } => {
                let way = Way::to_service(cluster, &self.0.backends, (namespace, name, *port))?;
                (way, format!("{name}.{namespace}.svc"))
            }
        };
        let trust = Trust::Authorities(call.client.ca_bundle);
        let in_cluster = pod.is_some();
        let pool = self.pool(PoolKey { address, server_name, trust, as_front_proxy: false, pod })?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(uri)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, */*")
            .header(USER_AGENT, "kstore-apiserver")
            .header(CONTENT_LENGTH, call.body.len())
            .body(Body::from(call.body))
            .map_err(|error| error.to_string())?;
        Ok((pool.request(request).boxed(), in_cluster))
    }

    /// Sends a request to an API server. Returns what yields the head of the answer, and whether a pod of the cluster answers.
    fn forward_request(
        &self,
        cluster: &dyn Lookup,
        backend: ApiBackend,
        mut request: Request<Body>,
    ) -> Result<(Sent, bool), String> {
        let ApiBackend { namespace, name, port, .. } = &backend;
        let Way { address, pod } = Way::to_service(cluster, &self.0.backends, (namespace, name, *port))?;
        let in_cluster = pod.is_some();
        let server_name = backend.host();
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let uri = http::Uri::builder().scheme("https").authority(format!("{server_name}:{}", backend.port));
        *request.uri_mut() = uri.path_and_query(path).build().map_err(|error| error.to_string())?;
        *request.version_mut() = http::Version::HTTP_11;
        let trust = backend.trust;
        let pool = self.pool(PoolKey { address, server_name, trust, as_front_proxy: true, pod })?;
        Ok((pool.request(request).boxed(), in_cluster))
    }

    fn pool(&self, key: PoolKey) -> Result<Pool, String> {
        let mut pools = self.0.pools.lock();
        if let Some(at) = pools.iter().position(|(other, _)| *other == key) {
            let found = pools.remove(at).expect("the position was just found");
            pools.push_back(found.clone());
            return Ok(found.1);
        }
        let server_name = ServerName::try_from(key.server_name.clone());
        let connector = Connector {
            address: key.address.as_str().into(),
            server_name: server_name.map_err(|error| format!("{:?}: {error}", key.server_name))?,
            tls: self.tls(&key.trust, key.as_front_proxy)?,
            pod: key.pod.clone(),
        };
        // A connection to a pod ends with its request: a container would be kept busy, and each fork of a cluster has its own.
        let idle = if key.pod.is_some() { 0 } else { IDLE_CONNECTIONS };
        let pool = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(idle)
            .build(connector);
        if pools.len() >= limits::OUTBOUND_SERVERS {
            pools.pop_front();
        }
        pools.push_back((key, pool.clone()));
        Ok(pool)
    }

    fn tls(&self, trust: &Trust, as_front_proxy: bool) -> Result<Arc<ClientConfig>, String> {
        let identity = self.0.front_proxy.as_ref().filter(|_| as_front_proxy);
        let identity = identity.map(|FrontProxy { certificates, key }| (&certificates[..], key));
        let config = tls::client_config(trust, || self.system_roots(), identity);
        config.map(Arc::new).map_err(|error| match error {
            TlsError::Trust(text) => text,
            TlsError::Identity(error) => format!("the front proxy's certificate cannot be used: {error}"),
        })
    }

    /// The authorities that this machine trusts.
    fn system_roots(&self) -> Arc<RootCertStore> {
        self.0.system_roots.get_or_init(|| Arc::new(tls::system_roots())).clone()
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("backends", &self.0.backends).finish_non_exhaustive()
    }
}

impl Outbound for Network {
    fn post(&self, cluster: Arc<dyn Lookup>, call: Call) -> BoxFuture<'static, Result<Answer, NoAnswer>> {
        self.clone().answer(cluster, call).boxed()
    }

    fn check(&self, cluster: &dyn Lookup, backend: &ApiBackend) -> Result<(), Unreachable> {
        self.0.backends.check(cluster, &backend.namespace, &backend.name, backend.port)
    }

    fn forward(
        &self,
        cluster: Arc<dyn Lookup>,
        backend: ApiBackend,
        request: Request<Body>,
    ) -> BoxFuture<'static, Result<Response<Body>, NoAnswer>> {
        let sent = self.forward_request(&*cluster, backend, request);
        async move {
            let (sent, in_cluster) = sent.map_err(NoAnswer)?;
            let answered = if in_cluster { sent.await } else { in_real_time(sent).await };
            let answered = answered.map_err(|error| NoAnswer(cause(&error)))?;
            Ok(answered.map(Body::new))
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
