//! Datagrams between simulated pods: a command or a program of this machine sends one, and the server of a known image or another program
//! answers it. No queue is between a command and a server, because servers have no task: an answer is made when the datagram is sent.

use super::host_network::own_address;
use super::network::{AddressOwner, PodNetwork, Transport, vanish};
use super::services::Destination;
use super::serving::Served;
use crate::limits::CONNECT_TIME;
use kstore_container_sim::{NetworkCall, NetworkFailure, NetworkReply, Received, ReceivedEnd};
use kstore_fabric::Host;
use kstore_host_runtime::PodLink;
use kstore_host_runtime::gateway::{Answers, Datagram};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::time::timeout;

impl PodNetwork {
    /// Sends the datagram of a call, and waits for its answer as long as the call says. Without a limit it waits as long as a connection
    /// does, so that no command waits for ever.
    pub(super) async fn datagram(&self, call: &NetworkCall, (name, port): (&str, u16)) -> NetworkReply {
        let Some(ip) = self.address_of(name).await else {
            return NetworkReply::failed(NetworkFailure::UnknownName);
        };
        let peer = SocketAddr::new(ip, port);
        let limit = call.within.or(call.idle).or(call.connect_within).unwrap_or(CONNECT_TIME);
        let received = |bytes: Vec<u8>, end| Ok(Received { peer, bytes, end });
        if call.most == 0 {
            // Nothing tells whether anybody receives it.
            return NetworkReply {
                result: received(Vec::new(), ReceivedEnd::Done),
                room: None,
                answer: None,
            };
        }
        let answered = timeout(limit, Box::pin(self.answer_from(peer, &call.send))).await;
        let (result, room) = match answered {
            Err(_) => (received(Vec::new(), ReceivedEnd::TimedOut), None),
            Ok(Err(why)) => (Err(why), None),
            Ok(Ok(mut bytes)) => {
                bytes.truncate(call.most);
                match self.memory.hold(bytes.len()) {
                    Some(room) => (received(bytes, ReceivedEnd::Done), Some(Arc::new(room))),
                    None => (received(Vec::new(), ReceivedEnd::NoMemory), None),
                }
            }
        };
        NetworkReply { result, room, answer: None }
    }

    /// The answer to a datagram; does not return while there is none.
    async fn answer_from(&self, to: SocketAddr, bytes: &[u8]) -> Result<Vec<u8>, NetworkFailure> {
        let host = self.attach()?;
        let endpoint = self.datagram_endpoint(&host, to).await?;
        match self.receiver(&host, endpoint).await? {
            Receiver::Server(served) => {
                // Takes a port of the pod, and counts like a connection, until the answer is there.
                let (socket, _other) = host.open(endpoint).map_err(|_| NetworkFailure::Exhausted)?;
                match served.answer_datagram(bytes, (socket.local(), endpoint)).await {
                    Some(answer) => Ok(answer),
                    None => std::future::pending().await,
                }
            }
            Receiver::Program(link) => {
                let (socket, _other) = host.open(endpoint).map_err(|_| NetworkFailure::Exhausted)?;
                let (sender, mut received) = mpsc::channel(1);
                // The first answer is the one.
                let answers = Answers::new(move |bytes| drop(sender.try_send(bytes)));
                let (from, bytes) = (socket.local(), bytes.to_vec());
                link.gateway().deliver(Datagram { from, to: endpoint, bytes, answers });
                match received.recv().await {
                    Some(answer) => Ok(answer),
                    None => std::future::pending().await,
                }
            }
        }
    }

    /// Passes on a datagram of a program of this machine. That it is not received is not told.
    pub(super) async fn pass(&self, host: &Host, datagram: Datagram) {
        let Datagram { from, to, bytes, answers } = datagram;
        let Some(bytes) = self.pass_in_flow((from, to), bytes) else { return };
        let endpoint = match self.datagram_endpoint(host, to).await {
            Ok(endpoint) => endpoint,
            Err(NetworkFailure::NoRoute(_)) => to,
            Err(_) => return,
        };
        if matches!(self.streams.owner_of(endpoint.ip()).await, AddressOwner::Outside) {
            return self.pass_outside(Datagram { from, to, bytes, answers }, endpoint).await;
        }
        match self.receiver(host, endpoint).await {
            Ok(Receiver::Program(link)) => {
                link.gateway().deliver(Datagram { from, to: endpoint, bytes, answers });
            }
            Ok(Receiver::Server(served)) => {
                if let Some(answer) = served.answer_datagram(&bytes, (from, endpoint)).await {
                    answers.send(answer);
                }
            }
            Err(_) => {}
        }
    }

    /// The endpoint that receives datagrams to an address, such as one of a Service.
    async fn datagram_endpoint(&self, host: &Host, to: SocketAddr) -> Result<SocketAddr, NetworkFailure> {
        let client = (&*self.node, host.address());
        let node = own_address(host, to).unwrap_or(to.ip());
        let service = match self.streams.owner_of(node).await {
            AddressOwner::Outside => Box::pin(self.streams.backend((to, Transport::Udp), client)).await,
            AddressOwner::Node => {
                match Box::pin(self.streams.node_backend((to, Transport::Udp), client)).await {
                    Some(service) => Some(service),
                    None => {
                        let endpoint = self.streams.host_port_endpoint(node, (to, Transport::Udp)).await;
                        Some(Ok(Destination::Endpoint(endpoint.unwrap_or(to))))
                    }
                }
            }
            AddressOwner::Pod(_) | AddressOwner::Nobody => Some(Ok(Destination::Endpoint(to))),
        };
        match service.transpose()? {
            Some(Destination::Endpoint(endpoint)) => Ok(endpoint),
            Some(Destination::ApiServer) => Err(NetworkFailure::Refused(to.ip())),
            None => Err(NetworkFailure::NoRoute(to.ip())),
        }
    }

    /// What receives datagrams at a port of a pod.
    async fn receiver(&self, host: &Host, to: SocketAddr) -> Result<Receiver, NetworkFailure> {
        let ip = to.ip();
        let own = own_address(host, to);
        let (is_own, owner) = (own.is_some(), own.unwrap_or(ip));
        let feed = match self.streams.owner_of(owner).await {
            AddressOwner::Pod(feed) if feed.get().1.reachable => feed,
            AddressOwner::Node => return Box::pin(self.receiver_of_node(owner, to)).await,
            _ => return Err(vanish(ip).await),
        };
        if !is_own && !Box::pin(self.is_let_through((to, Transport::Udp), Some(&feed.get().1))).await {
            return Err(vanish(ip).await);
        }
        let link = self.streams.host_links.of(&feed.get().1);
        let listening = self.streams.listener(feed, (to.port(), Transport::Udp), self.asker);
        match (Box::pin(listening).await, link) {
            (Some(served), _) => Ok(Receiver::Server(Box::new(served))),
            (None, Some(link)) => Ok(Receiver::Program(link)),
            // The host's answer that nothing has the port.
            (None, None) => Err(NetworkFailure::Refused(ip)),
        }
    }
}

/// What receives datagrams.
pub(super) enum Receiver {
    /// A server of a known image.
    Server(Box<Served>),
    /// The programs of this machine in a pod.
    Program(Arc<PodLink>),
}
