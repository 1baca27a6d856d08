//! A connection to a port of a sandbox: `portforward.k8s.io`.

use super::connection::{Connection, StreamError, StreamEvent};
use crate::limits::{DATA_BYTES, STATUS_BYTES};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

const PROTOCOL: &str = "portforward.k8s.io";

/// Copies in both directions between `client` and a port of a sandbox, at the URL that the runtime returned for it, until the port sends no
/// more. Returns the runtime's text if the port cannot be reached; empty if it was.
///
/// # Errors
/// The streaming server does not serve it.
pub async fn forward(
    url: &str,
    port: u16,
    client: impl AsyncRead + AsyncWrite,
) -> Result<String, StreamError> {
    let mut connection = Connection::open(url, PROTOCOL).await?;
    let port = port.to_string();
    let of = [("port", port.as_str()), ("requestid", "0")];
    let [error, data] = [1, 3];
    connection.open_stream(error, &[("streamtype", "error"), of[0], of[1]]).await?;
    let sender = connection.sender();
    // Nothing is sent on this stream from here.
    sender.end(error).await?;
    connection.open_stream(data, &[("streamtype", "data"), of[0], of[1]]).await?;
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let outgoing = async {
        let mut buffer = vec![0; DATA_BYTES];
        while let Ok(length @ 1..) = from_client.read(&mut buffer).await {
            if sender.data(data, &buffer[..length]).await.is_err() {
                break;
            }
        }
        // The port may have gone; what it has sent is copied all the same.
        let _ = sender.end(data).await;
        std::future::pending::<()>().await;
    };
    let incoming = async {
        let mut failure = Vec::new();
        let (mut is_open, mut may_fail) = (true, true);
        while is_open || may_fail {
            match connection.next().await {
                Some(StreamEvent::Data(id, bytes)) if id == error => {
                    let room = STATUS_BYTES.saturating_sub(failure.len()).min(bytes.len());
                    failure.extend_from_slice(&bytes[..room]);
                }
                Some(StreamEvent::Data(_, bytes)) => {
                    if to_client.write_all(&bytes).await.is_err() {
                        break;
                    }
                }
                Some(StreamEvent::Ended(id)) if id == error => may_fail = false,
                Some(StreamEvent::Ended(_)) => {
                    is_open = false;
                    // The client may have gone.
                    let _ = to_client.shutdown().await;
                }
                None => break,
            }
        }
        String::from_utf8_lossy(&failure).into_owned()
    };
    tokio::select! {
        biased;
        failure = incoming => Ok(failure),
        () = outgoing => unreachable!("it does not return"),
    }
}
