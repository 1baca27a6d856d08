//! Ports of simulated nodes that pods have: those at which a server of a pod with `hostNetwork` listens, and those that lead to a
//! container by its `hostPort`. As for Services nothing runs while no command connects.

use super::datagrams::Receiver;
use super::network::{Connection, PodNetwork, Transport, vanish};
use super::real::is_real;
use super::{Feed, ManagerMessage, Snapshot, Streams};
use crate::pod_object::PodObject;
use crate::pod_object::options::HostPort;
use kstore_container_sim::NetworkFailure;
use kstore_fabric::Host;
use std::net::{IpAddr, SocketAddr};
use tokio::sync::oneshot;

impl Streams {
    /// The pods of the node with an address that are in its network, or that have ports there.
    async fn pods_of_node(&self, node: IpAddr) -> Vec<Feed> {
        let (answer, pods) = oneshot::channel();
        match self.messages.send(ManagerMessage::NodePods(node, answer)).await {
            Ok(()) => pods.await.unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }

    /// The port of a pod that the port `to` of a node is.
    pub(super) async fn host_port_endpoint(
        &self,
        node: IpAddr,
        to: (SocketAddr, Transport),
    ) -> Option<SocketAddr> {
        self.pods_of_node(node).await.iter().find_map(|feed| endpoint(&feed.get().1, to))
    }
}

impl PodNetwork {
    /// Connects to the pod that has a port of a node.
    pub(super) async fn connect_to_pod_of_node(
        &self,
        host: &Host,
        node: IpAddr,
        to: SocketAddr,
    ) -> Result<Connection, NetworkFailure> {
        for feed in self.streams.pods_of_node(node).await {
            let (_, snapshot) = feed.get();
            if let Some(endpoint) = endpoint(&snapshot, (to, Transport::Tcp)) {
                let connected = Box::pin(self.connect_to_pod(host, endpoint)).await;
                return connected.map_err(|why| why.failure(to.ip()));
            }
            if !is_in_network(&snapshot) {
                continue;
            }
            if !snapshot.reachable {
                return Err(vanish(to.ip()).await);
            }
            let server = Box::pin(self.streams.listener(feed, (to.port(), Transport::Tcp), self.asker));
            if let Some(served) = server.await {
                let (stream, end) = host.open(to).map_err(|_| NetworkFailure::Exhausted)?;
                return Ok(Connection { stream, serving: Some(served.serve(end)) });
            }
        }
        Err(NetworkFailure::Refused(to.ip()))
    }

    /// What receives datagrams at a port of a node: a server of a known image, or the programs of this machine there.
    pub(super) async fn receiver_of_node(
        &self,
        node: IpAddr,
        to: SocketAddr,
    ) -> Result<Receiver, NetworkFailure> {
        for feed in self.streams.pods_of_node(node).await {
            let (_, snapshot) = feed.get();
            if !is_in_network(&snapshot) {
                continue;
            }
            if !snapshot.reachable {
                return Err(vanish(to.ip()).await);
            }
            let server = Box::pin(self.streams.listener(feed, (to.port(), Transport::Udp), self.asker));
            if let Some(served) = server.await {
                return Ok(Receiver::Server(Box::new(served)));
            }
        }
        // The host's answer that nothing has the port.
        self.streams.host_links.at_node(node).map(Receiver::Program).ok_or(NetworkFailure::Refused(to.ip()))
    }
}

/// Whether simulated servers of the pod listen in the network of its node.
fn is_in_network(snapshot: &Snapshot) -> bool {
    let pod = &snapshot.record.pod;
    pod.spec.host_network && !pod.terminal() && !is_real(pod)
}

/// The port of the pod that the port `to` of its node is.
fn endpoint(snapshot: &Snapshot, to: (SocketAddr, Transport)) -> Option<SocketAddr> {
    let pod = &snapshot.record.pod;
    let address = snapshot.machine.ip.filter(|_| !pod.terminal())?;
    Some(SocketAddr::new(address, container_port(pod, to)?))
}

/// The port of a container whose `hostPort` is the port `to` of the node.
fn container_port(pod: &PodObject, (to, transport): (SocketAddr, Transport)) -> Option<u16> {
    let is_at = |port: &HostPort| {
        let is_address = port.address == HostPort::ANY_ADDRESS || port.address.parse() == Ok(to.ip());
        port.port == to.port() && port.protocol == transport.text() && is_address
    };
    let options = pod.containers().filter_map(|spec| spec.options.as_deref());
    let mut ports = options.flat_map(|options| &options.ports);
    let port = ports.find(|port| port.on_host().is_some_and(|port| is_at(&port)))?;
    u16::try_from(port.container_port).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_port_is_of_its_protocol_and_address() {
        let pod: PodObject = serde_yaml_ng::from_str(
            "spec: {containers: [{name: a, ports: [{containerPort: 80, hostPort: 8080, hostIP: 127.0.0.1}]}, \
             {name: b, ports: [{containerPort: 81, hostPort: 8080, hostIP: 10.0.0.1, protocol: TCP}, \
             {containerPort: 82, hostPort: 8080, protocol: UDP}, {containerPort: 83}]}]}",
        )
        .unwrap();
        let of = |to: &str, transport| container_port(&pod, (to.parse().unwrap(), transport));
        assert_eq!(of("127.0.0.1:8080", Transport::Tcp), Some(80));
        assert_eq!(of("10.0.0.1:8080", Transport::Tcp), Some(81));
        assert_eq!(of("10.0.0.2:8080", Transport::Tcp), None);
        assert_eq!(of("10.0.0.2:8080", Transport::Udp), Some(82));
        assert_eq!(of("10.0.0.1:83", Transport::Tcp), None);
    }
}
