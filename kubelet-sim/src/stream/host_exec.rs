//! Commands in containers that run programs of this machine: those of `kubectl exec`, and of hooks and probes.

use super::exec::{exit, lost, size};
use super::{Feed, Snapshot, Streams};
use crate::chosen_run::Chosen;
use crate::limits::{EXECUTION_OUTPUT, HOST_OUTPUT};
use crate::program::{self, Program};
use bytes::Bytes;
use kstore_api::status::Status;
use kstore_client::{NodeStream, StreamReader, StreamWriter, Terminal};
use kstore_host_runtime::terminal::Terminal as HostTerminal;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitStatus, Stdio};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, ChildStdin, Command};

/// The channels of a stream.
const STDIN: u32 = 0;
const STDOUT: u32 = 1;
const STDERR: u32 = 2;
const RESIZE: u32 = 4;
/// The exit code of a process that SIGKILL has ended.
const KILLED: u8 = 137;

/// Whether a container runs a program of this machine.
pub(super) fn is_on_host(snapshot: &Snapshot, container: usize) -> bool {
    program::of(&snapshot.record.pod, container) == Program::Host
}

impl Streams {
    /// Runs a command of a client in a container.
    pub(super) async fn exec_on_host(
        &self,
        (feed, chosen): (&Feed, &Chosen),
        argv: &[String],
        terminal: Terminal,
        stream: NodeStream,
    ) {
        let (_, snapshot) = feed.get();
        let started = self.host_command(&snapshot, chosen.container, argv, terminal.tty);
        let (reader, writer) = stream.begin();
        let session = async {
            match (started, terminal.tty) {
                (Ok(command), true) => with_terminal(command, reader, &writer).await,
                (Ok(command), false) => with_pipes(command, reader, &writer).await,
                (Err(why), _) => Err(why),
            }
        };
        let status = tokio::select! {
            biased;
            () = writer.ended() => return,
            // The command is killed with the container.
            () = lost(feed, chosen) => exit(KILLED),
            ended = session => match ended {
                Ok(code) => exit(code),
                Err(why) => Status::internal(format!("error executing command in container: {why}")),
            },
        };
        writer.close(&status);
    }

    /// Runs a command of a hook or a probe in a container, and returns its exit code. The beginning of its output goes to `output`.
    pub(super) async fn execute_on_host(
        &self,
        snapshot: &Snapshot,
        container: usize,
        argv: &[String],
        output: &mut Vec<u8>,
    ) -> u8 {
        let run = async {
            let mut command = self.host_command(snapshot, container, argv, false)?;
            let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn()?;
            let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
            let (out, err) = tokio::join!(beginning(stdout), beginning(stderr));
            let status = child.wait().await?;
            Ok::<_, std::io::Error>((out, err, code(status)))
        };
        match run.await {
            Ok((out, err, code)) => {
                output.extend(out);
                output.extend(err);
                output.truncate(EXECUTION_OUTPUT);
                code
            }
            Err(error) => {
                output.extend_from_slice(error.to_string().as_bytes());
                126
            }
        }
    }

    fn host_command(
        &self,
        snapshot: &Snapshot,
        container: usize,
        argv: &[String],
        has_terminal: bool,
    ) -> std::io::Result<Command> {
        let none = || std::io::Error::other("the container does not run");
        let programs = self.programs.as_ref().ok_or_else(none)?;
        let object = &snapshot.record.pod;
        let spec = object.container(container).ok_or_else(none)?;
        programs.command((&object.metadata.uid, &spec.name), argv, has_terminal)
    }
}

/// Reads output to its end, and returns its beginning.
async fn beginning(from: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let (mut kept, mut buffer) = (Vec::new(), vec![0; HOST_OUTPUT]);
    let Some(mut from) = from else { return kept };
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let room = EXECUTION_OUTPUT.saturating_sub(kept.len()).min(length);
        kept.extend_from_slice(&buffer[..room]);
    }
    kept
}

/// Runs a command whose streams are those of the client.
async fn with_pipes(
    mut command: Command,
    reader: StreamReader,
    writer: &StreamWriter,
) -> std::io::Result<u8> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    tokio::select! {
        biased;
        code = output(&mut child, (stdout, stderr), writer) => code,
        () = input(reader, stdin) => unreachable!("it does not return"),
    }
}

/// Sends output until it ends, and returns the exit code.
async fn output(
    child: &mut Child,
    (stdout, stderr): (Option<impl AsyncRead + Unpin>, Option<impl AsyncRead + Unpin>),
    writer: &StreamWriter,
) -> std::io::Result<u8> {
    tokio::join!(send(stdout, STDOUT, writer), send(stderr, STDERR, writer));
    Ok(code(child.wait().await?))
}

async fn send(from: Option<impl AsyncRead + Unpin>, channel: u32, writer: &StreamWriter) {
    let Some(mut from) = from else { return };
    let mut buffer = vec![0; HOST_OUTPUT];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        writer.send(channel, Bytes::copy_from_slice(&buffer[..length])).await;
    }
}

/// Passes the client's input on. Does not return: the command may go on after its input.
async fn input(mut reader: StreamReader, mut stdin: Option<ChildStdin>) {
    while let Some(incoming) = reader.next().await {
        if incoming.channel != STDIN {
            continue;
        }
        let is_open = match &mut stdin {
            Some(stdin) => stdin.write_all(&incoming.data).await.is_ok(),
            None => false,
        };
        if incoming.end || !is_open {
            stdin = None;
        }
    }
    drop(stdin);
    std::future::pending::<()>().await;
}

/// Runs a command in a terminal, at whose other end the client is.
async fn with_terminal(
    mut command: Command,
    mut reader: StreamReader,
    writer: &StreamWriter,
) -> std::io::Result<u8> {
    let (terminal, other) = HostTerminal::open()?;
    let (one, two) = (other.try_clone()?, other.try_clone()?);
    let mut child = command.stdin(other).stdout(one).stderr(two).spawn()?;
    // The command has the other end of the terminal, which would not be at its end as long as it is open here.
    drop(command);
    let shown = async {
        let mut buffer = vec![0; HOST_OUTPUT];
        while let Ok(length @ 1..) = terminal.read(&mut buffer).await {
            writer.send(STDOUT, Bytes::copy_from_slice(&buffer[..length])).await;
        }
    };
    let typed = async {
        while let Some(incoming) = reader.next().await {
            match incoming.channel {
                // The terminal is gone with the command.
                STDIN => drop(terminal.write_all(&incoming.data).await),
                RESIZE => {
                    if let Some((rows, columns)) = size(&incoming.data) {
                        terminal.resize(rows, columns);
                    }
                }
                _ => {}
            }
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        () = shown => {}
        () = typed => unreachable!("it does not return"),
    }
    Ok(code(child.wait().await?))
}

/// The exit code as shells have it.
fn code(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|signal| 128 + signal);
    status.code().or(signal).and_then(|code| u8::try_from(code).ok()).unwrap_or(KILLED)
}
