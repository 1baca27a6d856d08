//! Ports of clients' pods on this machine: a kubelet's probes connect to the address of a pod. Where the machine has this address, each
//! port at which a server of an image listens is served there, and connections to it go to the pod. Where it has not, nothing is opened.

use super::Endpoint;
use crate::limits::{POD_PORT_CONNECTIONS, POD_PORTS};
use crate::program;
use crate::stream::network::{Asker, Connection, PodNetwork, Transport};
use crate::stream::program::ended;
use crate::stream::{Feed, Streams};
use kstore_container_sim::Server;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Serves the ports of a run until it ends.
pub(super) async fn serve(endpoint: Endpoint, feed: Feed, index: usize, run: String) {
    let stop = endpoint.tasks.stop().clone();
    let (_, snapshot) = feed.get();
    let Some(address) = snapshot.machine.ip else { return };
    let ports = listening(&endpoint.streams, &feed, index).await;
    let mut listeners = JoinSet::new();
    let permits = Arc::new(Semaphore::new(POD_PORT_CONNECTIONS));
    for port in ports {
        let at = SocketAddr::new(address, port);
        match TcpListener::bind(at).await {
            Ok(listener) => {
                let (streams, feed, permits) =
                    (endpoint.streams.clone(), Arc::clone(&feed), Arc::clone(&permits));
                listeners.spawn(accept(listener, streams, feed, permits));
            }
            Err(error) => {
                tracing::debug!(%error, %at, "a port of a pod is not served on this machine");
            }
        }
    }
    if listeners.is_empty() {
        return;
    }
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = ended(&feed, index, &run) => {}
    }
}

/// The ports at which the server of a container listens.
async fn listening(streams: &Streams, feed: &Feed, index: usize) -> Vec<u16> {
    let (_, snapshot) = feed.get();
    let object = &snapshot.record.pod;
    let declared = object.container(index).and_then(|spec| spec.options.as_deref());
    let declared = declared.map(|options| options.ports.as_slice()).unwrap_or_default();
    let mut ports: Vec<u16> =
        declared.iter().filter_map(|port| u16::try_from(port.container_port).ok()).collect();
    if let Some(argv) = program::server_command(object, index) {
        let image = object.container(index).map(|spec| spec.image.clone()).unwrap_or_default();
        let programs = crate::known_image::programs(&image);
        let server = Server::of(&programs, &argv, &[], crate::known_image::version(&image));
        if let Some(server) = server {
            ports.extend((1..=u16::MAX).filter(|port| server.listens(*port)));
        }
    }
    ports.sort_unstable();
    ports.dedup();
    let mut open = Vec::new();
    for port in ports {
        // A declared port at which nothing listens is left out, so that a connection to it is refused.
        let served = streams.listener(Arc::clone(feed), (port, Transport::Tcp), Asker::Command).await;
        if served.is_some() && open.len() < POD_PORTS {
            open.push(port);
        }
    }
    open
}

/// Passes connections on.
async fn accept(listener: TcpListener, streams: Streams, feed: Feed, permits: Arc<Semaphore>) {
    let mut connections = JoinSet::new();
    loop {
        // The semaphore is never closed.
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        let accepted = tokio::select! {
            biased;
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = listener.accept() => accepted,
        };
        let Ok((socket, _)) = accepted else { continue };
        let (streams, feed) = (streams.clone(), Arc::clone(&feed));
        let Ok(at) = listener.local_addr() else { return };
        connections.spawn(async move {
            pass(socket, &streams, &feed, at).await;
            drop(permit);
        });
    }
}

async fn pass(mut socket: TcpStream, streams: &Streams, feed: &Feed, at: SocketAddr) {
    let (_, snapshot) = feed.get();
    let namespace = streams.runner.namespace(&snapshot.record.pod.metadata.namespace);
    let network = PodNetwork::new(streams, &snapshot, namespace.allowance(), Asker::Command);
    let Ok(host) = network.attach() else { return };
    let Ok(Connection { mut stream, serving }) = Box::pin(network.connect(&host, at)).await else { return };
    let copying = async {
        // Either end may reset the connection.
        let _ = copy_bidirectional(&mut socket, &mut stream).await;
    };
    match serving {
        None => copying.await,
        Some(serving) => {
            // The server may end before its last bytes have been copied.
            tokio::join!(serving, copying);
        }
    }
}
