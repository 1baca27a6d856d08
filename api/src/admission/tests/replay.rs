//! Recorded answers of a Kubernetes server to requests with webhooks: the calls, and the effects of the
//! responses. `KSTORE_TRANSCRIPTS` names the folder of the recordings; without it the test prints a note and
//! passes.

use super::super::attributes::{Attributes, GroupVersionKind, GroupVersionResource, Operation, UserInfo};
use super::super::client::{ClientConfig, Endpoint};
use super::super::equivalent::equivalents;
use super::super::reinvocation::{Plugin, Reinvocation};
use super::super::review::transport::HttpAnswer;
use super::super::review::{
    CallError, DecodedResponse, apply_patch, decode_patched, encode_request, read_answer,
};
use super::super::selection::ClusterFacts;
use super::super::webhook::{FailurePolicy, Hooks, Phase, Webhook};
use super::NO_EXTRA;
use crate::kind::{Kinds, RESOURCES};
use crate::object::{list, text};
use crate::resource::Resource;
use crate::status::Status;
use crate::{defaults, meta, schema};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1/";

/// Lines of a recording; none if there is no folder.
pub(super) fn lines(file: &str) -> Vec<Value> {
    let Some(folder) = std::env::var_os("KSTORE_TRANSCRIPTS") else {
        eprintln!("skipped: KSTORE_TRANSCRIPTS names no folder of recordings");
        return Vec::new();
    };
    let text = std::fs::read_to_string(std::path::PathBuf::from(folder).join(file)).unwrap();
    let text = text.replace("{{CA}}", "Q0E=");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Webhook responses and configurations.
#[derive(Default)]
struct Cluster {
    replies: BTreeMap<String, Value>,
    /// Configurations by whether they are mutating, and name.
    configurations: BTreeMap<(bool, String), Value>,
    namespaces: BTreeMap<String, Value>,
}

/// Outcome of admission.
#[derive(Default)]
struct Admitted {
    calls: Vec<(String, Value)>,
    warnings: Vec<String>,
}

pub(super) struct Target {
    pub(super) row: &'static Resource,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) subresource: String,
}

/// The object that a path names.
pub(super) fn target(path: &str) -> Option<Target> {
    let path = path.split('?').next().unwrap();
    let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return None,
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (*namespace, rest),
        rest => ("", rest),
    };
    let (plural, name, sub) = match rest {
        [plural] => (*plural, "", ""),
        [plural, name] => (*plural, *name, ""),
        [plural, name, sub] => (*plural, *name, *sub),
        _ => return None,
    };
    let row =
        RESOURCES.iter().find(|row| (row.group, row.version, row.plural) == (group, version, plural))?;
    Some(Target { row, namespace: namespace.to_owned(), name: name.to_owned(), subresource: sub.to_owned() })
}

/// The HTTP response of a webhook, without a network.
fn call(
    cluster: &Cluster,
    hook: &Webhook,
    body: &[u8],
    calls: &mut Vec<(String, Value)>,
) -> Result<DecodedResponse, CallError> {
    let client: &ClientConfig = hook.client.as_ref().unwrap();
    let seconds = Some(u64::from(hook.timeout_seconds));
    let no_answer = |cause: &str| CallError::no_answer(&hook.name, client.post_error(seconds, cause));
    let path = match &client.endpoint {
        Endpoint::Service { name, .. } => return Err(no_answer(&format!("service \"{name}\" not found"))),
        Endpoint::Url(url) if url.contains("127.0.0.1:1/") => {
            return Err(no_answer("dial tcp 127.0.0.1:1: connect: connection refused"));
        }
        Endpoint::Url(_) if client.ca_bundle.is_empty() => {
            return Err(no_answer(
                "tls: failed to verify certificate: x509: certificate signed by unknown authority",
            ));
        }
        Endpoint::Url(url) => url.strip_prefix("{{HOOK}}").unwrap().to_owned(),
    };
    let url = client.url(seconds).replace("{{HOOK}}", "");
    calls.push((url, serde_json::from_slice(body).unwrap()));
    let reply = &cluster.replies[&path];
    if reply["delay_ms"].as_u64() > Some(u64::from(hook.timeout_seconds) * 1000) {
        return Err(no_answer("context deadline exceeded"));
    }
    let body = match (&reply["reply"], text(&reply["text"])) {
        (Value::Null, "") => String::new(),
        (Value::Null, said) => Value::from(said).to_string(),
        (review, _) => review.to_string().replace("{{uid}}", "<uid>"),
    };
    let status = reply["status"].as_u64().map_or(200, |status| u16::try_from(status).unwrap());
    let answer = HttpAnswer { status, content_type: "application/json", body: body.as_bytes() };
    read_answer(hook, "<uid>", &answer)
}

