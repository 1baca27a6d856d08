//! The task of a gateway: one loop over the TUN device, the stack of TCP, the streams of its connections, and its orders.

use super::connection::{Connection, Pumped};
use super::packet::{self, FlowKey, ProgramPacket};
use super::{Answers, Datagram, Dial, Opened, Order, OuterNetwork, PodPort, Unreached};
use crate::limits::{
    CONNECTION_BUFFER, GATEWAY_ROUNDS, LINK_MTU, PACKETS_AT_ONCE, POD_CONNECTIONS, POD_DATAGRAMS, POD_FLOWS,
};
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant as StackInstant;
use smoltcp::wire::{HardwareAddress, IpCidr};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io::{ErrorKind, Read as _, Result, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep, sleep};

/// The addresses of a gateway, which no pod has.
const OWN_V4: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);
const OWN_V6: Ipv6Addr = Ipv6Addr::new(0xfdff, 0, 0, 0, 0, 0, 0, 1);
/// The first port from which a gateway connects to programs; those below are for listeners.
const FIRST_PORT: u16 = 32_768;

/// A connection of a program whose outer end is being opened: its first packet, that packet's number, and what came of it.
type Opening = (FlowKey, Vec<u8>, i32, std::result::Result<Opened, Unreached>);

/// Datagrams to a program whose answers are expected.
struct Flow {
    answers: Answers,
    used: Instant,
}

/// The state of a gateway's task.
pub(super) struct Carrier {
    device: TunDevice,
    interface: Interface,
    sockets: SocketSet<'static>,
    address: IpAddr,
    network: Arc<dyn OuterNetwork>,
    orders: mpsc::Receiver<Order>,
    /// For the answers of datagrams, which do not keep the gateway.
    own_orders: mpsc::WeakSender<Order>,
    connections: BTreeMap<FlowKey, Connection>,
    opening: JoinSet<Opening>,
    opening_keys: BTreeSet<FlowKey>,
    serving: JoinSet<()>,
    datagrams: JoinSet<()>,
    flows: BTreeMap<FlowKey, Flow>,
    next_port: u16,
    begun: Instant,
    timer: Pin<Box<Sleep>>,
}

