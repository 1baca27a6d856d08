//! `nettest` of `agnhost`: counts who writes to it, and shows the counts. They are in a file of its container, because a server that only
//! answers has no memory of its own.

use super::ServerAction;
use super::agnhost::json;
use super::files::error;
use crate::http::{HttpRequest, HttpResponse};
use crate::limits::{ANSWERED_KEY_BYTES, ANSWERED_KEYS};
use crate::shell::env::Env;
use serde_json::Value;
use std::collections::BTreeMap;

/// The file of the counts.
const COUNTS: &str = "/tmp/nettest-received.json";

/// What it answers.
pub(super) fn respond(env: &Env, request: &HttpRequest, peers: usize) -> ServerAction {
    let (path, _) = request.path();
    let answer = |text: String| ServerAction::Answer(HttpResponse::sniffed(200, &text));
    match path.as_str() {
        "/read" => answer(state(env)),
        "/write" => {
            count(env, &request.body);
            answer(format!("{{\"Hostname\":{}}}\n", json(&env.hostname)))
        }
        // It writes to no peers, so it passes only where it needs none.
        "/status" => answer(if peers == 0 { "pass" } else { "fail" }.to_owned()),
        "/quit" => ServerAction::Exit(HttpResponse::sniffed(200, ""), 0),
        _ => ServerAction::Answer(error(404, "404 page not found")),
    }
}

/// How often each writer has written.
fn received(env: &Env) -> BTreeMap<String, u64> {
    let bytes = env.read(COUNTS).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// Counts a writer, whose name is in the body.
fn count(env: &Env, body: &[u8]) {
    let written: Value = serde_json::from_slice(body).unwrap_or_default();
    let Some(source) = written["Source"].as_str() else { return };
    let mut counts = received(env);
    let is_new = !counts.contains_key(source);
    if is_new && (counts.len() >= ANSWERED_KEYS || source.len() > ANSWERED_KEY_BYTES) {
        return;
    }
    *counts.entry(source.to_owned()).or_default() += 1;
    let text = serde_json::to_vec(&counts).unwrap_or_default();
    // On a full disk the write is not counted.
    let _ = env.write(COUNTS, &text);
}

/// What `/read` shows.
fn state(env: &Env) -> String {
    let counts = serde_json::to_string(&received(env)).unwrap_or_default();
    let name = json(&env.hostname);
    format!(
        "{{\"Hostname\":{name},\"Sent\":{{}},\"Received\":{counts},\"Errors\":null,\"Log\":null,\"StillContactingPeers\":false}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::Environment;
    use std::sync::Arc;

    fn environment() -> Env {
        Env::new(&Arc::new(Environment { hostname: "n".to_owned(), ..Environment::default() }))
    }

    /// Code and text of the answer to a request.
    fn answered(env: &Env, path: &str, body: &str) -> (u16, String) {
        let request =
            HttpRequest { target: path.to_owned(), body: body.as_bytes().to_vec(), ..HttpRequest::default() };
        match respond(env, &request, 1) {
            ServerAction::Answer(response) => {
                (response.code, String::from_utf8_lossy(&response.body).into_owned())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn writers_with_long_names_are_not_counted() {
        let env = environment();
        for length in [ANSWERED_KEY_BYTES, ANSWERED_KEY_BYTES + 1, 1 << 20] {
            let name = "w".repeat(length);
            assert_eq!(answered(&env, "/write", &format!("{{\"Source\": \"{name}\"}}")).0, 200);
        }
        let counted: Vec<usize> = received(&env).keys().map(String::len).collect();
        assert_eq!(counted, [ANSWERED_KEY_BYTES]);
    }

    #[test]
    fn writes_are_counted_by_their_source() {
        let env = environment();
        let ask = |path: &str, body: &str| answered(&env, path, body);
        let received = || {
            let state: Value = serde_json::from_str(&ask("/read", "").1).unwrap();
            state["Received"].to_string()
        };
        assert_eq!(received(), "{}");
        for body in
            ["{\"Source\": \"prestop\"}", "{\"Source\": \"prestop\"}", "{\"Source\": \"b\"}", "no json", ""]
        {
            assert_eq!(ask("/write", body), (200, "{\"Hostname\":\"n\"}\n".to_owned()));
        }
        assert_eq!(received(), "{\"b\":1,\"prestop\":2}");
        assert_eq!(ask("/status", ""), (200, "fail".to_owned()));
        assert_eq!(ask("/other", "").0, 404);
        for n in 0..ANSWERED_KEYS + 10 {
            ask("/write", &format!("{{\"Source\": \"w{n}\"}}"));
        }
        assert_eq!(super::received(&env).len(), ANSWERED_KEYS);
    }
}
