//! [`Network`]: the [`Outbound`] that uses the network. It has one pool of HTTP/1.1 connections for each
//! server and set of trusted authorities.

use super::call_runtime::in_real_time;
use super::connect::Connector;
use super::exchange::{self, cause};
use super::front_proxy::FrontProxy;
use super::service::{self, ServiceBackends, Unreachable};
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
        let sent = self.send(&*cluster, call).map_err(NoAnswer)?;
        exchange::answer(sent, timeout).await
    }

    /// Begins a call. The returned future yields the head of the answer.
    fn send(
        &self,
        cluster: &dyn Lookup,
        call: Call,
    ) -> Result<BoxFuture<'static, Result<Response<Incoming>, hyper_util::client::legacy::Error>>, String>
    {
        let uri: http::Uri = call.url().parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
        let (address, server_name) = match &call.client.endpoint {
            Endpoint::Url(_) => {
                let host = uri.host().ok_or("http: no Host in request URL")?;
                let address = format!("{host}:{}", uri.port_u16().unwrap_or(443));
                (address, host.trim_matches(['[', ']']).to_owned())
            }
            Endpoint::Service { namespace, name, port, .. } => {
                let address = service::resolve(cluster, &self.0.backends, namespace, name, *port)?;
                (address, format!("{name}.{namespace}.svc"))
            }
        };
        let trust = Trust::Authorities(call.client.ca_bundle);
        let pool = self.pool(PoolKey { address, server_name, trust, as_front_proxy: false })?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(uri)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, */*")
            .header(USER_AGENT, "kstore-apiserver")
            .header(CONTENT_LENGTH, call.body.len())
            .body(Body::from(call.body))
            .map_err(|error| error.to_string())?;
        Ok(pool.request(request).boxed())
    }

    /// Sends a request to an API server. The returned future yields the head of the answer.
    fn forward_request(
        &self,
        cluster: &dyn Lookup,
        backend: ApiBackend,
        mut request: Request<Body>,
    ) -> Result<hyper_util::client::legacy::ResponseFuture, String> {
        let ApiBackend { namespace, name, port, .. } = &backend;
        let address = service::resolve(cluster, &self.0.backends, namespace, name, *port)?;
        let server_name = backend.host();
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let uri = http::Uri::builder().scheme("https").authority(format!("{server_name}:{}", backend.port));
        *request.uri_mut() = uri.path_and_query(path).build().map_err(|error| error.to_string())?;
        *request.version_mut() = http::Version::HTTP_11;
        let pool = self.pool(PoolKey { address, server_name, trust: backend.trust, as_front_proxy: true })?;
        Ok(pool.request(request))
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
        };
        let pool = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
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
            let answered = in_real_time(Box::pin(sent.map_err(NoAnswer)?)).await;
            let answered = answered.map_err(|error| NoAnswer(cause(&error)))?;
            Ok(answered.map(Body::new))
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
