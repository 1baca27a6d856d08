//! `guestbook` of `agnhost`: a frontend that passes requests on to the Service `agnhost-primary`, and the primary, which keeps texts by
//! their keys. They are in a file of its container, because a server that only answers has no memory of its own. A frontend reads from the
//! primary, too, so that replicas are asked nothing.

use super::ServerAction;
use super::agnhost::{call_of_dial, json};
use super::files::error;
use crate::http::{HttpRequest, HttpResponse, ReceivedResponse};
use crate::limits::{ANSWERED_KEY_BYTES, ANSWERED_KEYS, ANSWERED_TEXT_BYTES};
use crate::shell::env::Env;
use crate::shell::network::{NetworkEnd, NetworkReply, host};
use std::collections::BTreeMap;

/// The Service of the primary.
const PRIMARY: &str = "agnhost-primary";
/// The file of the texts.
const TEXTS: &str = "/tmp/guestbook.json";

/// What it does for a request; the primary has the port `primary`.
pub(super) fn respond(env: &Env, request: &HttpRequest, primary: u16) -> ServerAction {
    let answer = |text: &str| ServerAction::Answer(HttpResponse::sniffed(200, text));
    let refused = |code, text: &str| ServerAction::Answer(error(code, text));
    let key = || request.value("key").unwrap_or_default();
    match request.path().0.as_str() {
        // With the texts that a replica which registers begins with.
        "/register" => answer(&store(env)),
        "/get" if key().is_empty() => answer(&store(env)),
        "/get" => answer(&format!("{{\"data\":{}}}", json(&texts(env).remove(&key()).unwrap_or_default()))),
        "/set" => match set(env, key(), request.value("value").unwrap_or_default()) {
            Ok(()) => answer("{\"message\":\"Updated\"}"),
            Err(why) => refused(500, why),
        },
        "/guestbook" => match request.value("cmd").as_deref() {
            Some(command @ ("get" | "set")) => {
                let (_, query) = request.target.split_once('?').unwrap_or_default();
                let text = format!(
                    "GET /{command}?{query} HTTP/1.1\r\nHost: {PRIMARY}:{primary}\r\n\
                     User-Agent: Go-http-client/1.1\r\nConnection: close\r\n\r\n"
                );
                let end = NetworkEnd::Connect(host(env, PRIMARY), primary);
                ServerAction::Dial(vec![call_of_dial(end, text.into_bytes())])
            }
            _ => refused(400, "cmd must be get or set"),
        },
        _ => refused(404, "404 page not found"),
    }
}

fn texts(env: &Env) -> BTreeMap<String, String> {
    serde_json::from_slice(&env.read(TEXTS).unwrap_or_default()).unwrap_or_default()
}

/// All texts, as a server shows them.
fn store(env: &Env) -> String {
    format!("{{\"data\":{}}}", serde_json::to_string(&texts(env)).unwrap_or_default())
}

fn set(env: &Env, key: String, value: String) -> Result<(), &'static str> {
    if key.len() > ANSWERED_KEY_BYTES || value.len() > ANSWERED_TEXT_BYTES {
        return Err("key or value too long");
    }
    let mut all = texts(env);
    if all.len() >= ANSWERED_KEYS && !all.contains_key(&key) {
        return Err("too many keys");
    }
    all.insert(key, value);
    let text = serde_json::to_vec(&all).unwrap_or_default();
    env.write(TEXTS, &text).map_err(|_| "no space left on device")
}

/// The answer of a frontend: the primary's.
pub(super) fn dialed(replies: &[NetworkReply]) -> HttpResponse {
    let reply = replies.first().and_then(|reply| reply.result.as_ref().ok());
    let response = reply.and_then(|received| ReceivedResponse::parse(&received.bytes, "GET"));
    let Some(response) = response.filter(|response| response.code == 200) else {
        return error(500, "the primary does not answer");
    };
    HttpResponse::sniffed(200, &String::from_utf8_lossy(&response.body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::Environment;
    use std::sync::Arc;

    fn request(target: &str) -> HttpRequest {
        HttpRequest { target: target.to_owned(), ..HttpRequest::default() }
    }

    #[test]
    fn a_primary_keeps_texts_and_a_frontend_asks_it() {
        let env = Env::new(&Arc::new(Environment::default()));
        let ask = |target: &str| match respond(&env, &request(target), 6379) {
            ServerAction::Answer(response) => {
                (response.code, String::from_utf8_lossy(&response.body).into_owned())
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(ask("/get?key=messages"), (200, "{\"data\":\"\"}".to_owned()));
        assert_eq!(ask("/register?host=10.0.0.1"), (200, "{\"data\":{}}".to_owned()));
        assert_eq!(ask("/set?cmd=set&key=messages&value=a%20b").0, 200);
        assert_eq!(ask("/get?key=messages"), (200, "{\"data\":\"a b\"}".to_owned()));
        assert_eq!(ask("/register?host=10.0.0.1"), (200, "{\"data\":{\"messages\":\"a b\"}}".to_owned()));
        assert_eq!(ask("/guestbook?cmd=x").0, 400);
        assert_eq!(ask("/").0, 404);
        for n in 0..ANSWERED_KEYS + 3 {
            ask(&format!("/set?key=k{n}&value=v"));
        }
        assert_eq!(texts(&env).len(), ANSWERED_KEYS);
        assert_eq!(ask("/set?key=one+more&value=v").0, 500);
        let long = |length: usize| "x".repeat(length);
        let kept = long(ANSWERED_TEXT_BYTES);
        assert_eq!(ask(&format!("/set?key=messages&value={kept}")).0, 200);
        for (key, value) in
            [("messages".to_owned(), long(ANSWERED_TEXT_BYTES + 1)), (long(ANSWERED_KEY_BYTES + 1), long(1))]
        {
            let (code, text) = ask(&format!("/set?key={key}&value={value}"));
            assert_eq!((code, text.trim()), (500, "key or value too long"));
        }
        assert_eq!(ask("/get?key=messages"), (200, format!("{{\"data\":\"{kept}\"}}")));
        let ServerAction::Dial(calls) = respond(&env, &request("/guestbook?cmd=get&key=messages"), 7) else {
            panic!("a frontend asks")
        };
        assert!(calls[0].send.starts_with(b"GET /get?cmd=get&key=messages HTTP/1.1\r\n"));
        assert_eq!(calls[0].end, NetworkEnd::Connect(PRIMARY.to_owned(), 7));
    }
}
