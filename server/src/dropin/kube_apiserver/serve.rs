//! Startup of kube-apiserver. It writes its certificates first, because other programs read them while it waits. Then it opens its port,
//! waits for etcd, which may start later, and starts the API server.

use super::identity;
use super::settings::Apiserver;
use crate::assembly::ApiListener;
use crate::tls::ServingCertificate;
use crate::wiring::{self, Cluster};
use crate::{listen, open_files, pki, server_config, tls};
use anyhow::{Context, bail};
use kstore_access::authn::Bearers;
use kstore_apiserver::ServerConfig;
use kstore_apiserver::config::{AccessConfig, AuthoritiesConfig, NetworkConfig};
use kstore_nondet::{Backoff, Nondet};
use kstore_storage::storage::etcd::Url;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, sleep, timeout};

/// Time that etcd has to start; Kubernetes' `--storage-initialization-timeout` has the same default.
const ETCD_START: Duration = Duration::from_secs(60);
/// Timeout of a connection attempt to one etcd member, before the next one is tried.
const ETCD_CONNECT: Duration = Duration::from_secs(2);
/// First pause between two rounds of attempts; it doubles up to [`ETCD_PAUSE_MAX`]. Both are short, because tests wait for the start.
const ETCD_PAUSE: Duration = Duration::from_millis(5);
const ETCD_PAUSE_MAX: Duration = Duration::from_millis(100);

/// Starts the server; on return it serves requests.
pub(super) async fn start(apiserver: Apiserver) -> anyhow::Result<Cluster> {
    let (api, nondet) = (&apiserver.api, Nondet::real());
    let mut names = pki::serving_names(&api.listen.host, api.service_ranges.api_address());
    names.extend(apiserver.external_host.clone());
    names.extend(apiserver.advertise.map(|address| address.to_string()));
    names.dedup();
    let serving = apiserver.serving.load(&names, nondet.clock.now())?;
    let front_proxies =
        identity::front_proxies(apiserver.front_proxies.as_ref(), apiserver.client_ca.as_ref())?;
    let (authorities, client_ca) =
        identity::authorities(apiserver.client_ca.as_ref(), apiserver.front_proxies.as_ref())?;
    let tls = ServingCertificate::of(&serving, apiserver.serving.files())
        .and_then(|serving| tls::server(serving, authorities))
        .context("the server's certificate and its key cannot be used for TLS")?;
    let config = server_config::by_flags(api, &nondet)?;
    let file = identity::token_file(apiserver.tokens.as_ref())?.map(Arc::new);
    let tokens = Some(Arc::new(identity::tokens(&apiserver.service_accounts)?));
    let front_proxy = identity::front_proxy(apiserver.front_proxy.as_ref())?;
    let listener = listen::bind(&api.listen, "--secure-port").await?;
    let reachable = listen::reachable(&listener)?;
    let address = match apiserver.advertise {
        Some(ip) => SocketAddr::new(ip, reachable.port()),
        None => reachable,
    };
    wiring::check_family(&api.service_ranges, address)?;
    if let Some(etcd) = api.storage.external() {
        wait_for(&etcd.servers).await?;
    }
    let external_address = apiserver.external_host.as_ref().map(|host| format!("{host}:{}", address.port()));
    let config = ServerConfig {
        network: NetworkConfig {
            advertised: address.to_string(),
            external_address,
            leaves_endpoints: apiserver.leaves_endpoints,
            connections: open_files::raise(),
            ..config.network
        },
        authorities: AuthoritiesConfig {
            client_ca: client_ca.pem,
            front_proxy_ca: None,
            front_proxies: front_proxies.map(Arc::new),
        },
        access: AccessConfig { tokens, bearers: Bearers { file, ..config.access.bearers }, ..config.access },
        ..config
    };
    let api_listener = ApiListener { listener, tls, config, followed: client_ca.followed, front_proxy };
    Cluster::start_apiserver(api, &apiserver.loops, api_listener, serving.certificate_pem).await
}

/// Waits until one of the etcd members accepts a connection; retries with growing pauses.
async fn wait_for(servers: &[Url]) -> anyhow::Result<()> {
    let deadline = Instant::now() + ETCD_START;
    let mut pauses = Backoff::doubling(ETCD_PAUSE, ETCD_PAUSE_MAX).waits();
    loop {
        let mut last = None;
        for server in servers {
            match timeout(ETCD_CONNECT, connect(server)).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => last = Some(format!("{server}: {error}")),
                Err(_) => last = Some(format!("{server}: connection timed out")),
            }
        }
        if Instant::now() >= deadline {
            let last = last.unwrap_or_default();
            bail!(
                "no etcd of --etcd-servers accepted a connection within {} s ({last})",
                ETCD_START.as_secs()
            );
        }
        sleep(pauses.advance()).await;
    }
}

async fn connect(server: &Url) -> io::Result<()> {
    match &server.socket {
        Some(socket) => UnixStream::connect(socket).await.map(drop),
        None => TcpStream::connect((server.host.as_str(), server.port)).await.map(drop),
    }
}
