//! Connections over the network: TLS by rustls, HTTP/2 by tonic's channel, which reconnects on its own.

use crate::client::Transport;
use crate::kube_api::KubeApi;
use crate::kubeconfig::Identity;
use crate::limits::{CONNECT_TIMEOUT, KEEP_ALIVE};
use crate::{Client, Kubeconfig};
use futures::future::BoxFuture;
use http::Uri;
use hyper_util::rt::TokioIo;
use kstore_tls_trust::{AnyServer, ListedServers};
use rustls::ClientConfig;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint};
use tower::Service;

/// The reason why a connection failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The kubeconfig's server is not an https URL.
    #[error("invalid server URL {server:?}: it must begin with https")]
    Address {
        /// The server in the kubeconfig.
        server: String,
    },
    /// A certificate or key of the kubeconfig is invalid.
    #[error("invalid kubeconfig: {what}: {error}")]
    Credentials {
        /// The field: which certificate or key.
        what: &'static str,
        /// The defect.
        error: String,
    },
    /// The server is another one than kstore's, for example a kube-apiserver.
    #[error(
        "the server at {server} does not speak kstore's API (kstore.v1 over gRPC): it answered {status}; \
         components of kstore need an API server of kstore"
    )]
    Protocol {
        /// The server in the kubeconfig.
        server: String,
        /// The HTTP status of the answer.
        status: http::StatusCode,
    },
    /// The server does not answer requests now, so its API is not known. A retry may succeed.
    #[error(
        "the server at {server} serves no requests now{}: try again",
        .status.map(|status| format!(" (it answered {status})")).unwrap_or_default()
    )]
    NotServing {
        /// The server in the kubeconfig.
        server: String,
        /// The HTTP status of the answer, if one came.
        status: Option<http::StatusCode>,
    },
    /// The server could not be reached. A retry may succeed.
    #[error("unable to connect to the server: {0}")]
    Connect(#[from] tonic::transport::Error),
}

/// The API through which clients reach the objects of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerApi {
    /// kstore's gRPC API.
    Kstore,
    /// Kubernetes' REST API alone, as a kube-apiserver: see [`Client::over_kubernetes`].
    Kubernetes,
}

impl Client {
    /// A client that is connected to the server of a kubeconfig. If the connection breaks later, the next
    /// call reconnects.
    ///
    /// # Errors
    ///
    /// The kubeconfig is invalid, the server cannot be reached now, or it speaks no gRPC.
    ///
    /// Boxed here, so that no program that connects generates the code of a connection again.
    pub fn connect<'a>(
        kubeconfig: &'a Kubeconfig,
        agent: &'a str,
    ) -> BoxFuture<'a, Result<Self, ConnectError>> {
        Box::pin(async move {
            let connection = Connection::of(kubeconfig)?;
            let client = Self::over(connection.open().await?, agent);
            match client.server_api().await {
                // A server that cannot answer now may be one of kstore: its calls say what is wrong.
                Ok(Ok(())) | Err(_) => Ok(client),
                Ok(Err(status)) => Err(ConnectError::Protocol { server: kubeconfig.server.clone(), status }),
            }
        })
    }

    /// A client that is connected to the server of a kubeconfig, whichever API it has; a client of an API server without kstore's API is as
    /// [`Client::over_kubernetes`] says. If the connection breaks later, the next call reconnects.
    ///
    /// # Errors
    ///
    /// The kubeconfig is invalid, or the server cannot be reached or does not answer now.
    pub fn connect_to_any<'a>(
        kubeconfig: &'a Kubeconfig,
        agent: &'a str,
    ) -> BoxFuture<'a, Result<(Self, ServerApi), ConnectError>> {
        Box::pin(async move {
            let connection = Connection::of(kubeconfig)?;
            let client = Self::over(connection.open().await?, agent);
            match client.server_api().await {
                Ok(Ok(())) => Ok((client, ServerApi::Kstore)),
                Ok(Err(_)) => {
                    let api = KubeApi::new(client.transport, connection.opener());
                    Ok((api.into_client(agent), ServerApi::Kubernetes))
                }
                Err(status) => Err(ConnectError::NotServing { server: kubeconfig.server.clone(), status }),
            }
        })
    }

    /// Like [`Client::connect`], but the first call connects.
    ///
    /// # Errors
    ///
    /// The kubeconfig is invalid.
    pub fn connect_lazy(kubeconfig: &Kubeconfig, agent: &str) -> Result<Self, ConnectError> {
        Self::connect_lazy_to(kubeconfig, agent, ServerApi::Kstore)
    }

    /// A client of a server that is known to have this API. The first call connects.
    ///
    /// # Errors
    ///
    /// The kubeconfig is invalid.
    pub fn connect_lazy_to(
        kubeconfig: &Kubeconfig,
        agent: &str,
        api: ServerApi,
    ) -> Result<Self, ConnectError> {
        let connection = Connection::of(kubeconfig)?;
        let client = Self::over(connection.open_lazy(), agent);
        Ok(match api {
            ServerApi::Kstore => client,
            ServerApi::Kubernetes => KubeApi::new(client.transport, connection.opener()).into_client(agent),
        })
    }
}

/// How to connect to the server of a kubeconfig.
#[derive(Clone)]
struct Connection {
    endpoint: Endpoint,
    connector: Connector,
    bearer: Option<http::HeaderValue>,
}

