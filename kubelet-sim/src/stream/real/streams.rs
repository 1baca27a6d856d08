//! Clients of containers of a runtime: commands, attached clients and ports go through the runtime's streaming server, commands of hooks
//! and probes through a call.

use super::{RealNode, runtime_id};
use crate::chosen_run::Chosen;
use crate::limits::{EXECUTION_OUTPUT, NETWORK_BUFFER};
use crate::stream::exec::{exit, lost, size};
use crate::stream::network::Connection;
use crate::stream::pipe::pipe;
use crate::stream::{Feed, Snapshot, Streams};
use kstore_api::status::Status;
use kstore_client::{NodeStream, StreamReader, StreamWriter, Terminal};
use kstore_container_sim::NetworkFailure;
use kstore_cri::client::ClientStreams;
use kstore_cri::stream::{RemoteEnd, RemoteInput, RemoteOutput, RemotePiece, forward, open};
use kstore_fabric::Host;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncWriteExt as _, copy_bidirectional, duplex};
use tokio::net::TcpStream;

/// The channels of a stream.
const STDIN: u32 = 0;
const STDOUT: u32 = 1;
const STDERR: u32 = 2;
const RESIZE: u32 = 4;
/// The exit code of a command whose container is gone.
const KILLED: u8 = 137;

/// What a client does in a container.
pub(in crate::stream) enum Errand<'a> {
    /// It runs a command.
    Exec(&'a [String]),
    /// It is attached to the container's process.
    Attach,
}

impl Streams {
    /// Connects a client to a command in a container, or to the container's process.
    pub(in crate::stream) async fn serve_client(
        &self,
        (feed, chosen): (&Feed, &Chosen),
        errand: Errand<'_>,
        terminal: Terminal,
        stream: NodeStream,
    ) {
        let opened = self.open_errand(&chosen.run.id, &errand, terminal).await;
        let (reader, writer) = stream.begin();
        let (input, output) = match opened {
            Ok(opened) => opened,
            Err(why) => {
                return writer
                    .close(&Status::internal(format!("error executing command in container: {why}")));
            }
        };
        let end = tokio::select! {
            biased;
            () = writer.ended() => return,
            end = show(output, terminal, &writer) => end,
            () = lost(feed, chosen) => RemoteEnd::Code(KILLED.into()),
            () = pass_input(reader, input) => unreachable!("it does not return"),
        };
        writer.close(&match (errand, end) {
            // The container's status reports how the process ended.
            (Errand::Attach, _) => Status::success(200),
            (Errand::Exec(_), RemoteEnd::Code(code)) => exit(u8::try_from(code).unwrap_or(KILLED)),
            // The runtime's text has the words of a kubelet.
            (Errand::Exec(_), RemoteEnd::Failed(why)) => {
                Status::internal(why.trim_start_matches("Internal error occurred: ").to_owned())
            }
        });
    }

    async fn open_errand(
        &self,
        run: &str,
        errand: &Errand<'_>,
        terminal: Terminal,
    ) -> Result<(RemoteInput, RemoteOutput), String> {
        let real = self.real.as_ref().ok_or("the node has no container runtime")?;
        let Terminal { stdin, stdout, stderr, tty } = terminal;
        let streams = ClientStreams { stdin, stdout, stderr, tty };
        let id = runtime_id(run);
        let url = match errand {
            Errand::Exec(argv) => real.client.exec(id, argv, streams).await,
            Errand::Attach => real.client.attach(id, streams).await,
        };
        let url = url.map_err(|error| error.to_string())?;
        open(&url, streams).await.map_err(|error| error.to_string())
    }

    /// Runs a command of a hook or a probe in a container, and returns its exit code. The beginning of its output goes to `output`.
    pub(in crate::stream) async fn execute_in_runtime(
        &self,
        run: &str,
        (argv, limit): (&[String], Option<Duration>),
        output: &mut Vec<u8>,
    ) -> u8 {
        let Some(real) = &self.real else { return 1 };
        match real.client.exec_sync(runtime_id(run), argv, limit).await {
            Ok(result) => {
                output.extend(result.stdout);
                output.extend(result.stderr);
                output.truncate(EXECUTION_OUTPUT);
                u8::try_from(result.exit_code).unwrap_or(1)
            }
            Err(error) if error.is_timeout() && limit.is_some() => {
                // The caller gives the command up at the same time, and has the text for that.
                std::future::pending().await
            }
            Err(error) => {
                output.extend_from_slice(error.to_string().as_bytes());
                1
            }
        }
    }

