//! A fake Kubernetes API that sends scripted responses in order and records its requests. Without a scripted
//! response it does not answer.

use bytes::Bytes;
use futures::StreamExt;
use futures::channel::mpsc;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use kube_client::Client;
use kube_client::client::Body;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::time::Instant;

type Answer = Response<UnsyncBoxBody<Bytes, std::io::Error>>;

/// A recorded request.
#[derive(Clone, Debug)]
pub(super) struct RecordedRequest {
    pub url: String,
    pub accept: String,
    pub at: Instant,
}

/// Scripted API server. Clones are the same server.
#[derive(Clone, Default)]
pub(super) struct Server(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    answers: VecDeque<Answer>,
    requests: Vec<RecordedRequest>,
}

/// Sender of the body of an open watch. Dropping it ends the body.
pub(super) struct Open(mpsc::UnboundedSender<Result<Bytes, std::io::Error>>);

impl Open {
    /// Sends a raw chunk.
    pub(super) fn chunk(&self, text: &str) {
        let _ = self.0.unbounded_send(Ok(Bytes::copy_from_slice(text.as_bytes())));
    }

    /// Sends one event in its own chunk.
    pub(super) fn event(&self, kind: &str, object: &serde_json::Value) {
        self.chunk(&format!("{}\n", serde_json::json!({"type": kind, "object": object})));
    }

    /// Breaks the connection.
    pub(super) fn cut(self) {
        let error = std::io::Error::new(std::io::ErrorKind::ConnectionReset, "reset by peer");
        let _ = self.0.unbounded_send(Err(error));
    }

    /// Whether the reader has dropped the body.
    pub(super) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

impl Server {
    pub(super) fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = server.answer(&request);
            async move {
                match answer {
                    Some(answer) => Ok::<_, Infallible>(answer),
                    None => std::future::pending().await,
                }
            }
        });
        Client::new(service, "default")
    }

    fn answer(&self, request: &Request<Body>) -> Option<Answer> {
        let accept = request.headers()[http::header::ACCEPT].to_str().unwrap().to_owned();
        let mut state = self.0.lock();
        state.requests.push(RecordedRequest { url: request.uri().to_string(), accept, at: Instant::now() });
        state.answers.pop_front()
    }

    /// Scripts the response to the next request.
    pub(super) fn says(&self, code: u16, body: &str) {
        self.says_with(code, &[], body);
    }

    pub(super) fn says_with(&self, code: u16, headers: &[(&str, &str)], body: &str) {
        let mut response = Response::builder().status(code);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        let body = http_body_util::Full::new(Bytes::copy_from_slice(body.as_bytes()));
        let body = body.map_err(|never: Infallible| match never {}).boxed_unsync();
        self.0.lock().answers.push_back(response.body(body).unwrap());
    }

    /// Scripts a watch response whose body stays open.
    pub(super) fn opens(&self) -> Open {
        let (sender, receiver) = mpsc::unbounded::<Result<Bytes, std::io::Error>>();
        let body = StreamBody::new(receiver.map(|chunk| chunk.map(Frame::data))).boxed_unsync();
        self.0.lock().answers.push_back(Response::new(body));
        Open(sender)
    }

    /// Takes the recorded requests.
    pub(super) fn requests(&self) -> Vec<RecordedRequest> {
        std::mem::take(&mut self.0.lock().requests)
    }

    /// Takes the recorded queries in short form: start, limit, and whether it was a watch.
    pub(super) fn questions(&self) -> Vec<String> {
        let word = |pair: &str| match pair.split_once('=')? {
            ("watch", _) => Some("watch".to_owned()),
            ("sendInitialEvents", _) => Some("initial".to_owned()),
            ("resourceVersion", version) => Some(format!("@{version}")),
            ("limit", limit) => Some(format!("limit {limit}")),
            ("continue", token) => Some(format!("page {token}")),
            _ => None,
        };
        let question = |requests: RecordedRequest| {
            let query = requests.url.split_once('?').map_or("", |(_, query)| query).to_owned();
            let mut words: Vec<String> = query.split('&').filter_map(word).collect();
            if !words.contains(&"watch".to_owned()) {
                words.insert(0, "list".into());
            }
            words.join(" ")
        };
        self.requests().into_iter().map(question).collect()
    }
}
