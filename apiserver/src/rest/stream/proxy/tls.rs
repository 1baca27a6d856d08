//! TLS to the backend of a proxied request. As in Kubernetes, no certificate is verified: the tunnel leads to the pod that the request
//! names.

use kstore_tls_trust::AnyServer;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, LazyLock};
use tokio::io::DuplexStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::io::InspectReader;

/// Looks at pieces of a connection as they are read.
type Inspect = Box<dyn FnMut(&[u8]) + Send>;

/// A connection whose first bytes from the backend were looked at.
pub(super) type Encrypted = TlsStream<InspectReader<DuplexStream, Inspect>>;

/// The configuration of all connections: any certificate, and none of the client.
static CONFIG: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions =
        ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let versions = versions.expect("ring serves the default versions of TLS");
    let verifier = Arc::new(AnyServer::new(provider));
    Arc::new(versions.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
});

/// Begins TLS on a connection.
///
/// # Errors
/// The backend does not agree or speaks no TLS: the reason, in the words of Go's client.
pub(super) async fn connect(connection: DuplexStream) -> Result<Encrypted, String> {
    let (told, first) = std::sync::mpsc::sync_channel(1);
    let inspect: Inspect = Box::new(move |bytes: &[u8]| {
        // Only the first piece is kept.
        let _ = told.try_send(FirstBytes::of(bytes));
    });
    let connection = InspectReader::new(connection, inspect);
    // The name is that of the server's end of the tunnel: a name that is an address is not sent.
    let name = ServerName::from(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let connected = TlsConnector::from(Arc::clone(&CONFIG)).connect(name, connection).await;
    connected.map_err(|error| match first.try_recv() {
        Ok(FirstBytes::Http) => "http: server gave HTTP response to HTTPS client".to_owned(),
        Ok(FirstBytes::Other) => "tls: first record does not look like a TLS handshake".to_owned(),
        Ok(FirstBytes::Tls) | Err(_) if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        Ok(FirstBytes::Tls) | Err(_) => error.to_string(),
    })
}

/// The protocol of a backend, by the first bytes that it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstBytes {
    Tls,
    Http,
    Other,
}

impl FirstBytes {
    /// Of a piece; an empty one is the end of the connection, which is no protocol.
    fn of(bytes: &[u8]) -> Self {
        /// The first byte of an alert, and of a handshake.
        const RECORDS: [u8; 2] = [21, 22];
        match bytes.first() {
            Some(first) if !RECORDS.contains(first) => match bytes.starts_with(b"HTTP/") {
                true => Self::Http,
                false => Self::Other,
            },
            Some(_) | None => Self::Tls,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// The failure of a handshake with a server that answers these bytes and leaves.
    async fn failure(answer: &[u8]) -> String {
        let (near, mut far) = tokio::io::duplex(64 << 10);
        let serve = async move {
            let mut hello = [0; 5];
            far.read_exact(&mut hello).await.unwrap();
            assert_eq!(hello[0], 22, "a handshake");
            far.write_all(answer).await.unwrap();
        };
        let (connected, ()) = tokio::join!(connect(near), serve);
        connected.err().expect("the backend speaks no TLS")
    }

    #[tokio::test]
    async fn a_failed_handshake_is_reported_in_the_words_of_gos_client() {
        for (answer, expected) in [
            (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "http: server gave HTTP response to HTTPS client"),
            (b"SSH-2.0-x\r\n", "tls: first record does not look like a TLS handshake"),
            (b"", "EOF"),
            // A fatal alert: handshake_failure.
            (&[21, 3, 3, 0, 2, 2, 40], "received fatal alert: HandshakeFailure"),
        ] {
            assert_eq!(failure(answer).await, expected, "{answer:?}");
        }
    }
}