    /// Connects a client to a port of a pod, in the network of its sandbox.
    pub(in crate::stream) async fn forward_in_runtime(
        &self,
        snapshot: &Snapshot,
        port: u16,
        stream: NodeStream,
    ) {
        let (reader, writer) = stream.begin();
        let (near, mut far) = duplex(NETWORK_BUFFER);
        let failure = Mutex::new(String::new());
        let serving = async {
            let forwarded = async {
                let real = self.real.as_ref().ok_or("the node has no container runtime")?;
                let url = real.port_url(snapshot, port).await?;
                forward(&url, port, &mut far).await.map_err(|error| error.to_string())
            };
            let why = forwarded.await.unwrap_or_else(|why: String| why);
            *failure.lock().unwrap_or_else(PoisonError::into_inner) = why;
            // The client sees the end of what the port has sent.
            let _ = far.shutdown().await;
        };
        pipe(reader, &writer, near, Some(serving)).await;
        let why = failure.into_inner().unwrap_or_else(PoisonError::into_inner);
        if !why.is_empty() {
            writer.send(STDERR, why).await;
        }
        writer.close(&Status::success(200));
    }
}

impl RealNode {
    async fn port_url(&self, snapshot: &Snapshot, port: u16) -> Result<String, String> {
        let uid = &snapshot.record.pod.metadata.uid;
        let found = self.client.sandboxes_of(uid, &self.labels).await.map_err(|error| error.to_string())?;
        let ready = found.into_iter().find(|sandbox| sandbox.is_ready).ok_or("the pod has no network")?;
        self.client.port_forward(&ready.id, port).await.map_err(|error| error.to_string())
    }
}

/// Sends output to a client until its end.
async fn show(mut output: RemoteOutput, terminal: Terminal, writer: &StreamWriter) -> RemoteEnd {
    while let Some(piece) = output.next().await {
        let (channel, bytes) = match piece {
            RemotePiece::Stdout(bytes) => (STDOUT, bytes),
            RemotePiece::Stderr(bytes) => (STDERR, bytes),
            RemotePiece::End(end) => return end,
        };
        let is_wanted = if channel == STDERR { terminal.stderr } else { terminal.stdout };
        if is_wanted {
            writer.send(channel, bytes).await;
        }
    }
    RemoteEnd::Code(0)
}

/// Passes a client's input on. Does not return: the client may still see output.
async fn pass_input(mut reader: StreamReader, mut input: RemoteInput) {
    while let Some(incoming) = reader.next().await {
        match incoming.channel {
            STDIN => {
                if !incoming.data.is_empty() {
                    input.send(&incoming.data).await;
                }
                if incoming.end {
                    input.end().await;
                }
            }
            RESIZE => {
                if let Some((rows, columns)) = size(&incoming.data) {
                    input.resize(rows, columns).await;
                }
            }
            _ => {}
        }
    }
    input.end().await;
    std::future::pending::<()>().await;
}

/// Connects `host` to a port of a pod, whose address the runtime's network leads to.
pub(in crate::stream) async fn connect(
    host: &Host,
    snapshot: &Snapshot,
    to: SocketAddr,
) -> Result<Connection, NetworkFailure> {
    // A pod in the network of its node is this machine.
    let address = snapshot.machine.ip.unwrap_or(Ipv4Addr::LOCALHOST.into());
    let mut socket = match TcpStream::connect((address, to.port())).await {
        Ok(socket) => socket,
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            return Err(NetworkFailure::Refused(to.ip()));
        }
        Err(_) => return Err(NetworkFailure::NoRoute(to.ip())),
    };
    let (stream, mut end) = host.open(to).map_err(|_| NetworkFailure::Exhausted)?;
    let serving = async move {
        // Either end may reset the connection.
        let _ = copy_bidirectional(&mut end, &mut socket).await;
    };
    Ok(Connection { stream, serving: Some(Box::pin(serving)) })
}
