//! [`Relay`]: a real etcd for a runtime in virtual time. It is a [`Dial`] behind which the etcd API is answered in this process, by
//! asking the real one from another thread, in real time, while this thread stands still: nothing runs and no virtual time passes
//! between a question and its answer. Before it goes on, every open watch has heard of all that the answer has seen (`line`), so
//! that a runtime with nothing left to do may let time pass: nothing is on its way. What passes through is etcd's own, word for
//! word; only the bytes of the connection are not.
//!
//! Nobody else writes meanwhile: who has a [`Loan`] has the etcd to himself. Each cluster has a prefix of its own.

mod line;
mod loan;
mod services;

pub(crate) use line::Events;
pub(crate) use loan::Loan;

use crate::Change;
use async_trait::async_trait;
use futures::stream;
use kstore_apiserver::storage::etcd::{Dial, Url, Wire};
use kstore_proto::etcd::etcdserverpb::{
    self as pb, kv_client::KvClient, kv_server::KvServer, lease_server::LeaseServer,
    watch_client::WatchClient, watch_server::WatchServer,
};
use line::Line;
use std::io;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Response, Status};

/// Bytes that a pipe holds; about what a socket does.
const PIPE: usize = 256 * 1024;

/// What etcd does not answer in this real time it never will.
const PATIENCE: Duration = Duration::from_secs(60);

/// So long an etcd that does not answer yet is left alone.
const START: Duration = Duration::from_millis(50);

/// Where time is real.
static OUTSIDE: LazyLock<Runtime> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.expect("a thread can be started")
});

/// What a future outside comes to; meanwhile this thread stands still.
fn outside<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    let (tell, told) = std::sync::mpsc::channel();
    OUTSIDE.spawn(async move { tell.send(future.await) });
    told.recv_timeout(PATIENCE).expect("etcd answers")
}

/// The newest revision of an etcd.
async fn newest(mut kv: KvClient<Channel>) -> Result<i64, Status> {
    let range = pb::RangeRequest { key: "/".into(), count_only: true, ..Default::default() };
    let answer = kv.range(range).await?;
    Ok(answer.into_inner().header.map_or(0, |header| header.revision))
}

/// A connection to an etcd that may only just have been started, and its newest revision.
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

/// See the module.
#[derive(Clone)]
pub(crate) struct Relay {
    channel: Channel,
    prefix: String,
    /// The newest revision before it.
    begun: i64,
    lines: Arc<Mutex<Vec<Line>>>,
    cut: CancellationToken,
    tasks: TaskTracker,
}

impl Relay {
    /// To the etcd at `url`, with a prefix under which nothing is.
    pub(crate) fn to(url: &str, tasks: &TaskTracker) -> Self {
        let endpoint = Endpoint::new(url.to_owned()).expect("a URL");
        let (channel, begun) = outside(begin(endpoint));
        // Whoever comes later finds a later revision, since every cluster writes.
        let prefix = format!("/from-{begun}");
        let (lines, cut) = Default::default();
        Self { channel, prefix, begun, lines, cut, tasks: tasks.clone() }
    }

    /// What the cluster's keys begin with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The newest revision.
    pub(crate) fn revision(&self) -> i64 {
        outside(newest(self.kv())).expect("a read is answered")
    }

    /// See [`crate::Ground::compact`].
    pub(crate) fn compact(&self, revision: i64) -> Result<(), Status> {
        let mut kv = self.kv();
        let request = pb::CompactionRequest { revision, physical: false };
        self.ask(async move { kv.compact(request).await }, |answer| &answer.header).map(drop)
    }

    /// See [`crate::Ground::put`].
    pub(crate) fn put(&self, key: &str, value: String) -> Result<(), Status> {
        let key = key.replacen("/registry", &self.prefix, 1);
        let request = pb::PutRequest { key: key.into(), value: value.into(), ..Default::default() };
        let mut kv = self.kv();
        self.ask(async move { kv.put(request).await }, |answer| &answer.header).map(drop)
    }

    /// From now on etcd does not answer.
    pub(crate) fn cut(&self) {
        self.cut.cancel();
        self.all_lines().iter().for_each(Line::wait_end);
    }

    /// Responses of a watch of all of the cluster's keys, from this revision on.
    pub(crate) fn changes(&self, revision: i64) -> Events {
        let (key, range_end) = (format!("{}-", self.prefix), format!("{}0", self.prefix));
        let create = pb::WatchCreateRequest {
            key: key.into(),
            range_end: range_end.into(),
            start_revision: revision,
            ..Default::default()
        };
        let (line, events) = self.line();
        line.send(pb::WatchRequest {
            request_union: Some(pb::watch_request::RequestUnion::CreateRequest(create)),
        });
        events
    }

    /// Everything that was written to objects of the cluster, in order.
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

    /// A stream of watches, which is settled with all others from now on.
    fn line(&self) -> (Line, Events) {
        let client = WatchClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX);
        let (line, events) = Line::open(client, self.cut.clone());
        let mut lines = self.lines.lock().expect("nobody panics with it");
        lines.retain(|line| !line.has_ended());
        lines.push(line.clone());
        (line, events)
    }

    /// The answer to a call, after all watches have heard of what it has seen.
    fn ask<T: Send + 'static>(
        &self,
        call: impl Future<Output = Result<Response<T>, Status>> + Send + 'static,
        header: impl FnOnce(&T) -> &Option<pb::ResponseHeader>,
    ) -> Result<Response<T>, Status> {
        if self.cut.is_cancelled() {
            return Err(Status::unavailable("etcdserver: server stopped"));
        }
        let answer = outside(call)?;
        self.settle(header(answer.get_ref()).as_ref().map_or(0, |header| header.revision));
        Ok(answer)
    }

    fn settle(&self, revision: i64) {
        self.all_lines().iter().for_each(|line| line.settle(revision));
    }

    fn all_lines(&self) -> Vec<Line> {
        self.lines.lock().expect("nobody panics with it").clone()
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
