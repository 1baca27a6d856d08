//! Replay of recorded answers of a kube-apiserver: the same requests in the same order to a server in this
//! process, comparing status, warnings and body. Known differences are listed in `expected` with a reason; an
//! unlisted difference fails the test, and so does a listed difference that no longer occurs.
//!
//! `KSTORE_TRANSCRIPTS` names the folder of the recordings; without it the tests print a note and pass.

mod expected;
mod hooks;
mod normal;

use bytes::Bytes;
use hooks::Hooks;
use http_body_util::Full;
use kstore_api::version::Minor;
use kstore_registry::user::UserInfo;
use kstore_tests::{Cluster, Reply, Setup, Storage, in_real_time, simulate};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The version of the kube-apiserver whose answers were recorded.
const RECORDED: Minor = Minor::V36;

/// Interval and number of tries of a waiting line.
const WAIT: (Duration, usize) = (Duration::from_millis(100), 300);

fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("KSTORE_TRANSCRIPTS");
    if folder.is_none() {
        eprintln!("skipped: KSTORE_TRANSCRIPTS names no folder of recordings");
    }
    folder.map(PathBuf::from)
}

/// The lines of a recording; `hooks` replaces the recorded webhook server.
fn lines(folder: &Path, file: &str, hooks: Option<&Hooks>) -> Vec<Value> {
    let mut text = std::fs::read_to_string(folder.join(file)).unwrap();
    if let Some(hooks) = hooks {
        text = text.replace("{{HOOK}}", &hooks.url).replace("{{CA}}", &hooks.ca_bundle);
    }
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The lines in the order to send: with [`expected::EARLY`] moved.
fn in_order(file: &str, mut lines: Vec<Value>) -> Vec<Value> {
    for (_, ids, before) in expected::EARLY.iter().filter(|(own, _, _)| *own == file) {
        let is_early = |line: &Value| ids.iter().any(|id| line["id"] == *id);
        let (early, late): (Vec<Value>, Vec<Value>) = lines.into_iter().partition(is_early);
        assert_eq!(early.len(), ids.len(), "{file}: {ids:?}");
        let at = late.iter().position(|line| line["id"] == *before).expect("the line is recorded");
        lines = [&late[..at], &early[..], &late[at..]].concat();
    }
    lines
}

/// Replays a file on a fresh server.
fn replay(file: &str) {
    let Some(folder) = folder() else { return };
    let setup = Setup::api_alone().kubernetes(RECORDED);
    let differences = simulate(setup, async |cluster| play(&folder, file, cluster, None).await);
    check_differences(file, &differences);
}

/// Replays a file on a fresh server with controllers.
fn replay_with_controllers(file: &str) {
    let Some(folder) = folder() else { return };
    let setup = Setup::controllers().kubernetes(RECORDED).service_ranges("10.0.0.0/24");
    let differences = simulate(setup, async |cluster| play(&folder, file, cluster, None).await);
    check_differences(file, &differences);
}

/// Replays a file on a fresh server that calls the recording's webhooks over TLS. In memory, because the
/// embedded store is the only storage that does not need virtual time.
fn replay_with_webhooks(file: &str) {
    let Some(folder) = folder() else { return };
    let setup = Setup::api_alone().kubernetes(RECORDED).on(Storage::Embedded).network();
    let differences = in_real_time(setup, async |cluster| {
        let hooks = Hooks::serve().await;
        play(&folder, file, cluster, Some(hooks)).await
    });
    check_differences(file, &differences);
}

/// Sends all lines; returns the differences by line id.
async fn play(
    folder: &Path,
    file: &str,
    cluster: &Cluster,
    hooks: Option<Hooks>,
) -> BTreeMap<String, String> {
    let lines = in_order(file, lines(folder, file, hooks.as_ref()));
    let agent = expected::AGENTS.iter().find(|(own, _)| *own == file).map(|(_, agent)| *agent);
    let (answers, differences) = (BTreeMap::new(), BTreeMap::new());
    let without_token_volumes = expected::WITHOUT_TOKEN_VOLUMES.contains(&file);
    let (saved, file) = (BTreeMap::new(), file.to_owned());
    let mut replayer =
        Replayer { cluster, file, hooks, answers, saved, differences, agent, without_token_volumes };
    for line in &lines {
        replayer.line(line).await;
    }
    replayer.differences
}

fn check_differences(file: &str, differences: &BTreeMap<String, String>) {
    let found: BTreeSet<&str> = differences.keys().map(String::as_str).collect();
    let listed = expected::listed(file);
    let surprises: Vec<_> =
        found.difference(&listed).map(|id| format!("{id}: {}", differences[*id])).collect();
    let vanished: Vec<_> = listed.difference(&found).collect();
    assert!(
        surprises.is_empty() && vanished.is_empty(),
        "{file}: {} lines differ and are not listed:\n{}\nlisted, and equal now: {vanished:?}",
        surprises.len(),
        surprises.join("\n")
    );
}

struct Replayer<'c> {
    cluster: &'c Cluster,
    /// The name of the recording.
    file: String,
    /// The webhook server, if the recording has one.
    hooks: Option<Hooks>,
    /// Bodies of answers by line id.
    answers: BTreeMap<String, Value>,
    /// Values that lines saved from their answers, by name.
    saved: BTreeMap<String, String>,
    /// Differences by line id.
    differences: BTreeMap<String, String>,
    /// The user agent of the recording, if it had one.
    agent: Option<&'static str>,
    /// Whether service account token volumes are removed from both sides.
    without_token_volumes: bool,
}

