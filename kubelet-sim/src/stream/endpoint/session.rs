//! Streams between clients of CRI and containers: a command that runs to its end, a command or an attached client over SPDY, and forwarded
//! ports.

use super::Endpoint;
use super::tokens::Ticket;
use crate::limits::{EXEC_SYNC_OUTPUT, FORWARD_QUEUE, FORWARDED_PORTS, STREAMS_OPENED};
use bytes::Bytes;
use kstore_api::status::{Outcome, Reason, Status as ApiStatus};
use kstore_client::{
    LocalEvent, LocalReceiver, LocalSender, NodeStream, StreamKind, StreamRequest, Terminal,
};
use kstore_proto::cri::v1::ExecSyncResponse;
use kstore_spdy::{Connection, Event, Sender};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tonic::Status;

/// The channel of standard error.
const STDERR: u32 = 2;

/// The opener's halves of a stream, and what serves the other end.
pub(super) struct Opened {
    pub(super) receiver: LocalReceiver,
    pub(super) sender: LocalSender,
    /// The task that serves the node's end, until this is dropped.
    _serving: JoinSet<()>,
}

impl Endpoint {
    /// Opens a stream to a pod.
    pub(super) fn open(&self, request: StreamRequest, is_of_simulation: bool) -> Opened {
        let streams = if is_of_simulation { self.simulation.clone() } else { self.streams.clone() };
        let (stream, receiver, sender) = NodeStream::local(request);
        let mut serving = JoinSet::new();
        serving.spawn(streams.serve(stream));
        Opened { receiver, sender, _serving: serving }
    }

    /// Runs a command to its end, and ends it after `limit`.
    pub(super) async fn run_to_end(
        &self,
        request: StreamRequest,
        is_of_simulation: bool,
        limit: Option<Duration>,
    ) -> Result<ExecSyncResponse, Status> {
        // The semaphore is never closed.
        let _permit = self.commands.acquire().await.map_err(|error| super::problem(&error))?;
        let mut opened = self.open(request, is_of_simulation);
        let mut output = [Vec::new(), Vec::new()];
        let running = async {
            loop {
                match opened.receiver.next().await {
                    Some(LocalEvent::Begun) => {}
                    Some(LocalEvent::Data(channel, bytes)) => {
                        let output = &mut output[usize::from(channel == STDERR)];
                        let room = EXEC_SYNC_OUTPUT.saturating_sub(output.len()).min(bytes.len());
                        output.extend_from_slice(&bytes[..room]);
                    }
                    Some(LocalEvent::Closed(status)) => return Some(status),
                    None => return None,
                }
            }
        };
        let ended = match limit {
            Some(limit) => timeout(limit, running).await,
            None => Ok(running.await),
        };
        let Ok(status) = ended else {
            let seconds = limit.unwrap_or_default().as_secs();
            return Err(Status::deadline_exceeded(format!(
                "failed to exec in container: timeout {seconds}s exceeded: context deadline exceeded"
            )));
        };
        let exit_code = exit_code(status.as_deref())?;
        let [stdout, stderr] = output.map(Bytes::from);
        Ok(ExecSyncResponse { stdout, stderr, exit_code })
    }

    /// Serves a command or an attached client on a SPDY connection, whose end is a Status as JSON if `is_json`.
    pub(super) async fn serve_spdy(&self, ticket: Ticket, mut connection: Connection, is_json: bool) {
        let (StreamKind::Exec(_, terminal) | StreamKind::Attach(terminal)) = ticket.request.kind else {
            return;
        };
        let wanted = expected(terminal, is_json);
        let Ok(Some(ids)) = timeout(STREAMS_OPENED, streams(&mut connection, wanted)).await else { return };
        let Opened { mut receiver, sender: to_node, _serving } =
            self.open(ticket.request, ticket.is_of_simulation);
        let sender = connection.sender();
        tokio::select! {
            biased;
            () = self.tasks.stop().cancelled() => {}
            status = from_node(&mut receiver, &sender, &ids) => end(&sender, &ids, &status, is_json).await,
            () = from_client(&mut connection, &to_node, &ids) => {}
        }
    }

