//! [`NoAnswer`]: a call to a webhook got no answer. Its texts are those of Go's HTTP client, which users of
//! Kubernetes search for. `kstore_api::admission::review` handles answers that are wrong.

use super::Answer;
use std::io;

/// A call got no answer: the part of the message after `Post "https://…": `.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoAnswer(pub String);

/// Words a failed connection as Go does.
pub(super) fn dial(address: &str, error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        io::ErrorKind::ConnectionReset => "connect: connection reset by peer".to_owned(),
        _ => error.to_string(),
    };
    format!("dial tcp {address}: {why}")
}

/// Words a connection that a pod's node refused, for this reason, as Go does.
pub(super) fn refused(address: &str, why: &str) -> String {
    match why.ends_with("connection refused") {
        true => dial(address, &io::ErrorKind::ConnectionRefused.into()),
        false => format!("dial tcp {address}: {why}"),
    }
}

/// Words a failed TLS handshake as Go does, where Go has such a text.
pub(super) fn handshake(error: &io::Error, server_name: &str) -> String {
    use rustls::{CertificateError as Certificate, Error};
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let of_certificate = |why: &str| format!("tls: failed to verify certificate: x509: {why}");
    match inner {
        Some(Error::InvalidCertificate(Certificate::UnknownIssuer | Certificate::BadSignature)) => {
            of_certificate("certificate signed by unknown authority")
        }
        Some(Error::InvalidCertificate(
            Certificate::NotValidForName | Certificate::NotValidForNameContext { .. },
        )) => of_certificate(&format!("certificate is not valid for {server_name}")),
        Some(Error::InvalidCertificate(Certificate::Expired | Certificate::ExpiredContext { .. })) => {
            of_certificate("certificate has expired or is not yet valid: the current time is after its end")
        }
        Some(Error::InvalidCertificate(
            Certificate::NotValidYet | Certificate::NotValidYetContext { .. },
        )) => of_certificate(
            "certificate has expired or is not yet valid: the current time is before its beginning",
        ),
        Some(Error::InvalidMessage(_)) => "http: server gave HTTP response to HTTPS client".to_owned(),
        Some(other) => format!("tls: {other}"),
        None => error.to_string(),
    }
}

/// Whether a call should be retried, by Kubernetes' rule for webhooks: the connection broke, or the server
/// reports an internal error or overload.
pub fn is_worth_another_call(answer: &Result<Answer, NoAnswer>) -> bool {
    match answer {
        Ok(answer) => matches!(answer.status, 429 | 500 | 503 | 504),
        Err(NoAnswer(why)) => why == "EOF" || why.ends_with("connection reset by peer"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_failures_are_worded_as_in_go() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let text = dial("127.0.0.1:1", &refused);
        assert_eq!(text, "dial tcp 127.0.0.1:1: connect: connection refused");
        let of_node = "failed to connect to localhost:1 inside namespace: dial tcp4 127.0.0.1:1: connect: connection refused";
        assert_eq!(super::refused("10.0.0.1:1", of_node), "dial tcp 10.0.0.1:1: connect: connection refused");
        assert_eq!(super::refused("10.0.0.1:1", "no program"), "dial tcp 10.0.0.1:1: no program");
    }
}
