//! Parsing of a request's headers: the fields that decide how the request is handled. Pure.

use super::call::Method;
use super::watch;
use crate::error;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri, header};
use tonic::Status;

/// The request that is being parsed, field by field.
#[derive(Debug, Default)]
pub(super) struct RequestHead {
    verb: http::Method,
    target: Option<RequestTarget>,
    /// The headers, kept only for requests that go to the router.
    headers: HeaderMap,
    is_grpc: bool,
    is_bad: bool,
    has_bad_version: bool,
    /// Whether a regular field was seen. No pseudo-field may follow it.
    has_fields: bool,
}

#[derive(Debug)]
enum RequestTarget {
    Call(Method),
    Other(Uri),
}

/// How to handle a parsed request.
#[derive(Debug)]
pub(super) enum ParsedRequest {
    /// A call to answer on the connection's task.
    Call(Method),
    /// A call to refuse with this status.
    Refused(Method, Status),
    /// A watch stream.
    Watch,
    /// A request for the router.
    Other(Box<Request<()>>),
    /// A malformed request.
    Bad,
}

impl RequestHead {
    /// Adds a field.
    pub(super) fn take(&mut self, name: &[u8], value: &[u8]) {
        let is_pseudo = name.first() == Some(&b':');
        self.is_bad |= is_pseudo && self.has_fields;
        self.has_fields |= !is_pseudo;
        match name {
            b":path" if self.target.is_some() => self.is_bad = true,
            b":path" => self.path(value),
            b":method" => match http::Method::from_bytes(value) {
                Ok(verb) => self.verb = verb,
                Err(_) => self.is_bad = true,
            },
            [b':', ..] => {}
            _ => self.field(name, value),
        }
    }

    fn path(&mut self, value: &[u8]) {
        self.target = match Method::at(value) {
            Some(method) => Some(RequestTarget::Call(method)),
            None => Uri::try_from(value).ok().map(RequestTarget::Other),
        };
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        if let Some(RequestTarget::Call(_)) = self.target {
            match name {
                b"content-type" => self.is_grpc = value.starts_with(b"application/grpc"),
                b"client-api-version" => self.has_bad_version = std::str::from_utf8(value).is_err(),
                _ => {}
            }
            return;
        }
        match (HeaderName::from_lowercase(name), HeaderValue::from_bytes(value)) {
            (Ok(name), Ok(value)) => {
                self.headers.append(name, value);
            }
            _ => self.is_bad = true,
        }
    }

    /// Decides how to handle the request after its last field.
    pub(super) fn finish(self) -> ParsedRequest {
        match self.target {
            None => ParsedRequest::Bad,
            Some(_) if self.is_bad => ParsedRequest::Bad,
            Some(RequestTarget::Call(_)) if self.verb != http::Method::POST || !self.is_grpc => {
                ParsedRequest::Bad
            }
            Some(RequestTarget::Call(method)) if self.has_bad_version => {
                ParsedRequest::Refused(method, error::INVALID_CLIENT_VERSION.into())
            }
            Some(RequestTarget::Call(method)) => ParsedRequest::Call(method),
            Some(RequestTarget::Other(uri)) => {
                let content = self.headers.get(header::CONTENT_TYPE);
                let is_grpc = content.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
                if uri.path() == watch::PATH && is_grpc && self.verb == http::Method::POST {
                    return ParsedRequest::Watch;
                }
                let mut request = Request::new(());
                *request.method_mut() = self.verb;
                *request.uri_mut() = uri;
                *request.version_mut() = http::Version::HTTP_2;
                *request.headers_mut() = self.headers;
                request.headers_mut().remove(header::CONNECTION);
                ParsedRequest::Other(Box::new(request))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(fields: &[(&str, &str)]) -> ParsedRequest {
        let mut opening = RequestHead::default();
        fields.iter().for_each(|(name, value)| opening.take(name.as_bytes(), value.as_bytes()));
        opening.finish()
    }

    const POST: (&str, &str) = (":method", "POST");
    const PUT: (&str, &str) = (":path", "/etcdserverpb.KV/Put");
    const GRPC: (&str, &str) = ("content-type", "application/grpc");

    #[test]
    fn calls_and_other_requests_are_distinguished() {
        assert!(matches!(open(&[POST, PUT, GRPC]), ParsedRequest::Call(Method::Put)));
        for bad in
            [&[POST, GRPC][..], &[POST, PUT], &[PUT, GRPC], &[POST, GRPC, PUT], &[POST, PUT, PUT, GRPC]]
        {
            assert!(matches!(open(bad), ParsedRequest::Bad), "{bad:?}");
        }
        assert!(matches!(open(&[POST, PUT, GRPC, (":scheme", "http")]), ParsedRequest::Bad));
    }

    #[test]
    fn only_a_grpc_call_is_a_watch() {
        let path = (":path", watch::PATH);
        assert!(matches!(open(&[POST, path, GRPC]), ParsedRequest::Watch));
        assert!(matches!(open(&[(":method", "GET"), path]), ParsedRequest::Other(_)));
    }
}
