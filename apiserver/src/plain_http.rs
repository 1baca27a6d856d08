//! Answers clients that send plain HTTP to a port with TLS, in the words of Go's server. Without an answer they report an empty
//! reply, which does not say what is wrong.

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

/// Go's answer.
const ANSWER: &[u8] = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// Bytes of a request that are read before the answer: a socket that is closed with unread bytes is reset, and the client may lose
/// the answer. More than the head that curl or a browser sends.
const READ_BYTES: usize = 16 * 1024;

/// Waits for the first bytes of a client. If they begin a plain HTTP request, answers it, and returns true: the connection is done.
pub async fn refuses(socket: &mut TcpStream) -> bool {
    let mut head = [0; 5];
    // A failure is that of the handshake too, which reports it.
    let is_http = socket.peek(&mut head).await.is_ok_and(|read| looks_like_http(&head[..read]));
    if is_http {
        // Reads what has arrived, without waiting for more.
        let _ = socket.try_read(&mut [0; READ_BYTES]);
        // The client may have gone.
        let _ = socket.write_all(ANSWER).await;
        let _ = socket.shutdown().await;
    }
    is_http
}

/// Whether the head of a record is that of a request, by the rule of Go's `tlsRecordHeaderLooksLikeHTTP`.
fn looks_like_http(head: &[u8]) -> bool {
    matches!(head, b"GET /" | b"HEAD " | b"POST " | b"PUT /" | b"OPTIO")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn plain_http_is_answered_and_everything_else_is_left_to_tls() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        for (sent, is_http) in [
            (&b"GET /version HTTP/1.1\r\nHost: a\r\n\r\n"[..], true),
            (b"POST /api HTTP/1.1\r\n\r\n", true),
            (b"\x16\x03\x01\x00\x05", false),
            (b"PRI * HTTP/2.0\r\n\r\n", false),
            (b"GE", false),
            (b"", false),
        ] {
            let mut client = TcpStream::connect(address).await.unwrap();
            let (mut server, _) = listener.accept().await.unwrap();
            client.write_all(sent).await.unwrap();
            client.shutdown().await.unwrap();
            assert_eq!(refuses(&mut server).await, is_http, "{sent:?}");
            if !is_http {
                let mut rest = Vec::new();
                server.read_to_end(&mut rest).await.unwrap();
                assert_eq!(rest, sent, "nothing was taken from the handshake");
            }
            drop(server);
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.unwrap();
            assert_eq!(answer, if is_http { ANSWER } else { b"" }, "{sent:?}");
        }
    }
}