impl Connection {
    fn of(kubeconfig: &Kubeconfig) -> Result<Self, ConnectError> {
        let (endpoint, connector) = prepare(kubeconfig)?;
        let bearer = kubeconfig.token.as_ref().and_then(|token| format!("Bearer {token}").parse().ok());
        Ok(Self { endpoint, connector, bearer })
    }

    async fn open(&self) -> Result<Authorized, ConnectError> {
        let connector = self.connector.clone();
        let connect = tower::service_fn(move |_: Uri| connector.clone().connect());
        let channel = self.endpoint.connect_with_connector(connect).await?;
        Ok(Authorized { channel, bearer: self.bearer.clone() })
    }

    fn open_lazy(&self) -> Authorized {
        let connector = self.connector.clone();
        let connect = tower::service_fn(move |_: Uri| connector.clone().connect());
        let channel = self.endpoint.connect_with_connector_lazy(connect);
        Authorized { channel, bearer: self.bearer.clone() }
    }

    /// A function that makes further connections, which connect at the first call.
    fn opener(self) -> impl Fn() -> Transport + Send + Sync + 'static {
        move || Client::over(self.open_lazy(), "").transport
    }
}

/// A connection that adds a bearer token to each request.
#[derive(Clone)]
struct Authorized {
    channel: Channel,
    bearer: Option<http::HeaderValue>,
}

impl Service<http::Request<tonic::body::Body>> for Authorized {
    type Response = http::Response<tonic::body::Body>;
    type Error = tonic::transport::Error;
    type Future = <Channel as Service<http::Request<tonic::body::Body>>>::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<http::Request<tonic::body::Body>>::poll_ready(&mut self.channel, cx)
    }

    fn call(&mut self, mut request: http::Request<tonic::body::Body>) -> Self::Future {
        if let Some(bearer) = &self.bearer {
            request.headers_mut().insert(http::header::AUTHORIZATION, bearer.clone());
        }
        self.channel.call(request)
    }
}

fn prepare(kubeconfig: &Kubeconfig) -> Result<(Endpoint, Connector), ConnectError> {
    let address = || ConnectError::Address { server: kubeconfig.server.clone() };
    let uri: Uri = kubeconfig.server.parse().map_err(|_| address())?;
    let host = uri.host().ok_or_else(address)?.trim_matches(['[', ']']).to_owned();
    if uri.scheme_str() != Some("https") {
        return Err(address());
    }
    let expected = kubeconfig.tls_server_name.as_ref().unwrap_or(&host).clone();
    let connector = Connector {
        name: ServerName::try_from(expected).map_err(|_| address())?,
        address: (host, uri.port_u16().unwrap_or(443)),
        tls: TlsConnector::from(Arc::new(tls(kubeconfig)?)),
    };
    let endpoint = Endpoint::from(uri)
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .keep_alive_while_idle(true)
        .http2_adaptive_window(true);
    Ok((endpoint, connector))
}

#[derive(Clone)]
struct Connector {
    address: (String, u16),
    name: ServerName<'static>,
    tls: TlsConnector,
}

impl Connector {
    async fn connect(self) -> std::io::Result<TokioIo<TlsStream<TcpStream>>> {
        let handshake = async {
            let tcp = TcpStream::connect((self.address.0.as_str(), self.address.1)).await?;
            tcp.set_nodelay(true)?;
            self.tls.connect(self.name, tcp).await
        };
        let late = || std::io::Error::new(std::io::ErrorKind::TimedOut, "no connection in time");
        let limit: Duration = CONNECT_TIMEOUT;
        Ok(TokioIo::new(tokio::time::timeout(limit, handshake).await.map_err(|_| late())??))
    }
}

fn tls(kubeconfig: &Kubeconfig) -> Result<ClientConfig, ConnectError> {
    let bad =
        |what, error: &dyn std::fmt::Display| ConnectError::Credentials { what, error: error.to_string() };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| bad("TLS versions", &e))?;
    let verifier: Arc<dyn ServerCertVerifier> = match kubeconfig.insecure {
        true => Arc::new(AnyServer::new(provider)),
        false => {
            const AUTHORITY: &str = "certificate authority";
            let listed = certificates(AUTHORITY, kubeconfig.ca.as_deref().unwrap_or_default())?;
            Arc::new(ListedServers::new(listed, provider).map_err(|e| bad(AUTHORITY, &e))?)
        }
    };
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = match &kubeconfig.identity {
        None => builder.with_no_client_auth(),
        Some(Identity { certificate, key }) => {
            let chain = certificates("client certificate", certificate)?;
            let key = private_key(key)?;
            builder.with_client_auth_cert(chain, key).map_err(|e| bad("client certificate", &e))?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

fn certificates(what: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ConnectError> {
    let bad = |error: String| ConnectError::Credentials { what, error };
    let all = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let all = all.map_err(|e| bad(e.to_string()))?;
    match all.is_empty() {
        true => Err(bad("holds no certificate".into())),
        false => Ok(all),
    }
}

fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, ConnectError> {
    let bad = |error: String| ConnectError::Credentials { what: "client key", error };
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        pem::Error::NoItemsFound => bad("holds no private key".into()),
        other => bad(other.to_string()),
    })
}
