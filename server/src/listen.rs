//! Binds TCP listeners, also again for a restarted task, and determines the addresses that clients use. The
//! apiserver accepts connections.

use crate::args::ListenAddress;
use anyhow::{Context, anyhow};
use kstore_nondet::Backoff;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpListener;

/// Binds the address given by `flag`. Errors suggest a fix.
pub(crate) async fn bind(address: &ListenAddress, flag: &str) -> anyhow::Result<TcpListener> {
    let bound = TcpListener::bind((host(address), address.port)).await;
    bound.map_err(|error| bind_error(error, address, flag))
}

/// The first address that the one given by `flag` stands for.
pub(crate) async fn resolve(address: &ListenAddress, flag: &str) -> anyhow::Result<SocketAddr> {
    let found = tokio::net::lookup_host((host(address), address.port)).await;
    let mut found = found.map_err(|error| bind_error(error, address, flag))?;
    found.next().ok_or_else(|| anyhow!("{} has no address; see {flag}", address.host))
}

/// Every interface, if the address names none.
fn host(address: &ListenAddress) -> &str {
    if address.host.is_empty() { "0.0.0.0" } else { &address.host }
}

/// Why the address given by `flag` cannot be bound, with a fix.
pub(crate) fn bind_error(error: std::io::Error, address: &ListenAddress, flag: &str) -> anyhow::Error {
    let host = host(address);
    let shown = format!("{}:{}", address.host, address.port);
    match error.kind() {
        ErrorKind::AddrInUse => anyhow!(
            "port {} of {host} is in use by another process; choose another with {flag} {host}:PORT (0 picks a free one)",
            address.port
        ),
        ErrorKind::PermissionDenied => {
            anyhow!("no permission to listen on {shown}; choose a port above 1023 with {flag} {host}:PORT")
        }
        ErrorKind::AddrNotAvailable => anyhow!("{host} is not an address of this machine; see {flag}"),
        _ => anyhow!(error).context(format!("cannot listen on {shown}; see {flag}")),
    }
}

/// The address for a client on this machine: loopback in place of a wildcard.
pub(crate) fn reachable(listener: &TcpListener) -> anyhow::Result<SocketAddr> {
    let mut address = listener.local_addr().context("the listener has no address")?;
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        IpAddr::V4(_) | IpAddr::V6(_) => {}
    }
    Ok(address)
}

/// The attempts to bind an address again, about a second together. A process that is being started has copies of all
/// open sockets until it begins to run its program, so the closed listener may occupy the address for a moment.
const REBIND_ATTEMPTS: u32 = 10;

/// The waits between them.
const REBIND_WAITS: Backoff = Backoff::doubling(Duration::from_millis(5), Duration::from_millis(200));

/// The listener of a task that may be restarted. The first generation of the task gets the bound socket and
/// closes it at its end; each later generation binds the same address again.
#[derive(Debug)]
pub(crate) struct RebindableListener {
    address: SocketAddr,
    bound: Option<TcpListener>,
}

impl RebindableListener {
    /// Wraps a bound listener.
    pub(crate) fn new(bound: TcpListener) -> anyhow::Result<Self> {
        let address = bound.local_addr().context("the listener has no address")?;
        Ok(Self { address, bound: Some(bound) })
    }

    /// The listener for the next generation. `None`, with an error in the log, if the address cannot be bound, for
    /// about a second if it is in use.
    pub(crate) fn next(&mut self) -> impl Future<Output = Option<TcpListener>> + Send + use<> {
        let (bound, address) = (self.bound.take(), self.address);
        async move {
            if bound.is_some() {
                return bound;
            }
            bind_again(address).await
        }
    }
}

/// Binds the address of a listener that was closed.
async fn bind_again(address: SocketAddr) -> Option<TcpListener> {
    let (mut waits, mut left) = (REBIND_WAITS.waits(), REBIND_ATTEMPTS);
    loop {
        left -= 1;
        match TcpListener::bind(address).await {
            Ok(listener) => return Some(listener),
            Err(error) if error.kind() == ErrorKind::AddrInUse && left > 0 => {
                tokio::time::sleep(waits.advance()).await;
            }
            Err(error) => {
                tracing::error!(%address, %error, "cannot listen again");
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_restarted_task_listens_at_the_address_of_the_first() {
        let first = bind(&"127.0.0.1:0".parse().unwrap(), "--listen").await.unwrap();
        let mut listeners = RebindableListener::new(first).unwrap();
        let first = listeners.next().await.unwrap();
        let address = first.local_addr().unwrap();
        let client = tokio::net::TcpStream::connect(address).await.unwrap();
        let served = first.accept().await.unwrap();
        assert!(listeners.next().await.is_none(), "the first generation has it");
        // Open connections of the first generation do not occupy the address.
        drop(first);
        assert_eq!(listeners.next().await.unwrap().local_addr().unwrap(), address);
        drop((client, served));
    }

    /// A child of another task has copies of this process's sockets until its program runs.
    #[tokio::test]
    async fn an_address_that_is_in_use_for_a_moment_is_bound_again() {
        let first = bind(&"127.0.0.1:0".parse().unwrap(), "--listen").await.unwrap();
        let mut listeners = RebindableListener::new(first).unwrap();
        let first = listeners.next().await.unwrap();
        let address = first.local_addr().unwrap();
        let again = tokio::spawn(listeners.next());
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(first);
        assert_eq!(again.await.unwrap().unwrap().local_addr().unwrap(), address);
    }

    #[tokio::test]
    async fn a_port_in_use_is_reported_and_a_wildcard_is_reached_on_loopback() {
        let any = bind(&":0".parse().unwrap(), "--listen").await.unwrap();
        let taken = reachable(&any).unwrap();
        assert_eq!(taken.ip(), Ipv4Addr::LOCALHOST);
        let again = bind(&format!("0.0.0.0:{}", taken.port()).parse().unwrap(), "--listen")
            .await
            .unwrap_err()
            .to_string();
        assert!(again.contains("is in use by another process"), "{again}");
    }
}
