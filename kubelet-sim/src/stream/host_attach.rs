//! Clients that are attached to a program of this machine: `kubectl attach`, and `kubectl run -i`.

use super::console::{ConsoleInput, Piece};
use super::exec::{lost, size};
use super::{Console, Feed, Streams};
use crate::chosen_run::Chosen;
use kstore_api::status::Status;
use kstore_client::{NodeStream, StreamReader, StreamWriter, Terminal};
use kstore_host_runtime::terminal::Terminal as HostTerminal;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

/// The channels of a stream.
const STDIN: u32 = 0;
const STDERR: u32 = 2;
const RESIZE: u32 = 4;

impl Streams {
    /// Attaches a client to the process of a container until the process ends or the client leaves.
    pub(super) async fn attach_to_console(
        &self,
        (feed, chosen): (&Feed, &Chosen),
        console: &Console,
        terminal: Terminal,
        stream: NodeStream,
    ) {
        let (reader, writer) = stream.begin();
        let shown = console.attach();
        tokio::select! {
            biased;
            () = writer.ended() => {}
            () = show(shown, terminal, &writer) => {}
            () = lost(feed, chosen) => {}
            () = pass_input(reader, terminal, console) => unreachable!("it does not return"),
        }
        if terminal.stdin {
            console.end_of_client();
        }
        // The container's status reports how the process ended.
        writer.close(&Status::success(200));
    }
}

/// Sends the output that the client wants until the process ends.
async fn show(mut shown: mpsc::Receiver<Piece>, terminal: Terminal, writer: &StreamWriter) {
    while let Some((channel, bytes)) = shown.recv().await {
        let is_wanted = if channel == STDERR { terminal.stderr } else { terminal.stdout };
        if is_wanted && !writer.send(channel, bytes).await {
            return;
        }
    }
}

/// Passes a client's input on. Does not return: the client may still see output.
async fn pass_input(mut reader: StreamReader, terminal: Terminal, console: &Console) {
    let has_input = terminal.stdin && console.has_input();
    while let Some(incoming) = reader.next().await {
        match incoming.channel {
            STDIN if has_input => {
                if !incoming.data.is_empty() {
                    console.send(ConsoleInput::Bytes(incoming.data)).await;
                }
                if incoming.end {
                    console.end_of_client();
                }
            }
            RESIZE => {
                if let Some((rows, columns)) = size(&incoming.data) {
                    console.send(ConsoleInput::Size(rows, columns)).await;
                }
            }
            _ => {}
        }
    }
    std::future::pending::<()>().await;
}

/// Writes what clients send to a program's standard input, which is at its end when theirs is. Does not return.
pub(super) async fn type_into_pipe(console: Option<&Console>, stdin: Option<pipe::Sender>) {
    if let (Some(mut sent), Some(mut stdin)) = (console.and_then(Console::take_input), stdin) {
        while let Some(input) = sent.recv().await {
            if let ConsoleInput::Bytes(bytes) = input
                && stdin.write_all(&bytes).await.is_err()
            {
                break;
            }
        }
    }
    std::future::pending::<()>().await;
}

/// Types what clients send into a program's terminal. Does not return.
pub(super) async fn type_into_terminal(console: Option<&Console>, terminal: &HostTerminal) {
    if let Some(mut sent) = console.and_then(Console::take_input) {
        while let Some(input) = sent.recv().await {
            match input {
                // The terminal is gone with the program.
                ConsoleInput::Bytes(bytes) => drop(terminal.write_all(&bytes).await),
                ConsoleInput::Size(rows, columns) => terminal.resize(rows, columns),
            }
        }
    }
    std::future::pending::<()>().await;
}