impl Carrier {
    pub(super) fn new(
        device: File,
        (address, seed): (IpAddr, u64),
        network: Arc<dyn OuterNetwork>,
        (own_orders, orders): (mpsc::WeakSender<Order>, mpsc::Receiver<Order>),
    ) -> Result<Self> {
        let mut device = TunDevice { file: watched(device)?, waiting: VecDeque::new() };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut device, StackInstant::ZERO);
        // It answers for every address, because it is the other end of each connection.
        interface.set_any_ip(true);
        interface.update_ip_addrs(|all| {
            let own = [IpCidr::new(OWN_V4.into(), 32), IpCidr::new(OWN_V6.into(), 128)];
            all.extend(own);
        });
        let routes = interface.routes_mut();
        let is_complete =
            routes.add_default_ipv4_route(OWN_V4).is_ok() && routes.add_default_ipv6_route(OWN_V6).is_ok();
        assert!(is_complete, "the table has room for two routes");
        Ok(Self {
            device,
            interface,
            sockets: SocketSet::new(Vec::new()),
            address,
            network,
            orders,
            own_orders,
            connections: BTreeMap::new(),
            opening: JoinSet::new(),
            opening_keys: BTreeSet::new(),
            serving: JoinSet::new(),
            datagrams: JoinSet::new(),
            flows: BTreeMap::new(),
            next_port: FIRST_PORT,
            begun: Instant::now(),
            timer: Box::pin(sleep(Duration::ZERO)),
        })
    }

    /// Carries packets until the gateway ends, or its device.
    pub(super) async fn run(mut self) {
        std::future::poll_fn(|context| self.poll(context)).await;
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        for _ in 0..GATEWAY_ROUNDS {
            let Ok(is_busy) = self.round(context) else { return Poll::Ready(()) };
            if !is_busy {
                return self.wait(context);
            }
        }
        // Other tasks run, too.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Looks at everything once; returns whether there was anything to do.
    fn round(&mut self, context: &mut Context<'_>) -> std::result::Result<bool, Ended> {
        let mut is_busy = self.obey_orders(context)?;
        while let Poll::Ready(Some(opened)) = self.opening.poll_join_next(context) {
            is_busy = true;
            // A task that panicked leaves its key, and the program's attempts fail.
            if let Ok(opened) = opened {
                self.opened(opened);
            }
        }
        while let Poll::Ready(Some(_)) = self.datagrams.poll_join_next(context) {}
        while let Poll::Ready(Some(_)) = self.serving.poll_join_next(context) {}
        is_busy |= self.read_packets(context)?;
        self.run_stack();
        is_busy |= self.pump(context);
        self.run_stack();
        Ok(is_busy)
    }

    fn obey_orders(&mut self, context: &mut Context<'_>) -> std::result::Result<bool, Ended> {
        let mut is_busy = false;
        loop {
            match self.orders.poll_recv(context) {
                Poll::Ready(None) => return Err(Ended),
                Poll::Ready(Some(order)) => self.obey(order),
                Poll::Pending => return Ok(is_busy),
            }
            is_busy = true;
        }
    }

    /// Waits for the next deadline of the stack; everything else wakes the task.
    fn wait(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(delay) = self.interface.poll_delay(self.now(), &self.sockets) {
            // A deadline that has passed is one of the next look, not of this one.
            let delay = Duration::from(delay).max(Duration::from_millis(1));
            self.timer.as_mut().reset(Instant::now() + delay);
            if self.timer.as_mut().poll(context).is_ready() {
                context.waker().wake_by_ref();
            }
        }
        Poll::Pending
    }

    fn now(&self) -> StackInstant {
        StackInstant::from_millis(i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX))
    }

    fn run_stack(&mut self) {
        self.interface.poll(self.now(), &mut self.device, &mut self.sockets);
    }

    /// Moves the bytes of all connections, and removes those that are over.
    fn pump(&mut self, context: &mut Context<'_>) -> bool {
        let (mut is_busy, mut over) = (false, Vec::new());
        for (key, connection) in &mut self.connections {
            let socket = self.sockets.get_mut::<Socket<'_>>(connection.handle);
            match connection.pump(socket, context) {
                Pumped::Idle => {}
                Pumped::Busy => is_busy = true,
                Pumped::Over => over.push(*key),
            }
        }
        for key in over {
            if let Some(connection) = self.connections.remove(&key) {
                self.sockets.remove(connection.handle);
            }
        }
        is_busy
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Dial(dial) => self.dial(dial),
            Order::Deliver(datagram) => self.deliver(datagram),
            Order::Answer { from, to, bytes } => {
                if let Some(packet) = packet::datagram(from, to, &bytes, LINK_MTU as usize) {
                    self.device.write(&packet);
                }
            }
        }
    }

    /// Begins a connection to a program.
    fn dial(&mut self, dial: Dial) {
        let Dial { from, to, stream, connected } = dial;
        let own = if self.address.is_ipv4() { OWN_V4.into() } else { OWN_V6.into() };
        let from = from.filter(|from| from.is_ipv4() == self.address.is_ipv4()).unwrap_or(own);
        let program = match to {
            PodPort::Loopback(port) if self.address.is_ipv4() => (Ipv4Addr::LOCALHOST, port).into(),
            PodPort::Loopback(port) | PodPort::Pod(port) => SocketAddr::new(self.address, port),
        };
        let key = self.free_port(program, from).map(|port| (program, SocketAddr::new(from, port)));
        let Some(key) = key.filter(|_| self.has_room()) else {
            // The client may have given up.
            let _ = connected.send(Err(Unreached::Refused));
            return;
        };
        let mut socket = socket();
        if socket.connect(self.interface.context(), key.0, key.1).is_err() {
            let _ = connected.send(Err(Unreached::Refused));
            return;
        }
        let handle = self.sockets.add(socket);
        self.connections.insert(key, Connection::new(handle, stream, Some(connected), None));
    }

    fn has_room(&self) -> bool {
        // What still sends the last bytes of a connection counts until it has.
        self.connections.len().max(self.serving.len()) + self.opening_keys.len() < POD_CONNECTIONS
    }

    fn free_port(&mut self, program: SocketAddr, from: IpAddr) -> Option<u16> {
        for _ in 0..=POD_CONNECTIONS {
            let port = self.next_port;
            self.next_port = port.checked_add(1).unwrap_or(FIRST_PORT);
            if !self.connections.contains_key(&(program, SocketAddr::new(from, port))) {
                return Some(port);
            }
        }
        None
    }

    /// Answers a program whose connection has an outer end, or none.
    fn opened(&mut self, (key, first, number, result): Opening) {
        self.opening_keys.remove(&key);
        let Opened { stream, serving } = match result {
            Ok(opened) => opened,
            Err(Unreached::Refused) => return self.device.write(&packet::reset(key, number)),
            Err(Unreached::Vanished) => return,
            Err(Unreached::NoRoute) => {
                if let Some(message) = packet::unreachable(key, &first) {
                    self.device.write(&message);
                }
                return;
            }
        };
        let mut socket = socket();
        if socket.listen(key.1).is_err() {
            return;
        }
        let serving = serving.map(|serving| self.serving.spawn(serving));
        let handle = self.sockets.add(socket);
        // Earlier packets first: this one is for the socket that listens now, and no other listens then.
        self.run_stack();
        self.device.waiting.push_back(first);
        self.run_stack();
        let socket = self.sockets.get_mut::<Socket<'_>>(handle);
        let connection = Connection::new(handle, stream, None, serving);
        match socket.is_listening() {
            true => drop(self.sockets.remove(handle)),
            false => drop(self.connections.insert(key, connection)),
        }
    }

    fn read_packets(&mut self, context: &mut Context<'_>) -> std::result::Result<bool, Ended> {
        for number in 0..PACKETS_AT_ONCE {
            match self.device.poll_read(context) {
                Poll::Ready(Ok(packet)) => self.receive(packet),
                Poll::Ready(Err(_)) => return Err(Ended),
                Poll::Pending => return Ok(number > 0),
            }
        }
        Ok(true)
    }

    /// Takes a packet of a program.
    fn receive(&mut self, packet: Vec<u8>) {
        match packet::parse(&packet) {
            ProgramPacket::Opening(key, number) if !self.connections.contains_key(&key) => {
                // Programs repeat the first packet until it is answered.
                if key.0.ip() == self.address && self.has_room() && self.opening_keys.insert(key) {
                    let connecting = self.network.connect(key.1);
                    self.opening.spawn(async move { (key, packet, number, connecting.await) });
                }
            }
            ProgramPacket::Opening(..) | ProgramPacket::Segment => self.device.waiting.push_back(packet),
            ProgramPacket::Datagram(key, bytes) => self.send_datagram(key, bytes),
            ProgramPacket::Other => {}
        }
    }

    /// Sends a datagram of a program: the answer to one that it was sent, or one of its own.
    fn send_datagram(&mut self, key: FlowKey, bytes: Vec<u8>) {
        if let Some(flow) = self.flows.get_mut(&key) {
            flow.used = Instant::now();
            return flow.answers.send(bytes);
        }
        let (from, to) = key;
        if from.ip() != self.address || self.datagrams.len() >= POD_DATAGRAMS {
            return;
        }
        let orders = self.own_orders.clone();
        let answers = Answers::new(move |bytes| {
            if let Some(orders) = orders.upgrade() {
                // Beyond the bound it is dropped, as datagrams are.
                let _ = orders.try_send(Order::Answer { from: to, to: from, bytes });
            }
        });
        self.datagrams.spawn(self.network.send(Datagram { from, to, bytes, answers }));
    }

    /// Gives a program a datagram, and remembers where its answers go.
    fn deliver(&mut self, datagram: Datagram) {
        let Datagram { from, to, bytes, answers } = datagram;
        let to = SocketAddr::new(self.address, to.port());
        let Some(packet) = packet::datagram(from, to, &bytes, LINK_MTU as usize) else { return };
        let key = (to, from);
        if self.flows.len() >= POD_FLOWS && !self.flows.contains_key(&key) {
            let oldest = self.flows.iter().min_by_key(|(_, flow)| flow.used).map(|(key, _)| *key);
            oldest.and_then(|oldest| self.flows.remove(&oldest));
        }
        self.flows.insert(key, Flow { answers, used: Instant::now() });
        self.device.write(&packet);
    }
}

