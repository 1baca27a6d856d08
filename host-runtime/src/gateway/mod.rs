//! The gateway of a pod: it reads the packets of the pod's programs from their TUN device, and joins their connections and datagrams to a
//! network of this process ([`OuterNetwork`]). Nothing else is reached: no packet leaves for this machine or its networks. What the outer
//! network opens there, it opens from sockets of its own ([`outside`](crate::outside)).
//!
//! A connection of a program is answered when the outer network has answered, so that refusals and silence are those of that network.

mod carrier;
mod connection;
mod packet;

use crate::limits::GATEWAY_ORDERS;
use carrier::Carrier;
use std::fmt;
use std::fs::File;
use std::io::Result;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};

/// A boxed future.
pub type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A stream of bytes in both directions.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {
    /// Ends it at once, so that the other end can tell this from an end in order.
    fn reset(self: Box<Self>);
}

/// The network that the programs of a pod reach.
pub trait OuterNetwork: Send + Sync + 'static {
    /// Connects a program of the pod to an address.
    fn connect(&self, to: SocketAddr) -> Boxed<std::result::Result<Opened, Unreached>>;

    /// Sends a datagram of a program. Returns when it has arrived, or will not.
    fn send(&self, datagram: Datagram) -> Boxed<()>;
}

/// A connection into the outer network.
pub struct Opened {
    /// The program's end.
    pub stream: Box<dyn ByteStream>,
    /// What serves the other end, if that takes a task. It ends with a connection that is reset, and with the pod; after a connection that
    /// both ends have closed it ends by itself.
    pub serving: Option<Boxed<()>>,
}

/// Where programs of a pod listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodPort {
    /// At a port of the pod's address.
    Pod(u16),
    /// At a port of the pod's loopback interface. In a pod with an IPv6 address it is the same as the other.
    Loopback(u16),
}

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreached {
    /// Nothing listens at the port: the program's connection is refused.
    Refused,
    /// Packets vanish: the program waits as long as it likes.
    Vanished,
    /// There is no way to the address.
    NoRoute,
}

/// A datagram between a program and the outer network.
pub struct Datagram {
    /// Where it comes from.
    pub from: SocketAddr,
    /// Where it goes.
    pub to: SocketAddr,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Where answers to it go.
    pub answers: Answers,
}

/// Takes the datagrams that answer one. Clones take the same. What cannot be delivered is dropped.
#[derive(Clone)]
pub struct Answers(Arc<dyn Fn(Vec<u8>) + Send + Sync>);

impl Answers {
    /// Answers go to this function, which must not block.
    pub fn new(take: impl Fn(Vec<u8>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    /// Delivers an answer.
    pub fn send(&self, bytes: Vec<u8>) {
        (self.0)(bytes);
    }
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answers").finish_non_exhaustive()
    }
}

/// What a gateway is asked for.
enum Order {
    /// A connection to a program.
    Dial(Dial),
    /// A datagram to a program.
    Deliver(Datagram),
    /// The answer to a datagram of a program.
    Answer { from: SocketAddr, to: SocketAddr, bytes: Vec<u8> },
}

/// A connection to a program that is asked for.
struct Dial {
    /// The address that the program sees; `None`: that of the gateway.
    from: Option<IpAddr>,
    to: PodPort,
    stream: Box<dyn ByteStream>,
    connected: oneshot::Sender<std::result::Result<(), Unreached>>,
}

/// The way to the programs of a pod. Clones are the same. The gateway ends when all of them are dropped.
#[derive(Clone, Debug)]
pub struct Gateway {
    orders: mpsc::Sender<Order>,
}

impl Gateway {
    /// The gateway at the other end of a TUN device, for a pod with this address, and the task that carries its packets. `seed` makes the
    /// numbers of its segments. Must be called within a runtime.
    pub(crate) fn new(
        device: File,
        address: IpAddr,
        (network, seed): (Arc<dyn OuterNetwork>, u64),
    ) -> Result<(Self, impl Future<Output = ()> + Send + use<>)> {
        let (orders, receiver) = mpsc::channel(GATEWAY_ORDERS);
        let carrier = Carrier::new(device, (address, seed), network, (orders.downgrade(), receiver))?;
        Ok((Self { orders }, carrier.run()))
    }

    /// Connects `stream` to a port of the pod, as a client at `from`, or at the gateway itself. Returns when a program has accepted it; to
    /// drop the future gives the attempt up.
    ///
    /// # Errors
    /// No program listens at the port, or the pod has ended.
    pub async fn dial(
        &self,
        from: Option<IpAddr>,
        to: PodPort,
        stream: Box<dyn ByteStream>,
    ) -> std::result::Result<(), Unreached> {
        let (connected, answer) = oneshot::channel();
        let dial = Dial { from, to, stream, connected };
        self.orders.send(Order::Dial(dial)).await.map_err(|_| Unreached::Vanished)?;
        answer.await.unwrap_or(Err(Unreached::Vanished))
    }

    /// Delivers a datagram to a port of the pod. It is dropped where too many wait.
    pub fn deliver(&self, datagram: Datagram) {
        let _ = self.orders.try_send(Order::Deliver(datagram));
    }
}
