//! [`Relay`]: a real etcd for a runtime in virtual time.
//!
//! It is a [`Dial`] that serves the etcd API in this process by asking the real etcd from another thread, in
//! real time, while this thread is blocked: no task runs and no virtual time passes between a request and its
//! answer. Before the thread continues, every open watch has received all events that the answer reflects
//! (`watch_stream`), so that an idle runtime may advance time: nothing is in flight. Messages are etcd's, unchanged;
//! only the bytes of the connection differ.
//!
//! There are no other writers: the holder of an [`EtcdLoan`] uses the etcd exclusively. Each cluster has a
//! unique prefix.

mod loan;
mod services;
mod watch_stream;

use crate::Change;
use crate::wait::PATIENCE;
use async_trait::async_trait;
use futures::stream;
use kstore_proto::etcd::etcdserverpb::kv_client::KvClient;
use kstore_proto::etcd::etcdserverpb::kv_server::KvServer;
use kstore_proto::etcd::etcdserverpb::lease_server::LeaseServer;
use kstore_proto::etcd::etcdserverpb::watch_client::WatchClient;
use kstore_proto::etcd::etcdserverpb::watch_server::WatchServer;
use kstore_proto::etcd::etcdserverpb::{self as pb};
use kstore_storage::storage::etcd::{Dial, Url, Wire};
pub(crate) use loan::EtcdLoan;
use std::io;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Response, Status};
pub(crate) use watch_stream::Events;
use watch_stream::WatchStream;

/// Buffer size of a pipe in bytes, about that of a socket.
const PIPE: usize = 256 * 1024;

/// Number of operations that etcd accepts in a transaction.
const OPERATIONS: usize = 128;

/// Interval of connection attempts to an etcd that does not answer yet.
const START: Duration = Duration::from_millis(50);

/// The runtime in real time.
static REAL_TIME: LazyLock<Runtime> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a thread can be started")
});

/// Runs a future in real time and blocks this thread until its result.
fn in_real_time<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    REAL_TIME.spawn(async move { sender.send(future.await) });
    receiver.recv_timeout(PATIENCE).expect("etcd answers")
}

/// The newest revision of an etcd.
async fn newest(mut kv: KvClient<Channel>) -> Result<i64, Status> {
    let range = pb::RangeRequest { key: "/".into(), count_only: true, ..Default::default() };
    let answer = kv.range(range).await?;
    Ok(answer.into_inner().header.map_or(0, |header| header.revision))
}

/// Connects to an etcd that may just have been started. Returns the connection and the newest revision.
async fn begin(endpoint: Endpoint) -> (Channel, i64) {
    loop {
        if let Ok(channel) = endpoint.connect().await
            && let Ok(revision) = newest(KvClient::new(channel.clone())).await
        {
            return (channel, revision);
        }
        tokio::time::sleep(START).await;
    }
}

/// A dial that relays the etcd API to a real etcd.
#[derive(Clone)]
pub(crate) struct Relay {
    channel: Channel,
    prefix: String,
    /// The newest revision before this relay.
    begun: i64,
    streams: Arc<Mutex<Vec<WatchStream>>>,
    cut: CancellationToken,
    tasks: TaskTracker,
}

impl Relay {
    /// Connects to the etcd at `url`, with an unused prefix.
    pub(crate) fn to(url: &str, tasks: &TaskTracker) -> Self {
        let endpoint = Endpoint::new(url.to_owned()).expect("a URL");
        let (channel, begun) = in_real_time(begin(endpoint));
        // A later relay finds a later revision, since every cluster writes.
        let prefix = format!("/from-{begun}");
        let (streams, cut) = Default::default();
        Self { channel, prefix, begun, streams, cut, tasks: tasks.clone() }
    }

    /// The prefix of the cluster's keys.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The newest revision.
    pub(crate) fn revision(&self) -> i64 {
        in_real_time(newest(self.kv())).expect("a read is answered")
    }

    /// Compacts the etcd, see [`crate::BackingStore::compact`].
    pub(crate) fn compact(&self, revision: i64) -> Result<(), Status> {
        let mut kv = self.kv();
        let request = pb::CompactionRequest { revision, physical: false };
        self.ask(async move { kv.compact(request).await }, |answer| &answer.header).map(drop)
    }

