//! Requests that a kubelet makes for a hook or a probe, to servers of known images.

use super::{Snapshot, Streams};
use crate::limits::{EXECUTION_OUTPUT, PROBE_REDIRECTS};
use kstore_api::version::Minor;
use kstore_container_sim::http::ReceivedResponse;
use kstore_container_sim::{
    NetworkCall, NetworkEnd, NetworkFailure, ReceivedEnd, TlsClient, TlsFailure, TlsTrust,
};
use std::net::{IpAddr, SocketAddr};

/// The answer to a request, or the text of its failure.
type Answer = Result<ReceivedResponse, String>;

impl Streams {
    /// Asks a port of a pod for a path, with TLS if the flag says so: 0 if the answer is a success or a redirect to elsewhere, else 1 with
    /// the reason in `output`.
    pub(super) async fn request(
        &self,
        snapshot: &Snapshot,
        port: (u16, bool),
        path: &str,
        output: &mut Vec<u8>,
    ) -> u8 {
        let mut path = encoded(path);
        for _ in 0..PROBE_REDIRECTS {
            let response = match self.get(snapshot, port, &path).await {
                Ok(response) => response,
                Err(why) => {
                    output.extend_from_slice(why.as_bytes());
                    return 1;
                }
            };
            match response.header("location").filter(|_| (300..400).contains(&response.code)) {
                // A redirect within the server is followed.
                Some(to) if to.starts_with('/') => path = encoded(to),
                _ if (200..400).contains(&response.code) => return 0,
                _ => {
                    output
                        .extend(format!("HTTP probe failed with statuscode: {}", response.code).into_bytes());
                    return 1;
                }
            }
        }
        output.extend_from_slice(b"stopped after 10 redirects");
        1
    }

    async fn get(&self, snapshot: &Snapshot, (port, is_encrypted): (u16, bool), path: &str) -> Answer {
        let Some((address, network)) = self.kubelet_network(snapshot) else {
            return Err("the pod has no network of its own".to_owned());
        };
        let at = SocketAddr::new(address, port);
        let release = Minor::DEFAULT;
        let text = format!(
            "GET {path} HTTP/1.1\r\nHost: {at}\r\nUser-Agent: kube-probe/{release}\r\nAccept: */*\r\nConnection: close\r\n\r\n"
        );
        // A kubelet does not look at the certificate.
        let tls = TlsClient { name: address.to_string(), trust: TlsTrust::Anything };
        let wish = NetworkCall {
            tls: is_encrypted.then_some(tls),
            ..call(address, port, text.into_bytes(), EXECUTION_OUTPUT)
        };
        let reply = Box::pin(network.perform(wish)).await;
        let scheme = if is_encrypted { "https" } else { "http" };
        let failed = |why: &str| format!("Get \"{scheme}://{at}{path}\": {why}");
        match reply.result {
            Ok(received) => match ReceivedResponse::parse(&received.bytes, "GET") {
                Some(response) => Ok(response),
                None if received.end == ReceivedEnd::Reset => Err(failed("read: connection reset by peer")),
                None => Err(failed("EOF")),
            },
            Err(why) => Err(failed(&dialed(at, &why))),
        }
    }

    /// Connects to a port of a pod: 0 if something listens, else 1 with the reason in `output`.
    pub(super) async fn probe_port(&self, snapshot: &Snapshot, port: u16, output: &mut Vec<u8>) -> u8 {
        let Some((address, network)) = self.kubelet_network(snapshot) else { return 1 };
        let reply = Box::pin(network.perform(call(address, port, Vec::new(), 0))).await;
        match reply.result {
            Ok(_) => 0,
            Err(why) => {
                output.extend_from_slice(dialed(SocketAddr::new(address, port), &why).as_bytes());
                1
            }
        }
    }
}

/// A path as it is in a request: what would end its line is escaped.
fn encoded(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_graphic();
    path.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

fn call(address: IpAddr, port: u16, send: Vec<u8>, most: usize) -> NetworkCall {
    let end = NetworkEnd::Connect(address.to_string(), port);
    NetworkCall { end, send, connect_within: None, idle: None, within: None, most, tls: None }
}

/// The text of a connection that failed, as Go's.
fn dialed(at: SocketAddr, why: &NetworkFailure) -> String {
    match why {
        NetworkFailure::Refused(_) => format!("dial tcp {at}: connect: connection refused"),
        NetworkFailure::Tls(TlsFailure::NotTls) => {
            "http: server gave HTTP response to HTTPS client".to_owned()
        }
        NetworkFailure::Tls(TlsFailure::Other(why)) => format!("tls: {why}"),
        _ => format!("dial tcp {at}: connect: no route to host"),
    }
}
