//! A command that a runtime runs for a client, or a client that it attaches to a container: `v4.channel.k8s.io`.

use super::connection::{Connection, StreamError, StreamEvent, StreamSender};
use crate::client::ClientStreams;
use crate::limits::STATUS_BYTES;
use bytes::Bytes;
use serde::Deserialize;

/// The protocol in which the end of a command is an object.
const PROTOCOL: &str = "v4.channel.k8s.io";

/// How a command or an attached client's session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemoteEnd {
    /// The command ended with this code.
    Code(i32),
    /// It could not be run or was cut off, with the runtime's text.
    Failed(String),
}

/// What a command prints, or its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemotePiece {
    /// Standard output.
    Stdout(Bytes),
    /// Standard error.
    Stderr(Bytes),
    /// The end.
    End(RemoteEnd),
}

/// What a client sends to a command.
pub struct RemoteInput {
    sender: StreamSender,
    stdin: Option<u32>,
    resize: Option<u32>,
}

/// What a client receives from a command.
pub struct RemoteOutput {
    connection: Connection,
    error: u32,
    stdout: Option<u32>,
    status: Vec<u8>,
    has_ended: bool,
}

/// Opens the streams of a command or of an attached client at the URL that the runtime returned for them.
///
/// # Errors
/// The streaming server does not serve them.
pub async fn open(url: &str, streams: ClientStreams) -> Result<(RemoteInput, RemoteOutput), StreamError> {
    let connection = Connection::open(url, PROTOCOL).await?;
    let wanted = [
        ("error", true),
        ("stdin", streams.stdin),
        ("stdout", streams.stdout),
        // A terminal has one output.
        ("stderr", streams.stderr && !streams.tty),
        ("resize", streams.tty),
    ];
    let ids = ids(wanted.map(|(_, is_wanted)| is_wanted));
    for ((name, _), id) in wanted.into_iter().zip(ids) {
        if let Some(id) = id {
            connection.open_stream(id, &[("streamtype", name)]).await?;
        }
    }
    let [error, stdin, stdout, _, resize] = ids;
    let input = RemoteInput { sender: connection.sender(), stdin, resize };
    let error = error.unwrap_or_default();
    Ok((input, RemoteOutput { connection, error, stdout, status: Vec::new(), has_ended: false }))
}

/// The numbers of the streams that are wanted, in order.
fn ids<const N: usize>(wanted: [bool; N]) -> [Option<u32>; N] {
    let mut next = 1;
    wanted.map(|is_wanted| {
        is_wanted.then(|| {
            // Streams of a client have odd numbers.
            let id = next;
            next += 2;
            id
        })
    })
}

impl RemoteInput {
    /// Sends input; returns false once the command takes none.
    pub async fn send(&self, bytes: &[u8]) -> bool {
        match self.stdin {
            Some(stdin) => self.sender.data(stdin, bytes).await.is_ok(),
            None => false,
        }
    }

    /// Ends the input.
    pub async fn end(&mut self) {
        if let Some(stdin) = self.stdin.take() {
            // A command that has ended reads no input.
            let _ = self.sender.end(stdin).await;
        }
    }

    /// Sets the size of the terminal.
    pub async fn resize(&self, rows: u16, columns: u16) {
        if let Some(resize) = self.resize {
            let size = format!("{{\"Width\":{columns},\"Height\":{rows}}}\n");
            // The terminal is gone with the command.
            let _ = self.sender.data(resize, size.as_bytes()).await;
        }
    }
}

impl RemoteOutput {
    /// The next output, and at last the end; `None` after the end.
    pub async fn next(&mut self) -> Option<RemotePiece> {
        if self.has_ended {
            return None;
        }
        loop {
            match self.connection.next().await {
                Some(StreamEvent::Data(id, bytes)) if id == self.error => {
                    let room = STATUS_BYTES.saturating_sub(self.status.len()).min(bytes.len());
                    self.status.extend_from_slice(&bytes[..room]);
                }
                Some(StreamEvent::Data(id, bytes)) if Some(id) == self.stdout => {
                    return Some(RemotePiece::Stdout(bytes));
                }
                Some(StreamEvent::Data(_, bytes)) => return Some(RemotePiece::Stderr(bytes)),
                Some(StreamEvent::Ended(id)) if id != self.error => {}
                Some(StreamEvent::Ended(_)) | None => {
                    self.has_ended = true;
                    return Some(RemotePiece::End(end(&self.status)));
                }
            }
        }
    }
}

/// The parts of a Status that say how a command ended.
#[derive(Default, Deserialize)]
#[serde(default)]
struct EndStatus {
    status: String,
    reason: String,
    message: String,
    details: EndDetails,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EndDetails {
    causes: Vec<EndCause>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EndCause {
    reason: String,
    message: String,
}

/// The end of a command by the status that the server sent; without one it was cut off.
fn end(status: &[u8]) -> RemoteEnd {
    let Ok(EndStatus { status, reason, message, details }) = serde_json::from_slice(status) else {
        return RemoteEnd::Failed("the container runtime closed the stream".to_owned());
    };
    let code = details.causes.iter().find(|cause| cause.reason == "ExitCode");
    let code = code.and_then(|cause| cause.message.parse().ok());
    match (status.as_str(), reason.as_str(), code) {
        ("Success", ..) => RemoteEnd::Code(0),
        (_, "NonZeroExitCode", Some(code)) => RemoteEnd::Code(code),
        _ => RemoteEnd::Failed(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_numbered_in_their_order() {
        assert_eq!(ids([true, false, true, true, false]), [Some(1), None, Some(3), Some(5), None]);
    }

    #[test]
    fn the_status_says_how_a_command_ended() {
        let failed = |text: &str| RemoteEnd::Failed(text.to_owned());
        let code = r#"{"status":"Failure","message":"command terminated with non-zero exit code","reason":"NonZeroExitCode",
                      "details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;
        for (status, expected) in [
            (r#"{"metadata":{},"status":"Success"}"#, RemoteEnd::Code(0)),
            (code, RemoteEnd::Code(3)),
            (
                r#"{"status":"Failure","message":"no such program","reason":"InternalError"}"#,
                failed("no such program"),
            ),
            ("", failed("the container runtime closed the stream")),
        ] {
            assert_eq!(end(status.as_bytes()), expected, "{status}");
        }
    }
}