    /// Writes a key, see [`crate::BackingStore::put`].
    pub(crate) fn put(&self, key: &str, value: Vec<u8>) -> Result<(), Status> {
        let key = key.replacen("/registry", &self.prefix, 1);
        let request = pb::PutRequest { key: key.into(), value: value.into(), ..Default::default() };
        let mut kv = self.kv();
        self.ask(async move { kv.put(request).await }, |answer| &answer.header).map(drop)
    }

    /// Writes keys, see [`Self::put`].
    pub(crate) fn put_all(&self, objects: Vec<(String, Vec<u8>)>) {
        let puts: Vec<pb::RequestOp> = objects
            .into_iter()
            .map(|(key, value)| {
                let key = key.replacen("/registry", &self.prefix, 1).into();
                let put = pb::PutRequest { key, value: value.into(), ..Default::default() };
                pb::RequestOp { request: Some(pb::request_op::Request::RequestPut(put)) }
            })
            .collect();
        for success in puts.chunks(OPERATIONS) {
            let txn = pb::TxnRequest { success: success.to_vec(), ..Default::default() };
            let mut kv = self.kv();
            let written = self.ask(async move { kv.txn(txn).await }, |answer| &answer.header);
            written.expect("a transaction of distinct keys is accepted");
        }
    }

    /// Lets etcd appear unreachable from now on.
    pub(crate) fn cut(&self) {
        self.cut.cancel();
        self.all_streams().iter().for_each(WatchStream::wait_end);
    }

    /// Responses of a watch of all keys of the cluster, from this revision on.
    pub(crate) fn changes(&self, revision: i64) -> Events {
        let (key, range_end) = (format!("{}-", self.prefix), format!("{}0", self.prefix));
        let create = pb::WatchCreateRequest {
            key: key.into(),
            range_end: range_end.into(),
            start_revision: revision,
            ..Default::default()
        };
        let (stream, events) = self.open_stream();
        stream.send(pb::WatchRequest {
            request_union: Some(pb::watch_request::RequestUnion::CreateRequest(create)),
        });
        events
    }

    /// All changes of objects of the cluster, in order.
    pub(crate) fn history(&self) -> Vec<Change> {
        let mut events = self.changes(self.begun + 1);
        self.settle(self.revision());
        let mut changes = Vec::new();
        while let Some(response) = events.try_next() {
            let response = response.expect("nothing was compacted");
            changes.extend(Change::of_events(&self.prefix, response.events));
        }
        changes
    }

    fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX)
    }

    /// Opens a stream of watches that is settled with all others from now on.
    fn open_stream(&self) -> (WatchStream, Events) {
        let client = WatchClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX);
        let (stream, events) = WatchStream::open(client, self.cut.clone());
        let mut streams = self.streams.lock().expect("no holder panics");
        streams.retain(|stream| !stream.has_ended());
        streams.push(stream.clone());
        (stream, events)
    }

    /// The answer to a call, after all watches have received the events that it reflects.
    fn ask<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>> + Send + 'static,
        header: impl FnOnce(&T) -> &Option<pb::ResponseHeader>,
    ) -> Result<Response<T>, Status> {
        if self.cut.is_cancelled() {
            return Err(Status::unavailable("etcdserver: server stopped"));
        }
        let answer = in_real_time(call)?;
        self.settle(header(answer.get_ref()).as_ref().map_or(0, |header| header.revision));
        Ok(answer)
    }

    fn settle(&self, revision: i64) {
        self.all_streams().iter().for_each(|stream| stream.settle(revision));
    }

    fn all_streams(&self) -> Vec<WatchStream> {
        self.streams.lock().expect("no holder panics").clone()
    }
}

#[async_trait]
impl Dial for Relay {
    async fn dial(&self, _: &Url) -> io::Result<Box<dyn Wire>> {
        if self.cut.is_cancelled() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let server = Server::builder()
            .add_service(KvServer::new(self.clone()).max_decoding_message_size(usize::MAX))
            .add_service(WatchServer::new(self.clone()))
            .add_service(LeaseServer::new(self.clone()));
        let incoming = stream::iter([Ok::<_, io::Error>(theirs)]);
        self.tasks.spawn(async move { server.serve_with_incoming(incoming).await });
        Ok(Box::new(ours))
    }
}
