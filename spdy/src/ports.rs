//! The streams of forwarded ports: a client opens two for each connection, one for data and one for errors, with the same number in their
//! headers.

use crate::{Event, Sender};
use bytes::Bytes;
use std::collections::BTreeMap;
use tokio::sync::mpsc;

/// The streams of one connection to a port.
#[derive(Debug)]
pub struct PortStreams {
    /// The port; 0 if the client named none.
    pub port: u16,
    /// The stream of the data.
    pub data: u32,
    /// The stream of the text of a failure.
    pub error: u32,
    /// What the client sends to the port; it ends with the client's data.
    pub input: mpsc::Receiver<Bytes>,
}

/// The streams that the client has opened for a connection so far: the error stream, the data stream, or both.
#[derive(Default)]
struct PortPair {
    error: Option<u32>,
    data: Option<(u32, mpsc::Receiver<Bytes>)>,
    port: u16,
}

impl PortPair {
    fn complete(self) -> Result<PortStreams, Self> {
        match self {
            Self { error: Some(error), data: Some((data, input)), port } => {
                Ok(PortStreams { port, data, error, input })
            }
            incomplete => Err(incomplete),
        }
    }
}

/// Pairs the streams of a client, and hands the client's data to the connections.
pub struct PortPairs {
    /// Connections at a time, complete or not; the streams of further ones are ended at once.
    most: usize,
    /// Pieces of data that wait for a connection; with more, the client waits.
    queued: usize,
    pairs: BTreeMap<String, PortPair>,
    inputs: BTreeMap<u32, mpsc::Sender<Bytes>>,
}

impl PortPairs {
    /// Without a stream. `most` bounds the connections at a time, complete or not, and `queued` the pieces of data that wait for each.
    pub fn new(most: usize, queued: usize) -> Self {
        Self { most, queued, pairs: BTreeMap::new(), inputs: BTreeMap::new() }
    }

    /// Handles an event of the client, while this many connections run. Returns the streams of a connection that the client has completed.
    pub async fn handle(&mut self, event: Event, sender: &Sender, running: usize) -> Option<PortStreams> {
        match event {
            Event::Opened(id, headers) => {
                if self.pairs.len() + running >= self.most {
                    sender.end(id).await;
                    return None;
                }
                return self.open(id, &headers);
            }
            Event::Data(id, data) => {
                // A connection that has ended accepts no more data.
                if let Some(input) = self.inputs.get(&id)
                    && input.send(data).await.is_err()
                {
                    self.inputs.remove(&id);
                }
            }
            Event::Ended(id) => drop(self.inputs.remove(&id)),
        }
        None
    }

    fn open(&mut self, id: u32, headers: &BTreeMap<String, String>) -> Option<PortStreams> {
        let header = |name: &str| headers.get(name).map_or("", String::as_str);
        let number = header("requestid").to_owned();
        let mut pair = self.pairs.remove(&number).unwrap_or_default();
        pair.port = header("port").parse().unwrap_or(0);
        if header("streamtype") == "error" {
            pair.error = Some(id);
        } else {
            // The client need not end its data after the port has: connections that have ended are forgotten here.
            self.inputs.retain(|_, input| !input.is_closed());
            let (input, pieces) = mpsc::channel(self.queued);
            self.inputs.insert(id, input);
            if let Some((replaced, _)) = pair.data.replace((id, pieces)) {
                self.inputs.remove(&replaced);
            }
        }
        match pair.complete() {
            Ok(streams) => Some(streams),
            Err(incomplete) => {
                self.pairs.insert(number, incomplete);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Connection;

    const MOST: usize = 3;

    fn opened(id: u32, kind: &str, number: &str) -> Event {
        let headers = [("streamtype", kind), ("requestid", number), ("port", "80")];
        Event::Opened(id, headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into())
    }

    #[tokio::test]
    async fn the_streams_of_a_connection_are_paired_and_get_the_clients_data() {
        let (connection, _outbox) = Connection::inside(futures::stream::pending());
        let (mut pairs, sender) = (PortPairs::new(MOST, 2), connection.sender());
        assert!(pairs.handle(opened(1, "error", "0"), &sender, 0).await.is_none());
        assert!(pairs.handle(opened(3, "data", "1"), &sender, 0).await.is_none());
        let mut streams = pairs.handle(opened(5, "data", "0"), &sender, 0).await.unwrap();
        assert_eq!((streams.port, streams.data, streams.error), (80, 5, 1));
        let data = Bytes::from_static(b"x");
        pairs.handle(Event::Data(5, data.clone()), &sender, 1).await;
        pairs.handle(Event::Ended(5), &sender, 1).await;
        assert_eq!((streams.input.recv().await, streams.input.recv().await), (Some(data), None));
    }

    #[tokio::test]
    async fn streams_beyond_the_bound_are_ended_at_once() {
        let (connection, mut outbox) = Connection::inside(futures::stream::pending());
        let (mut pairs, sender) = (PortPairs::new(MOST, 2), connection.sender());
        assert!(pairs.handle(opened(1, "error", "0"), &sender, MOST).await.is_none());
        assert_eq!(outbox.recv().await, Some(crate::data(1, b"", true)));
        assert!(pairs.handle(opened(3, "error", "0"), &sender, MOST - 1).await.is_none());
        assert!(outbox.try_recv().is_err(), "the bound is not reached");
    }

    /// A client that opens the same stream again and again, and one whose connections end without its doing, must not fill the memory.
    #[tokio::test]
    async fn replaced_and_ended_streams_are_forgotten() {
        let (connection, _outbox) = Connection::inside(futures::stream::pending());
        let (mut pairs, sender) = (PortPairs::new(MOST, 2), connection.sender());
        for id in 0..100 {
            assert!(pairs.handle(opened(id, "data", "0"), &sender, 0).await.is_none());
        }
        assert_eq!(pairs.inputs.len(), 1);
        for id in 100..200 {
            pairs.handle(opened(2 * id, "data", &id.to_string()), &sender, 0).await;
            drop(pairs.handle(opened(2 * id + 1, "error", &id.to_string()), &sender, 0).await);
        }
        assert!(pairs.inputs.len() <= MOST, "{}", pairs.inputs.len());
    }
}
