//! [`Hooks`]: the webhook server of a recording, served over TLS on this machine. It answers each path as
//! recorded and keeps the reviews that it received. The webhooks of simulated clusters
//! (`kstore_tests::webhooks`) need no network.

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderName, StatusCode, Uri, header};
use kstore_tests::TlsServer;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::task::AbortOnDropHandle;

/// A running server; clones share it.
#[derive(Clone)]
pub(super) struct Hooks {
    /// Replacement for `{{HOOK}}`.
    pub(super) url: String,
    /// Replacement for `{{CA}}`.
    pub(super) ca_bundle: String,
    state: Arc<Mutex<HookState>>,
    _serving: Arc<AbortOnDropHandle<()>>,
}

#[derive(Default)]
struct HookState {
    /// The `hook` lines of the recording by path.
    replies: BTreeMap<String, Value>,
    /// Path with query, and review, of each call.
    calls: Vec<(String, Value)>,
}

impl Hooks {
    pub(super) async fn serve() -> Self {
        let state = Arc::new(Mutex::new(HookState::default()));
        let shared = Arc::clone(&state);
        let router =
            Router::new().fallback(move |uri: Uri, body: Bytes| answer(Arc::clone(&shared), uri, body));
        let server = TlsServer::bind("127.0.0.1").await;
        let (url, ca_bundle) = (format!("https://{}", server.address()), server.ca_bundle());
        Self { url, ca_bundle, state, _serving: Arc::new(server.serve(router)) }
    }

    /// Answers the path of a `hook` line as the line specifies from now on.
    pub(super) fn set(&self, hook: &Value) {
        self.state.lock().replies.insert(hook["path"].as_str().unwrap().to_owned(), hook.clone());
    }

    /// Returns the calls since the last time, in the form of a recording.
    pub(super) fn take_calls(&self) -> Value {
        let mut calls = std::mem::take(&mut self.state.lock().calls);
        calls.sort_by(|a, b| a.0.cmp(&b.0));
        calls.into_iter().map(|(url, review)| json!({"url": url, "review": review})).collect()
    }
}

async fn answer(
    state: Arc<Mutex<HookState>>,
    uri: Uri,
    body: Bytes,
) -> (StatusCode, [(HeaderName, String); 1], String) {
    let review: Value = serde_json::from_slice(&body).unwrap();
    let uid = review["request"]["uid"].as_str().unwrap_or_default().to_owned();
    let hook = {
        let mut state = state.lock();
        state.calls.push((uri.to_string(), review));
        state.replies[uri.path()].clone()
    };
    if let Some(delay) = hook["delay_ms"].as_u64() {
        tokio::time::sleep(Duration::from_millis(delay)).await;
    }
    let text = match (&hook["reply"], hook["text"].as_str().unwrap_or_default()) {
        (Value::Null, "") => String::new(),
        // The recorder sent text bodies as JSON strings.
        (Value::Null, text) => Value::from(text).to_string(),
        (reply, _) => reply.to_string().replace("{{uid}}", &uid),
    };
    let status = hook["status"].as_u64().map_or(200, |code| u16::try_from(code).unwrap());
    let media = hook["type"].as_str().unwrap_or("application/json").to_owned();
    (StatusCode::from_u16(status).unwrap(), [(header::CONTENT_TYPE, media)], text)
}
