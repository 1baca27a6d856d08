//! Connections to containers that run programs of this machine in its own network, because their pods have none. They listen on its
//! loopback interface; a pod has only the ports that its containers declare, or that their probes and hooks ask.

use super::Snapshot;
use super::network::Connection;
use crate::pod_object::options::{Handler, PortName, PortSpec};
use crate::pod_object::{ContainerSpec, Hook, PodObject};
use crate::probe::ProbeKind;
use crate::program::{self, Program};
use kstore_container_sim::NetworkFailure;
use kstore_fabric::Host;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;

/// Whether a running container of the pod that runs a program of this machine has this port.
pub(super) fn is_open(snapshot: &Snapshot, port: u16) -> bool {
    let object = &snapshot.record.pod;
    let runs = |index: usize| snapshot.machine.containers.get(index).is_some_and(|one| one.run().is_some());
    (0..object.containers().count()).any(|index| runs(index) && has_port(object, index, port))
}

fn has_port(object: &PodObject, index: usize, port: u16) -> bool {
    let Some(spec) = object.container(index) else { return false };
    program::of(object, index) == Program::Host && ports(spec).contains(&port)
}

/// The ports of a container.
fn ports(spec: &ContainerSpec) -> Vec<u16> {
    let declared: &[PortSpec] =
        spec.options.as_deref().map(|options| options.ports.as_slice()).unwrap_or_default();
    let named = |port: &PortName| port.number(declared);
    let mut ports: Vec<u16> =
        declared.iter().filter_map(|port| u16::try_from(port.container_port).ok()).collect();
    for probe in [ProbeKind::Startup, ProbeKind::Readiness, ProbeKind::Liveness]
        .iter()
        .filter_map(|kind| kind.of(spec))
    {
        ports.extend(probe.http_get.as_ref().and_then(|target| named(&target.port)));
        ports.extend(probe.tcp_socket.as_ref().and_then(|target| named(&target.port)));
        ports.extend(probe.grpc.as_ref().and_then(|target| target.number()));
    }
    for hook in [Hook::PostStart, Hook::PreStop] {
        if let Some(Handler::Http(target)) = spec.hook(hook) {
            ports.extend(named(&target.port));
        }
    }
    ports
}

/// Connects `host` to a port of this machine's loopback interface, as if it were at `to`.
pub(super) async fn connect(host: &Host, to: SocketAddr) -> Result<Connection, NetworkFailure> {
    let mut socket = match TcpStream::connect((Ipv4Addr::LOCALHOST, to.port())).await {
        Ok(socket) => socket,
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            return Err(NetworkFailure::Refused(to.ip()));
        }
        Err(_) => return Err(NetworkFailure::NoRoute(to.ip())),
    };
    let (stream, mut end) = host.open(to).map_err(|_| NetworkFailure::Exhausted)?;
    let serving = async move {
        // Either end may reset the connection.
        let _ = copy_bidirectional(&mut end, &mut socket).await;
    };
    Ok(Connection { stream, serving: Some(Box::pin(serving)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_host_runtime::MappedProgram;
    use std::path::Path;
    use std::sync::Arc;

    #[test]
    fn a_container_has_the_ports_that_it_declares_or_that_are_asked() {
        let text = "spec: {containers: [{name: c, ports: [{name: web, containerPort: 80}], \
                    readinessProbe: {httpGet: {port: 81}}, startupProbe: {grpc: {port: 84}}, livenessProbe: {tcpSocket: {port: web}}, \
                    lifecycle: {preStop: {httpGet: {port: 82}}}}, {name: d, ports: [{containerPort: 83}]}]}";
        let mut object: PodObject = serde_yaml_ng::from_str(text).unwrap();
        assert!(!has_port(&object, 0, 80), "it is simulated");
        let path = Arc::from(Path::new("/bin/true"));
        object.spec.containers[0].program = Some(Arc::new(MappedProgram { path, refusal: None }));
        let open: Vec<u16> = (79..85).filter(|port| has_port(&object, 0, *port)).collect();
        assert_eq!(open, [80, 81, 82, 84]);
        assert!(!has_port(&object, 1, 83));
    }
}
