//! Datagrams between simulated pods: a command sends one, and the server of a known image answers it. No queue is between them, because
//! servers have no task: an answer is made when the datagram is sent.

use super::network::{AddressOwner, PodNetwork, Transport, vanish};
use super::services::Destination;
use crate::limits::CONNECT_TIME;
use kstore_container_sim::{NetworkCall, NetworkFailure, NetworkReply, Received, ReceivedEnd};
use kstore_fabric::Host;
use std::net::SocketAddr;
use std::sync::Arc;
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
        let client = (&*self.node, host.address());
        let service = match self.streams.owner_of(to.ip()).await {
            AddressOwner::Outside => Box::pin(self.streams.backend((to, Transport::Udp), client)).await,
            AddressOwner::Node => Box::pin(self.streams.node_backend((to, Transport::Udp), client)).await,
            AddressOwner::Pod(_) | AddressOwner::Nobody => Some(Ok(Destination::Endpoint(to))),
        };
        match service.transpose()? {
            Some(Destination::Endpoint(endpoint)) => self.answer_of_pod(&host, endpoint, bytes).await,
            Some(Destination::ApiServer) => Err(NetworkFailure::Refused(to.ip())),
            None => Err(NetworkFailure::NoRoute(to.ip())),
        }
    }

    async fn answer_of_pod(
        &self,
        host: &Host,
        to: SocketAddr,
        bytes: &[u8],
    ) -> Result<Vec<u8>, NetworkFailure> {
        let ip = to.ip();
        let is_own = ip.is_loopback() || ip.is_unspecified() || ip == host.address();
        let feed = match self.streams.owner_of(if is_own { host.address() } else { ip }).await {
            AddressOwner::Pod(feed) if feed.get().1.reachable => feed,
            _ => return Err(vanish(ip).await),
        };
        if !is_own && !Box::pin(self.is_let_through((to, Transport::Udp), Some(&feed.get().1))).await {
            return Err(vanish(ip).await);
        }
        let listening = self.streams.listener(feed, (to.port(), Transport::Udp), self.asker);
        // The host's answer that nothing has the port.
        let served = Box::pin(listening).await.ok_or(NetworkFailure::Refused(ip))?;
        // Takes a port of the pod, and counts like a connection, until the answer is there.
        let (socket, _other) = host.open(to).map_err(|_| NetworkFailure::Exhausted)?;
        match served.answer_datagram(bytes, (socket.local(), to)).await {
            Some(answer) => Ok(answer),
            None => std::future::pending().await,
        }
    }
}