impl Cluster {
    fn hooks(&self, phase: Phase) -> Hooks {
        let own =
            self.configurations.iter().filter(|((mutating, _), _)| *mutating == (phase == Phase::Mutating));
        Hooks::new(phase, own.map(|(_, configuration)| configuration))
    }

    /// Runs the webhooks of one phase on the object.
    fn run(
        &self,
        phase: Phase,
        attributes: &Attributes<'_>,
        row: &'static Resource,
        state: &mut Reinvocation,
        object: &mut Option<Value>,
        admitted: &mut Admitted,
    ) -> Result<(), Status> {
        let list = equivalents(&Kinds::built_in(), row, attributes.subresource);
        let facts = ClusterFacts { namespace: self.namespaces.get(attributes.namespace), equivalents: &list };
        let hooks = self.hooks(phase);
        let mut refused = None;
        state.begin(Plugin::Webhooks, object.as_ref());
        for hook in hooks.candidates(attributes.operation, attributes.resource.resource) {
            let before = object.clone();
            let attributes = Attributes { object: before.as_ref(), ..*attributes };
            let Some(form) = hook.matches(&attributes, &facts)? else { continue };
            if phase == Phase::Mutating && !state.should_run(Plugin::Webhooks, &hook.uid) {
                continue;
            }
            if !hook.conditions_match(&attributes, form, before.as_ref(), attributes.old_object, None)? {
                continue;
            }
            hook.check_dry_run(&attributes)?;
            let body =
                encode_request(hook, &attributes, form, "<uid>", before.as_ref(), attributes.old_object)
                    .unwrap();
            let result = match call(self, hook, &body, &mut admitted.calls) {
                Ok(answer) => {
                    admitted.warnings.extend(answer.warnings);
                    answer.verdict
                }
                Err(_) if hook.failure_policy == FailurePolicy::Ignore => continue,
                Err(error) => Err(error.status()),
            };
            if let (Ok(Some(patch)), Phase::Mutating) = (&result, phase) {
                let patched = apply_patch(hook, patch, before.as_ref())?;
                let mut new = decode_patched(patched, schema::lookup(row.schema).unwrap())?;
                let changed = Some(&new) != before.as_ref();
                defaults::apply(row, &mut new);
                *object = Some(new);
                state.ran(Plugin::Webhooks, &hook.uid, hook.reinvoke_if_needed, changed);
            } else {
                state.ran(Plugin::Webhooks, &hook.uid, hook.reinvoke_if_needed, false);
            }
            if let Err(status) = result {
                // Validating webhooks are called concurrently, so the others are called too.
                refused.get_or_insert(status);
                if phase == Phase::Mutating {
                    break;
                }
            }
        }
        state.end(Plugin::Webhooks, object.as_ref());
        refused.map_or(Ok(()), Err)
    }

    fn admit(
        &self,
        attributes: &Attributes<'_>,
        row: &'static Resource,
    ) -> (Result<Option<Value>, Status>, Admitted) {
        let (mut admitted, mut state, mut object) =
            (Admitted::default(), Reinvocation::new(), attributes.object.cloned());
        let result = loop {
            if let Err(status) =
                self.run(Phase::Mutating, attributes, row, &mut state, &mut object, &mut admitted)
            {
                break Err(status);
            }
            if !state.start_second_round() {
                break Ok(());
            }
        };
        let result = result.and_then(|()| {
            self.run(Phase::Validating, attributes, row, &mut Reinvocation::new(), &mut object, &mut admitted)
        });
        (result.map(|()| object), admitted)
    }

    /// Applies a recorded line to the configuration. `true`: the line was about the configuration.
    fn configure(&mut self, line: &Value) -> bool {
        if let Some(hook) = line.get("hook") {
            self.replies.insert(text(&hook["path"]).to_owned(), hook.clone());
            return true;
        }
        let (method, path) = (text(&line["method"]), text(&line["path"]));
        let succeeded = line["status"].as_u64().is_some_and(|status| status < 300);
        if let Some(rest) = path.strip_prefix(REGISTRATION) {
            if !succeeded || path.contains("dryRun") || method == "GET" {
                return true;
            }
            let mutating = rest.starts_with("mutating");
            let name = rest.split_once('/').map(|(_, name)| name.to_owned());
            match (method, name) {
                ("DELETE", None) => self.configurations.retain(|(kind, _), _| *kind != mutating),
                ("DELETE", Some(name)) => drop(self.configurations.remove(&(mutating, name))),
                _ => {
                    let name = meta::name(&line["response"]).to_owned();
                    self.configurations.insert((mutating, name), line["response"].clone());
                }
            }
            return true;
        }
        if path == "/api/v1/namespaces" && method == "POST" && succeeded {
            self.namespaces.insert(meta::name(&line["response"]).to_owned(), line["response"].clone());
            return true;
        }
        false
    }
}

