//! Requests with a subscriber that keeps the lines.

use super::*;
use http_body_util::{BodyExt as _, Full, StreamBody};
use parking_lot::Mutex;
use std::convert::Infallible;
use std::io::Write;
use tracing_subscriber::fmt::MakeWriter;

/// The lines that were written.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Lines {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().clone()).unwrap()
    }
}

/// Runs `test` and returns the log lines up to `level` that it causes.
fn logged(level: Level, test: impl FnOnce(&Lines)) -> String {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(lines.clone())
        .with_ansi(false)
        .without_time()
        .finish();
    tracing::subscriber::with_default(subscriber, || test(&lines));
    lines.text()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

fn client() -> Peer {
    Peer::Tls { certificate: None, proxy: None, address: "192.0.2.7:4711".parse().unwrap() }
}

fn request() -> Request<()> {
    let builder = Request::get("https://a/api/v1/pods?watch=1").header(USER_AGENT, "kubectl/v1.36");
    builder.body(()).unwrap()
}

fn streamed(frames: Vec<Frame<Bytes>>) -> Response<Body> {
    let frames = futures::stream::iter(frames.into_iter().map(Ok::<_, Infallible>));
    Response::new(Body::new(StreamBody::new(frames)))
}

async fn read(response: Response<Body>) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

#[test]
fn a_request_is_one_line_with_method_path_code_time_and_user_written_when_the_answer_ends() {
    let text = logged(Level::INFO, |lines| {
        runtime().block_on(async {
            let mut request = request();
            let record = AccessRecord::begin(&client(), &mut request).unwrap();
            authenticated(request.extensions(), &Arc::new(UserInfo::new("jane\nroot", ["devs"])));
            let data = |text: &'static str| Frame::data(Bytes::from_static(text.as_bytes()));
            let response = record.answered(streamed(vec![data("one"), data("four")]));
            tokio::time::advance(std::time::Duration::from_millis(1500)).await;
            assert_eq!(lines.text(), "", "the watch still goes on");
            assert_eq!(read(response).await, "onefour");
        });
    });
    let expected = " INFO kstore_apiserver::access: request method=\"GET\" path=\"/api/v1/pods?watch=1\" code=200 \
                    ms=1500.0 bytes=7 user=\"jane\\nroot\" agent=\"kubectl/v1.36\" client=192.0.2.7:4711\n";
    assert_eq!(text, expected);
}

#[test]
fn a_grpc_call_shows_the_code_of_its_trailers_or_of_an_answer_without_body() {
    let trailers = HeaderMap::from_iter([(http::HeaderName::from_static(GRPC_STATUS), HeaderValue::from(5))]);
    let immediate = Response::builder().header(GRPC_STATUS, "7").body(Body::empty()).unwrap();
    for (response, code) in [(streamed(vec![Frame::trailers(trailers)]), 5), (immediate, 7)] {
        let text = logged(Level::INFO, |_| {
            let record = AccessRecord::begin(&client(), &mut request()).unwrap();
            runtime().block_on(read(record.answered(response)));
        });
        assert!(text.contains(&format!("code=200 grpc_code={code} ")), "{text}");
    }
}

#[test]
fn nothing_is_recorded_while_nothing_listens() {
    assert_eq!(
        logged(Level::WARN, |_| assert!(AccessRecord::begin(&client(), &mut request()).is_none())),
        ""
    );
}

#[test]
fn a_client_that_leaves_before_the_answer_is_logged_without_a_code() {
    let text = logged(Level::INFO, |_| drop(AccessRecord::begin(&client(), &mut request())));
    assert!(text.contains("request") && !text.contains("code="), "{text}");
}

#[test]
fn components_in_this_process_are_logged_only_at_debug() {
    let component = Peer::InProcess(Arc::new(UserInfo::new("system:kube-scheduler", [""; 0])));
    let begin = || AccessRecord::begin(&component, &mut request());
    assert_eq!(logged(Level::INFO, |_| assert!(begin().is_none())), "");
    let text = logged(Level::DEBUG, |_| drop(begin()));
    assert!(text.starts_with("DEBUG kstore_apiserver::access: request"), "{text}");
    assert!(!text.contains("client="), "{text}");
}

#[test]
fn a_logged_answer_keeps_its_length() {
    logged(Level::INFO, |_| {
        let record = AccessRecord::begin(&client(), &mut request()).unwrap();
        let response = record.answered(Response::new(Body::new(Full::from("seven77"))));
        assert_eq!(http_body::Body::size_hint(response.body()).exact(), Some(7));
        assert!(!http_body::Body::is_end_stream(response.body()));
    });
}