/// The gateway has ended, or its device.
struct Ended;

/// A socket of the stack. Both of its ends are in one machine, so nothing is to be gained by waiting.
fn socket() -> Socket<'static> {
    let buffer = || SocketBuffer::new(vec![0; CONNECTION_BUFFER]);
    let mut socket = Socket::new(buffer(), buffer());
    socket.set_nagle_enabled(false);
    socket.set_ack_delay(None);
    socket
}

/// A file whose readiness the runtime watches.
#[expect(
    deprecated,
    reason = "a file keeps its descriptor for its whole life, which is what the unsafe successor asks for"
)]
fn watched(file: File) -> Result<AsyncFd<File>> {
    AsyncFd::new(file)
}

/// The other end of a TUN device, and the packets from there that wait for the stack.
struct TunDevice {
    file: AsyncFd<File>,
    waiting: VecDeque<Vec<u8>>,
}

impl TunDevice {
    /// The next packet of a program.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<Result<Vec<u8>>> {
        let mut packet = vec![0; LINK_MTU as usize];
        loop {
            let mut guard = ready!(self.file.poll_read_ready(context))?;
            match guard.try_io(|file| file.get_ref().read(&mut packet)) {
                Ok(Ok(length)) => {
                    packet.truncate(length);
                    return Poll::Ready(Ok(packet));
                }
                Ok(Err(error)) if error.kind() == ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_) => {}
            }
        }
    }

    /// Gives the programs' kernel a packet. What it cannot take is lost, as on any link.
    fn write(&self, packet: &[u8]) {
        let _ = self.file.get_ref().write(packet);
    }
}

impl Device for TunDevice {
    type RxToken<'a> = ReceivedPacket;
    type TxToken<'a> = PacketWriter<'a>;

    fn receive(&mut self, _timestamp: StackInstant) -> Option<(ReceivedPacket, PacketWriter<'_>)> {
        let packet = self.waiting.pop_front()?;
        Some((ReceivedPacket(packet), PacketWriter(self)))
    }

    fn transmit(&mut self, _timestamp: StackInstant) -> Option<PacketWriter<'_>> {
        Some(PacketWriter(self))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = LINK_MTU as usize;
        capabilities
    }
}

/// A packet of a program, for the stack.
struct ReceivedPacket(Vec<u8>);

impl RxToken for ReceivedPacket {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

/// Writes one packet of the stack.
struct PacketWriter<'a>(&'a TunDevice);

impl TxToken for PacketWriter<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        let mut packet = vec![0; length];
        let result = f(&mut packet);
        self.0.write(&packet);
        result
    }
}
