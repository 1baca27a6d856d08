//! Closed-loop load: a number of clients over a number of connections, each with one call at a time. One
//! thread drives all of them, to leave most of the machine to the servers.

use super::link::{Link, Piece};
use prost::Message;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The requests of a load.
pub(super) trait RequestSource: Send + 'static {
    type Request: Message;
    /// Whether [`RequestSource::answered`] needs the bytes of the answer.
    const READS: bool = false;

    /// The next request of a client, with the method's path; `None` if the client is done.
    fn next(&mut self, client: usize) -> Option<(&'static str, Self::Request)>;

    /// Called when a client's answer is complete.
    fn answered(&mut self, _client: usize, _message: &[u8]) {}
}

/// Numbers of clients and connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClientCount {
    pub(super) clients: usize,
    pub(super) connections: usize,
}

/// One answered call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) end: Instant,
    pub(super) latency: Duration,
}

struct PendingCall {
    client: usize,
    sent: Instant,
    /// Only a successful call has data.
    bytes: usize,
    message: Vec<u8>,
}

/// Runs the clients until `until` or until all are done; `ask(n)` creates the request source of connection
/// `n`. A failed call is an error.
pub(super) async fn run<A: RequestSource>(
    address: SocketAddr,
    crowd: ClientCount,
    until: Option<Instant>,
    ask: impl Fn(usize) -> A,
) -> anyhow::Result<Vec<Call>> {
    let mut links = JoinSet::new();
    for connection in 0..crowd.connections {
        let clients: Vec<usize> = (connection..crowd.clients).step_by(crowd.connections).collect();
        let link = Link::open(address).await?;
        links.spawn(Connection::new(link, ask(connection), until).run(clients));
    }
    let mut calls = Vec::new();
    while let Some(link) = links.join_next().await {
        calls.append(&mut link??);
    }
    Ok(calls)
}

struct Connection<A> {
    link: Link,
    ask: A,
    until: Option<Instant>,
    flights: BTreeMap<u32, PendingCall>,
}

impl<A: RequestSource> Connection<A> {
    fn new(link: Link, ask: A, until: Option<Instant>) -> Self {
        Self { link, ask, until, flights: BTreeMap::new() }
    }

    async fn run(mut self, clients: Vec<usize>) -> anyhow::Result<Vec<Call>> {
        let mut calls = Vec::new();
        self.send(&clients);
        while !self.flights.is_empty() {
            let (flights, ask) = (&mut self.flights, &mut self.ask);
            let (mut free, mut failed) = (Vec::new(), 0);
            let mut now = None;
            self.link
                .process(|stream, piece| match piece {
                    Piece::Data(data) => {
                        if let Some(flight) = flights.get_mut(&stream) {
                            flight.take(data, A::READS);
                        }
                    }
                    Piece::End => {
                        let Some(flight) = flights.remove(&stream) else { return };
                        failed += usize::from(flight.bytes == 0);
                        let end = *now.get_or_insert_with(Instant::now);
                        calls.push(Call { end, latency: end - flight.sent });
                        ask.answered(flight.client, flight.message.get(5..).unwrap_or_default());
                        free.push(flight.client);
                    }
                })
                .await?;
            anyhow::ensure!(failed == 0, "{failed} calls failed");
            self.send(&free);
        }
        Ok(calls)
    }

    /// Sends the next call of each of these clients.
    fn send(&mut self, clients: &[usize]) {
        let now = Instant::now();
        if self.until.is_some_and(|until| until <= now) {
            return;
        }
        for client in clients {
            let Some((path, request)) = self.ask.next(*client) else { continue };
            let stream = self.link.call(path, &request);
            let flight = PendingCall { client: *client, sent: now, bytes: 0, message: Vec::new() };
            self.flights.insert(stream, flight);
        }
    }
}

impl PendingCall {
    fn take(&mut self, data: &[u8], keep: bool) {
        self.bytes += data.len();
        if keep {
            self.message.extend_from_slice(data);
        }
    }
}