/// The members of an object that recorded webhooks change.
pub(super) fn content(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!([metadata["name"], metadata["labels"], metadata["annotations"], object["data"]])
}

/// Lines whose answers depend on validation of the object.
const ELSEWHERE: [&str; 1] = ["/patchinvalid/"];

fn compare(cluster: &Cluster, line: &Value, target: &Target, wrong: &mut Vec<String>) {
    let id = text(&line["id"]);
    let mut object = line["body"].clone();
    let sub = target.row.subresource(&target.subresource);
    let kind: GroupVersionKind<'_> = sub.map_or_else(|| target.row.into(), Into::into);
    meta::set_namespace(&mut object, &target.namespace);
    let groups = ["system:masters", "system:authenticated"].map(str::to_owned);
    let mut options = json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"});
    for (name, value) in [("dryRun", json!(["All"])), ("fieldValidation", json!("Strict"))] {
        if text(&line["path"]).contains(name) {
            options[name] = value;
        }
    }
    let name = if target.name.is_empty() { meta::name(&object).to_owned() } else { target.name.clone() };
    let attributes = Attributes {
        operation: Operation::Create,
        resource: GroupVersionResource::from(target.row),
        subresource: &target.subresource,
        kind,
        namespace: &target.namespace,
        name: &name,
        user: UserInfo { username: "admin", uid: "admin", groups: &groups, extra: &NO_EXTRA },
        dry_run: text(&line["path"]).contains("dryRun=All"),
        options: Some(&options),
        object: Some(&object),
        old_object: None,
    };
    let (result, admitted) = cluster.admit(&attributes, target.row);
    let recorded: Vec<&str> = list(&line["warnings"]).iter().map(text).collect();
    let said: Vec<String> =
        admitted.warnings.iter().map(|text| format!("299 - {}", Value::from(&**text))).collect();
    if id != "webhooks-165" && said != recorded {
        wrong.push(format!("{id}: warnings {said:?}, recorded {recorded:?}"));
    }
    match (&result, line["status"].as_u64()) {
        (Ok(object), Some(201)) => {
            let object = content(object.as_ref().unwrap());
            if object != content(&line["response"]) && sub.is_none() && target.row.plural == "configmaps" {
                wrong.push(format!("{id}: {object}, recorded {}", content(&line["response"])));
            }
        }
        (Err(status), Some(_)) => {
            let status = serde_json::to_value(status).unwrap();
            if status != line["response"] {
                wrong.push(format!("{id}: {status}\n   recorded {}", line["response"]));
            }
        }
        (Ok(_), status) => wrong.push(format!("{id}: admitted, recorded {status:?}")),
        (Err(status), None) => wrong.push(format!("{id}: {status}")),
    }
    let mut calls: Vec<(String, Value)> = admitted.calls;
    calls.sort_by(|a, b| a.0.cmp(&b.0));
    let recorded: Vec<(String, Value)> = list(&line["hook_calls"])
        .iter()
        .map(|call| (text(&call["url"]).to_owned(), call["review"].clone()))
        .collect();
    let bare = |mut calls: Vec<(String, Value)>| {
        calls.iter_mut().for_each(|(_, review)| review["request"]["object"] = Value::Null);
        calls
    };
    let (calls, recorded) = (bare(calls), bare(recorded));
    if calls != recorded {
        wrong.push(format!("{id}: called {calls:?}\n   recorded {recorded:?}"));
    }
}

#[test]
fn webhook_admission_matches_recorded_answers() {
    let (mut cluster, mut compared, mut wrong) = (Cluster::default(), 0, Vec::new());
    for line in lines("webhooks.jsonl") {
        if cluster.configure(&line) || line["method"] != "POST" || line["status"] == 404 {
            continue;
        }
        let path = text(&line["path"]);
        let Some(target) = target(path) else { continue };
        if ELSEWHERE.iter().any(|part| path.contains(part)) {
            continue;
        }
        compare(&cluster, &line, &target, &mut wrong);
        compared += 1;
    }
    eprintln!("compared {compared} answers");
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
}