impl Replayer<'_> {
    async fn line(&mut self, line: &Value) {
        if let Some(pause) = line["sleep_ms"].as_u64() {
            tokio::time::sleep(Duration::from_millis(pause)).await;
        } else if line["wait"].is_object() {
            self.wait(&line["wait"]).await;
        } else if let (hook @ Value::Object(_), Some(hooks)) = (&line["hook"], &self.hooks) {
            hooks.set(hook);
        } else if let Some(id) = line["id"].as_str() {
            self.take_calls();
            let Some(reply) = self.ask(line).await else { return };
            let mut response = body_of(&reply);
            self.answers.insert(id.to_owned(), response.clone());
            for (name, pointer) in line["save"].as_object().into_iter().flatten() {
                let value = response.pointer(pointer.as_str().unwrap()).and_then(Value::as_str);
                self.saved.insert(name.clone(), value.unwrap_or_default().to_owned());
            }
            let mut line = line.clone();
            if self.without_token_volumes {
                normal::drop_token_volumes(&mut line["response"]);
                normal::drop_token_volumes(&mut response);
            }
            for (_, _, members) in
                expected::RACES.iter().filter(|(of, own, _)| *of == self.file && *own == id)
            {
                members.iter().for_each(|member| {
                    remove(member, &mut line["response"]);
                    remove(member, &mut response);
                });
            }
            if line["response"]["..."].is_string() {
                line["response"] = response.clone();
            }
            for place in line["differs"].as_array().cloned().into_iter().flatten() {
                ignore(place.as_str().unwrap(), &mut line["response"], &mut response);
            }
            if let Some(difference) = compare(&line, &reply, &response, &self.take_calls()) {
                self.differences.insert(id.to_owned(), difference);
            }
        }
    }

    /// Takes the webhook calls since the last time.
    fn take_calls(&self) -> Value {
        self.hooks.as_ref().map_or_else(|| json!([]), Hooks::take_calls)
    }

    /// Sends the request of a line. `None` for a caller without credentials, which an in-process client
    /// cannot be.
    async fn ask(&self, line: &Value) -> Option<Reply> {
        let rest = match line["as"].as_str()? {
            "admin" => {
                let admin = UserInfo::new("admin", ["system:masters"]);
                let uid = if self.without_token_volumes { "admin-uid" } else { "admin" };
                self.cluster.rest_as(UserInfo { uid: uid.to_owned(), ..admin })
            }
            "user" => self.cluster.rest_as(UserInfo::new("user", ["system:authenticated"])),
            "alice" => self.cluster.rest_as(UserInfo {
                uid: "alice-uid".to_owned(),
                ..UserInfo::new("alice", ["devs", "system:authenticated"])
            }),
            "bob" => self.cluster.rest_as(UserInfo {
                uid: "bob-uid".to_owned(),
                ..UserInfo::new("bob", ["ops", "system:authenticated"])
            }),
            _ => return None,
        };
        let acted = &line["impersonate"];
        let rest = match acted["user"].as_str() {
            None => rest,
            Some(name) => {
                let groups = acted["groups"].as_array().into_iter().flatten().filter_map(Value::as_str);
                self.cluster.rest_as(UserInfo::new(name, groups.chain(["system:authenticated"])))
            }
        };
        let text = |name: &str| self.expand(line[name].as_str().unwrap_or_default());
        let mut request = http::Request::builder().method(text("method").as_str()).uri(text("path"));
        if let Some(agent) = self.agent {
            request = request.header("user-agent", agent);
        }
        for (name, value) in line["headers"].as_object().into_iter().flatten() {
            request = request.header(name, value.as_str()?);
        }
        let body = match &line["body"] {
            Value::Null => String::new(),
            Value::String(text) => self.expand(text),
            value => self.expand(&value.to_string()),
        };
        Some(rest.send(request.body(Full::new(Bytes::from(body))).unwrap()).await)
    }

    /// A text with `{{ID/a/b}}` replaced by the field `a/b` of the answer to line ID, and `${name}` by a
    /// saved value.
    fn expand(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (name, value) in &self.saved {
            text = text.replace(&format!("${{{name}}}"), value);
        }
        let mut out = String::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once("{{") {
            let (place, after) = after.split_once("}}").expect("templates are closed");
            let (id, pointer) = place.split_once('/').unwrap_or((place, ""));
            let value = self.answers.get(id).and_then(|answer| answer.pointer(&format!("/{pointer}")));
            out.push_str(before);
            match value {
                Some(Value::String(text)) => out.push_str(text),
                Some(other) => out.push_str(&other.to_string()),
                None => {}
            }
            rest = after;
        }
        out + rest
    }

    async fn wait(&self, wait: &Value) {
        if let Some(pause) = wait["ms"].as_u64() {
            return tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        let is_get = wait["get"].is_string();
        let line = json!({
            "as": "admin",
            "method": if is_get { "GET" } else { wait["method"].as_str().unwrap() },
            "path": if is_get { &wait["get"] } else { &wait["path"] },
            "headers": {"Content-Type": wait["content_type"].as_str().unwrap_or("application/json")},
            "body": wait["body"],
        });
        for _ in 0..WAIT.1 {
            let reply = self.ask(&line).await.expect("the administrator asks");
            let is_so = match (wait["status"].as_u64(), wait["pointer"].as_str()) {
                (Some(status), _) => status == u64::from(reply.code),
                (None, Some(pointer)) => reply.json().pointer(pointer) == Some(&wait["equals"]),
                (None, None) => true,
            };
            if is_so {
                return;
            }
            tokio::time::sleep(WAIT.0).await;
        }
        eprintln!("in vain waited for {wait}");
    }
}