    /// Serves the connections to ports of a pod until their client leaves.
    pub(super) async fn serve_ports(&self, ticket: Ticket, connection: Connection) {
        tokio::select! {
            biased;
            () = self.tasks.stop().cancelled() => {}
            () = self.forward(ticket, connection) => {}
        }
    }

    async fn forward(&self, ticket: Ticket, mut connection: Connection) {
        let mut tasks = JoinSet::new();
        let mut pairs: BTreeMap<String, Pair> = BTreeMap::new();
        let mut inboxes: BTreeMap<u32, mpsc::Sender<Bytes>> = BTreeMap::new();
        while let Some(event) = connection.next().await {
            while tasks.try_join_next().is_some() {}
            match event {
                Event::Opened(id, headers) => {
                    let header = |name: &str| headers.get(name).map_or("", String::as_str);
                    if pairs.len() + tasks.len() >= FORWARDED_PORTS {
                        connection.sender().end(id).await;
                        continue;
                    }
                    let number = header("requestid").to_owned();
                    let pair = pairs.entry(number.clone()).or_default();
                    pair.port = header("port").parse().unwrap_or(0);
                    if header("streamtype") == "error" {
                        pair.error = Some(id);
                    } else {
                        let (inbox, pieces) = mpsc::channel(FORWARD_QUEUE);
                        inboxes.insert(id, inbox);
                        pair.data = Some((id, pieces));
                    }
                    if pair.error.is_some()
                        && pair.data.is_some()
                        && let Some(pair) = pairs.remove(&number)
                    {
                        let request =
                            StreamRequest { kind: StreamKind::Port(pair.port), ..ticket.request.clone() };
                        let opened = self.open(request, ticket.is_of_simulation);
                        tasks.spawn(pair.serve(opened, connection.sender()));
                    }
                }
                Event::Data(id, data) => {
                    // A connection that has ended accepts no more data.
                    if let Some(inbox) = inboxes.get(&id)
                        && inbox.send(data).await.is_err()
                    {
                        inboxes.remove(&id);
                    }
                }
                Event::Ended(id) => drop(inboxes.remove(&id)),
            }
        }
    }
}

/// The exit code of a command, by the status at the end of its stream.
fn exit_code(status: Option<&ApiStatus>) -> Result<i32, Status> {
    let Some(status) = status else {
        return Err(Status::unknown("failed to exec in container: the container ended"));
    };
    if status.status == Outcome::Success {
        return Ok(0);
    }
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let code = causes.filter(|cause| cause.reason == "ExitCode").find_map(|cause| cause.message.parse().ok());
    match code.filter(|_| status.reason == Reason::NonZeroExitCode) {
        Some(code) => Ok(code),
        None => Err(Status::unknown(status.message.clone())),
    }
}

/// The SPDY stream of each channel.
#[derive(Default)]
struct ChannelStreams {
    error: Option<u32>,
    stdin: Option<u32>,
    stdout: Option<u32>,
    stderr: Option<u32>,
    resize: Option<u32>,
}

/// How many streams a client opens.
fn expected(terminal: Terminal, has_sizes: bool) -> usize {
    let Terminal { stdin, stdout, stderr, tty } = terminal;
    let all = [true, stdin, stdout, stderr && !tty, tty && has_sizes];
    all.into_iter().filter(|is_wanted| *is_wanted).count()
}

/// Waits until the client has opened all its streams; `None` if it leaves before, or opens an unknown one.
async fn streams(connection: &mut Connection, expected: usize) -> Option<ChannelStreams> {
    let mut ids = ChannelStreams::default();
    let mut count = 0;
    while count < expected {
        let Event::Opened(id, headers) = connection.next().await? else { continue };
        let slot = match headers.get("streamtype").map(String::as_str) {
            Some("error") => &mut ids.error,
            Some("stdin") => &mut ids.stdin,
            Some("stdout") => &mut ids.stdout,
            Some("stderr") => &mut ids.stderr,
            Some("resize") => &mut ids.resize,
            Some(_) | None => return None,
        };
        *slot = Some(id);
        count += 1;
    }
    Some(ids)
}

/// The status of a stream that ended without one.
pub(super) fn lost() -> ApiStatus {
    ApiStatus::internal("the container ended")
}

