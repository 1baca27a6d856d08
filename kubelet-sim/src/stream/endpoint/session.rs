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
use kstore_spdy::{ChannelStreams, Connection, PortPairs, PortStreams, Sender, WantedChannels};
use std::time::Duration;
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
        let Terminal { stdin, stdout, stderr, tty } = terminal;
        let wanted = WantedChannels { stdin, stdout, stderr, tty, has_sizes: is_json };
        let opened = timeout(STREAMS_OPENED, ChannelStreams::opened(&mut connection, wanted)).await;
        let Ok(Some(ids)) = opened else { return };
        let Opened { mut receiver, sender: to_node, _serving } =
            self.open(ticket.request, ticket.is_of_simulation);
        let sender = connection.sender();
        tokio::select! {
            biased;
            () = self.tasks.stop().cancelled() => {}
            status = from_node(&mut receiver, &sender, &ids) => ids.end(&sender, &result(&status, is_json)).await,
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
        let mut pairs = PortPairs::new(FORWARDED_PORTS, FORWARD_QUEUE);
        while let Some(event) = connection.next().await {
            while tasks.try_join_next().is_some() {}
            let sender = connection.sender();
            if let Some(streams) = pairs.handle(event, &sender, tasks.len()).await {
                let kind = StreamKind::Port(streams.port);
                let request = StreamRequest { kind, ..ticket.request.clone() };
                let opened = self.open(request, ticket.is_of_simulation);
                tasks.spawn(serve_port(streams, opened, sender));
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

/// The status of a stream that ended without one.
pub(super) fn lost() -> ApiStatus {
    ApiStatus::internal("the container ended")
}

/// Sends what a container prints to the client. Returns the result of the stream.
async fn from_node(receiver: &mut LocalReceiver, sender: &Sender, ids: &ChannelStreams) -> ApiStatus {
    loop {
        match receiver.next().await {
            Some(LocalEvent::Data(channel, data)) => {
                ids.output(sender, channel, &data).await;
            }
            Some(LocalEvent::Begun) => {}
            Some(LocalEvent::Closed(status)) => return *status,
            None => return lost(),
        }
    }
}

/// The result of a stream as its client reads it: a Status since version 4, and the text of a failure before.
fn result(status: &ApiStatus, is_json: bool) -> Vec<u8> {
    match (is_json, status.status) {
        (true, _) => status.to_json(),
        (false, Outcome::Failure) => status.message.clone().into_bytes(),
        (false, Outcome::Success) => Vec::new(),
    }
}

/// Sends what the client sends to the container. Returns when the client has left.
async fn from_client(connection: &mut Connection, to_node: &LocalSender, ids: &ChannelStreams) {
    while let Some(event) = connection.next().await {
        // What a client sends to a command that has ended is lost.
        match ids.input(event) {
            Some((channel, Some(data))) => drop(to_node.send(channel, data).await),
            Some((channel, None)) => drop(to_node.end(channel).await),
            None => {}
        }
    }
}

/// Serves a connection to a port until it ends.
async fn serve_port(streams: PortStreams, opened: Opened, sender: Sender) {
    let PortStreams { data, error, mut input, .. } = streams;
    let Opened { mut receiver, sender: to_node, _serving } = opened;
    let outgoing = async {
        while let Some(piece) = input.recv().await {
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
}