/// Removes a value that differs between two recordings; `place` is a pointer into the line.
fn ignore(place: &str, recorded: &mut Value, own: &mut Value) {
    let Some(place) = place.strip_prefix("/response") else { return };
    for value in [recorded, own].into_iter().filter_map(|value| value.pointer_mut(place)) {
        *value = Value::Null;
    }
}

/// Removes the member at a pointer.
fn remove(member: &str, of: &mut Value) {
    let (parent, name) = member.rsplit_once('/').expect("a pointer begins with a slash");
    of.pointer_mut(parent).and_then(Value::as_object_mut).map(|parent| parent.remove(name));
}

/// The body as JSON, as the events of a watch (a single event as itself), or as text.
fn body_of(reply: &Reply) -> Value {
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    if let Ok(value) = serde_json::from_str(&text) {
        return value;
    }
    let events: Option<Vec<Value>> = text.lines().map(|line| serde_json::from_str(line).ok()).collect();
    events.filter(|events| !events.is_empty()).map_or(Value::String(text), Value::Array)
}

/// The difference between a recorded answer and kstore's, if any.
fn compare(line: &Value, reply: &Reply, response: &Value, calls: &Value) -> Option<String> {
    let mut differences = Vec::new();
    if line["status"] != reply.code {
        differences.push(format!("status: {} recorded, {} here", line["status"], reply.code));
    }
    let warnings: Value = reply
        .headers
        .get_all("warning")
        .iter()
        .map(|value| String::from_utf8_lossy(value.as_bytes()))
        .collect();
    let (recorded, own) = (normal::warnings(&line["warnings"]), normal::warnings(&warnings));
    if recorded != own {
        differences.push(format!("warnings: {recorded} recorded, {own} here"));
    }
    let part = part_of(line, response);
    let mut places = Vec::new();
    let recorded = line["hook_calls"].as_array().cloned().unwrap_or_default().into();
    differ(&normal::of(&recorded), &normal::of(calls), "hook_calls", &mut places);
    differ(&normal::of(&line["response"]), &normal::of(&part), "", &mut places);
    differences.extend(places);
    if differences.is_empty() || also_recorded(line, reply, &part) {
        return None;
    }
    Some(differences.join("\n    "))
}