/// Sends what a container prints to the client. Returns the result of the stream.
async fn from_node(receiver: &mut LocalReceiver, sender: &Sender, ids: &ChannelStreams) -> ApiStatus {
    loop {
        match receiver.next().await {
            Some(LocalEvent::Data(channel, data)) => {
                let id = if channel == STDERR { ids.stderr } else { ids.stdout };
                if let Some(id) = id {
                    sender.data(id, &data).await;
                }
            }
            Some(LocalEvent::Begun) => {}
            Some(LocalEvent::Closed(status)) => return *status,
            None => return lost(),
        }
    }
}

async fn end(sender: &Sender, ids: &ChannelStreams, status: &ApiStatus, is_json: bool) {
    let text = match (is_json, status.status) {
        (true, _) => status.to_json(),
        (false, Outcome::Failure) => status.message.clone().into_bytes(),
        (false, Outcome::Success) => Vec::new(),
    };
    if let Some(error) = ids.error {
        sender.data(error, &text).await;
    }
    for id in [ids.stdout, ids.stderr, ids.error].into_iter().flatten() {
        sender.end(id).await;
    }
}

/// Sends what the client sends to the container. Returns when the client has left.
async fn from_client(connection: &mut Connection, to_node: &LocalSender, ids: &ChannelStreams) {
    while let Some(event) = connection.next().await {
        match event {
            Event::Data(id, data) if Some(id) == ids.stdin => drop(to_node.send(0, data).await),
            Event::Data(id, data) if Some(id) == ids.resize => drop(to_node.send(4, data).await),
            Event::Ended(id) if Some(id) == ids.stdin => drop(to_node.end(0).await),
            Event::Data(..) | Event::Ended(_) | Event::Opened(..) => {}
        }
    }
}

/// The error and the data stream of one connection to a port; clients open both, one after the other.
#[derive(Default)]
struct Pair {
    error: Option<u32>,
    data: Option<(u32, mpsc::Receiver<Bytes>)>,
    port: u16,
}

impl Pair {
    /// Serves the connection until it ends.
    async fn serve(self, opened: Opened, sender: Sender) {
        let (Some(error), Some((data, mut pieces))) = (self.error, self.data) else { return };
        let Opened { mut receiver, sender: to_node, _serving } = opened;
        let outgoing = async {
            while let Some(piece) = pieces.recv().await {
                if !to_node.send(0, piece).await {
                    break;
                }
            }
            to_node.end(0).await;
            std::future::pending::<()>().await;
        };
        let incoming = async {
            loop {
                match receiver.next().await {
                    Some(LocalEvent::Begun) => {}
                    Some(LocalEvent::Data(channel, bytes)) => {
                        let id = if channel == STDERR { error } else { data };
                        if !sender.data(id, &bytes).await {
                            return;
                        }
                    }
                    Some(LocalEvent::Closed(status)) => {
                        if status.status == Outcome::Failure {
                            sender.data(error, status.message.as_bytes()).await;
                        }
                        return;
                    }
                    None => return,
                }
            }
        };
        tokio::select! {
            biased;
            () = incoming => {}
            () = outgoing => {}
        }
        sender.end(data).await;
        sender.end(error).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::exec::exit;

    #[test]
    fn the_code_of_a_command_is_in_the_status_of_its_stream() {
        assert_eq!(exit_code(Some(&exit(0))).unwrap(), 0);
        assert_eq!(exit_code(Some(&exit(7))).unwrap(), 7);
        let failed = exit_code(Some(&ApiStatus::internal("no such program"))).unwrap_err();
        assert_eq!(failed.code(), tonic::Code::Unknown);
        assert!(failed.message().contains("no such program"), "{failed}");
        assert!(exit_code(None).is_err());
    }

    #[test]
    fn a_terminal_has_one_output_and_sizes() {
        let of = |stdin, stderr, tty, has_sizes| {
            expected(Terminal { stdin, stdout: true, stderr, tty }, has_sizes)
        };
        assert_eq!([of(true, true, false, true), of(false, true, false, true)], [4, 3]);
        assert_eq!([of(true, false, true, true), of(true, false, true, false)], [4, 3]);
    }
}