/// Whether the answer equals that of the second recording, where the two recordings differ.
fn also_recorded(line: &Value, reply: &Reply, part: &Value) -> bool {
    let Some(other) = line["other"].as_object() else { return false };
    let status = other.get("status").unwrap_or(&line["status"]);
    let response = other.get("response").unwrap_or(&line["response"]);
    *status == reply.code && normal::of(response) == normal::of(part)
}

/// The part of an answer that the recording kept.
fn part_of(line: &Value, response: &Value) -> Value {
    let mut part = match line["only"].as_str() {
        Some(pointer) => response.pointer(&format!("/{pointer}")).cloned().unwrap_or_default(),
        None => response.clone(),
    };
    if let (Some(name), Some(items)) =
        (line["keep_items"].as_str(), part.get_mut("items").and_then(Value::as_array_mut))
    {
        items.retain(|item| item["metadata"]["name"] == name);
    }
    part
}

/// Collects the paths at which two values differ. The age in a table may be any text.
fn differ(recorded: &Value, own: &Value, place: &str, out: &mut Vec<String>) {
    match (recorded, own) {
        (Value::Object(recorded), Value::Object(own)) => {
            let names: BTreeSet<&String> = recorded.keys().chain(own.keys()).collect();
            let member = |map: &Map<String, Value>, name: &str| map.get(name).cloned().unwrap_or(Value::Null);
            for name in names {
                let (a, b) = (member(recorded, name), member(own, name));
                if recorded.contains_key(name) == own.contains_key(name) {
                    differ(&a, &b, &format!("{place}/{name}"), out);
                } else {
                    let (a, b) = (recorded.get(name), own.get(name));
                    out.push(format!("{place}/{name}: {} recorded, {} here", shown(a), shown(b)));
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().for_each(|(i, (a, b))| differ(a, b, &format!("{place}/{i}"), out));
        }
        (Value::String(age), Value::String(_)) if age == "<age>" => {}
        (Value::String(a), Value::String(b)) if is_like(a, b) => {}
        (a, b) if a == b => {}
        (a, b) => out.push(format!("{place}: {a} recorded, {b} here")),
    }
}

/// Whether a text equals a recorded one with a random word left out.
fn is_like(recorded: &str, own: &str) -> bool {
    let Some((before, after)) = recorded.split_once("<rand>") else { return false };
    let word = own.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
    word.is_some_and(|word| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric()))
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), Value::to_string)
}

#[test]
fn definitions_are_answered_as_recorded() {
    replay("crd.jsonl");
}

#[test]
fn custom_objects_are_answered_as_recorded() {
    replay("custom-objects.jsonl");
}

#[test]
fn rules_of_custom_kinds_are_answered_as_recorded() {
    replay("cel.jsonl");
}

#[test]
fn admission_policies_are_answered_as_recorded() {
    replay("policies.jsonl");
}

#[test]
fn admission_webhook_requests_and_responses_equal_the_recordings() {
    replay_with_webhooks("webhooks.jsonl");
}

#[test]
fn quotas_are_charged_and_counted_as_recorded() {
    replay_with_controllers("quota.jsonl");
}

#[test]
fn limit_ranges_default_and_bound_as_recorded() {
    replay_with_controllers("limitrange.jsonl");
}

#[test]
fn pods_are_held_to_the_levels_of_their_namespaces_as_recorded() {
    replay_with_controllers("podsecurity.jsonl");
}

#[test]
fn admission_plugins_decide_as_recorded() {
    replay_with_controllers("admission.jsonl");
}

#[test]
fn every_listed_difference_has_a_reason_and_is_listed_once() {
    for (file, ids, reason) in expected::DIFFERENCES {
        assert!(!ids.is_empty() && !reason.is_empty(), "{file}");
    }
    let all: Vec<_> = expected::DIFFERENCES.iter().flat_map(|(_, ids, _)| *ids).collect();
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
}
