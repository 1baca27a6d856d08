//! `agnhost webhook`: the admission webhooks of Kubernetes' own tests. Each path judges a review by a fixed rule.

use super::ServerAction;
use super::files::error;
use crate::http::{HttpRequest, HttpResponse};
use crate::shell::tools::base64;
use serde_json::{Value, json};
use std::time::Duration;

/// How long `/always-allow-delay-5s` waits.
const DELAY: Duration = Duration::from_secs(5);
/// The label, and the key of data, whose value decides.
const DECIDING: &str = "webhook-e2e-test";
const UNWANTED: &str = "webhook-disallow";
/// The data of objects that may not be deleted.
const UNDELETABLE: &str = "webhook-nondeletable";
const FOREVER: &str = "wait-forever";

/// The answer to a review.
struct Verdict {
    allowed: bool,
    message: &'static str,
    reason: &'static str,
    patch: Vec<Value>,
}

const ALLOWED: Verdict = Verdict { allowed: true, message: "", reason: "", patch: Vec::new() };

/// Denies if there is a message or a reason.
fn judged(message: &'static str, reason: &'static str) -> Verdict {
    Verdict { allowed: message.is_empty() && reason.is_empty(), message, reason, ..ALLOWED }
}

fn patched(patch: Vec<Value>) -> Verdict {
    Verdict { patch, ..ALLOWED }
}

/// A request of the API server in a review.
#[derive(Clone, Copy)]
struct Reviewed<'a>(&'a Value);

impl<'a> Reviewed<'a> {
    fn is_deletion(self) -> bool {
        self.0["operation"] == "DELETE"
    }

    /// The object; of a deletion the one that is deleted.
    fn object(self) -> &'a Value {
        if self.is_deletion() { &self.0["oldObject"] } else { &self.0["object"] }
    }

    fn label(self) -> Option<&'a str> {
        self.object()["metadata"]["labels"][DECIDING].as_str()
    }

    /// Whether the data forbid the operation: a deletion has a word of its own.
    fn has_unwanted_data(self) -> bool {
        self.object()["data"][DECIDING] == if self.is_deletion() { UNDELETABLE } else { UNWANTED }
    }
}

/// What the server does for a request.
pub(super) fn respond(path: &str, request: &HttpRequest, sidecar: &str) -> ServerAction {
    let answer = |response| ServerAction::Answer(response);
    if path == "/readyz" {
        return answer(HttpResponse::sniffed(200, "ok"));
    }
    if request.header("content-type") != Some("application/json") {
        return answer(HttpResponse::empty(200));
    }
    let review: Value = match serde_json::from_slice(&request.body) {
        Ok(review) => review,
        Err(why) => return answer(error(400, &format!("Request could not be decoded: {why}"))),
    };
    let reviewed = Reviewed(&review["request"]);
    if matches!(path, "/pods") && reviewed.label() == Some(FOREVER) {
        return ServerAction::Silence;
    }
    let Some(verdict) = verdict(path, reviewed, sidecar) else {
        return answer(error(404, "404 page not found"));
    };
    let response = HttpResponse::new(200, "application/json", document(&review, verdict).into_bytes());
    if path == "/always-allow-delay-5s" { ServerAction::Later(DELAY, response) } else { answer(response) }
}

/// The verdict of a path; `None` if there is no such path.
fn verdict(path: &str, reviewed: Reviewed<'_>, sidecar: &str) -> Option<Verdict> {
    let object = reviewed.object();
    Some(match path {
        "/always-allow-delay-5s" => Verdict { message: "this webhook allows all requests", ..ALLOWED },
        "/always-deny" => judged("this webhook denies all requests", ""),
        "/add-label" => patched(label_patch(object)),
        "/pods" => pods(reviewed),
        "/pods/attach" => attach(reviewed),
        "/mutating-pods" => patched(match object["metadata"]["name"] == "webhook-to-be-mutated" {
            true => {
                let container = json!({"image": "webhook-added-image", "name": "webhook-added-init-container", "resources": {}});
                vec![add("/spec/initContainers", json!([container]))]
            }
            false => Vec::new(),
        }),
        "/mutating-pods-sidecar" => with_sidecar(object, sidecar),
        "/configmaps" => judged(
            "",
            data_reason(reviewed, "the configmap contains unwanted key and value", CONFIG_MAP_KEPT),
        ),
        "/custom-resource" => {
            judged("", data_reason(reviewed, "the custom resource contains unwanted data", RESOURCE_KEPT))
        }
        "/mutating-configmaps" | "/mutating-custom-resource" => patched(stages(object)),
        "/crd" => judged(
            if reviewed.label() == Some(UNWANTED) { "the crd contains unwanted label" } else { "" },
            "",
        ),
        _ => return None,
    })
}

const CONFIG_MAP_KEPT: &str = "the configmap cannot be deleted because it contains unwanted key and value";
const RESOURCE_KEPT: &str =
    "the custom resource cannot be deleted because it contains unwanted key and value";

fn data_reason(reviewed: Reviewed<'_>, why: &'static str, of_deletion: &'static str) -> &'static str {
    match (reviewed.has_unwanted_data(), reviewed.is_deletion()) {
        (false, _) => "",
        (true, false) => why,
        (true, true) => of_deletion,
    }
}

fn add(path: &str, value: Value) -> Value {
    json!({"op": "add", "path": path, "value": value})
}

fn label_patch(object: &Value) -> Vec<Value> {
    let labels = object["metadata"]["labels"].as_object().filter(|labels| !labels.is_empty());
    let Some(labels) = labels else {
        return vec![add("/metadata/labels", json!({"added-label": "yes"}))];
    };
    match labels.get("added-label").map(|value| value == "yes") {
        None => vec![add("/metadata/labels/added-label", json!("yes"))],
        Some(false) => vec![json!({"op": "replace", "path": "/metadata/labels/added-label", "value": "yes"})],
        Some(true) => Vec::new(),
    }
}

fn pods(reviewed: Reviewed<'_>) -> Verdict {
    let mut containers = reviewed.object()["spec"]["containers"].as_array().into_iter().flatten();
    let is_named = containers.any(|one| one["name"].as_str().is_some_and(|name| name.contains(UNWANTED)));
    judged(
        match (reviewed.label() == Some(UNWANTED), is_named) {
            (true, true) => "the pod contains unwanted label; the pod contains unwanted container name;",
            (true, false) => "the pod contains unwanted label;",
            (false, true) => "the pod contains unwanted container name;",
            (false, false) => "",
        },
        "",
    )
}

fn attach(Reviewed(request): Reviewed<'_>) -> Verdict {
    let options = &request["object"];
    let is_meant = request["name"] == "to-be-attached-pod"
        && options["stdin"] == true
        && options["container"] == "container1";
    judged(if is_meant { "attaching to pod 'to-be-attached-pod' is not allowed" } else { "" }, "")
}

fn with_sidecar(object: &Value, image: &str) -> Verdict {
    const NAME: &str = "webhook-added-sidecar";
    if image.is_empty() {
        return judged("No image specified by the sidecar-image parameter", "");
    }
    let has_one =
        object["spec"]["containers"].as_array().into_iter().flatten().any(|one| one["name"] == NAME);
    patched(match has_one {
        true => Vec::new(),
        false => vec![add("/spec/containers/-", json!({"image": image, "name": NAME, "resources": {}}))],
    })
}

/// The marks that two webhooks leave in the data of an object, one after the other.
fn stages(object: &Value) -> Vec<Value> {
    let has = |key: &str| object["data"][key] == "yes";
    let stages =
        [("mutation-start", "/data/mutation-stage-1"), ("mutation-stage-1", "/data/mutation-stage-2")];
    stages.into_iter().filter(|(key, _)| has(key)).map(|(_, path)| add(path, json!("yes"))).collect()
}

/// The review with its answer.
fn document(review: &Value, verdict: Verdict) -> String {
    let Verdict { allowed, message, reason, patch } = verdict;
    let mut response = json!({"uid": review["request"]["uid"], "allowed": allowed});
    if !message.is_empty() || !reason.is_empty() {
        response["status"] = json!({"metadata": {}, "message": message, "reason": reason});
    }
    if !patch.is_empty() {
        response["patch"] = json!(base64(Value::from(patch).to_string().as_bytes()));
        response["patchType"] = json!("JSONPatch");
    }
    json!({"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The response in the answer to a request.
    fn ask(path: &str, request: Value) -> Value {
        let review =
            json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request});
        let headers = vec![("Content-Type".to_owned(), "application/json".to_owned())];
        let request = HttpRequest {
            method: "POST".to_owned(),
            headers,
            body: review.to_string().into_bytes(),
            ..HttpRequest::default()
        };
        match respond(path, &request, "side") {
            ServerAction::Answer(response) | ServerAction::Later(_, response) => {
                let answer: Value = serde_json::from_slice(&response.body).unwrap();
                assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
                answer["response"].clone()
            }
            other => panic!("{path}: {other:?}"),
        }
    }

    fn patch(response: &Value) -> String {
        let text = response["patch"].as_str().unwrap();
        let digit = |c: u8| {
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
                .iter()
                .position(|own| *own == c)
        };
        let bits: Vec<u8> = text
            .bytes()
            .filter_map(digit)
            .flat_map(|value| (0..6).rev().map(move |bit| (value >> bit & 1) as u8))
            .collect();
        let bytes = bits.chunks_exact(8).map(|eight| eight.iter().fold(0u8, |byte, bit| byte << 1 | bit));
        String::from_utf8(bytes.collect()).unwrap()
    }

    #[test]
    fn objects_with_unwanted_labels_names_and_data_are_denied() {
        let labels = json!({"labels": {"webhook-e2e-test": "webhook-disallow"}});
        let pod = json!({"uid": "1", "object": {"metadata": labels, "spec": {"containers": [{"name": "a-webhook-disallow"}]}}});
        let denied = ask("/pods", pod);
        assert_eq!((&denied["uid"], &denied["allowed"]), (&json!("1"), &json!(false)));
        assert_eq!(
            denied["status"]["message"],
            "the pod contains unwanted label; the pod contains unwanted container name;"
        );
        assert_eq!(
            ask("/pods", json!({"object": {"spec": {"containers": [{"name": "a"}]}}}))["allowed"],
            true
        );
        let map = json!({"data": {"webhook-e2e-test": "webhook-disallow"}});
        let reason =
            |path: &str, request: Value| ask(path, request)["status"]["reason"].as_str().unwrap().to_owned();
        assert_eq!(
            reason("/configmaps", json!({"object": map})),
            "the configmap contains unwanted key and value"
        );
        let deletion = |word: &str| json!({"operation": "DELETE", "object": null, "oldObject": {"data": {"webhook-e2e-test": word}}});
        assert_eq!(reason("/configmaps", deletion("webhook-nondeletable")), CONFIG_MAP_KEPT);
        assert_eq!(reason("/custom-resource", deletion("webhook-nondeletable")), RESOURCE_KEPT);
        for path in ["/configmaps", "/custom-resource"] {
            assert_eq!(ask(path, deletion("webhook-disallow"))["allowed"], true, "{path}");
        }
        assert_eq!(
            ask("/crd", json!({"object": {"metadata": labels}}))["status"]["message"],
            "the crd contains unwanted label"
        );
        let attached = json!({"name": "to-be-attached-pod", "operation": "CONNECT", "object": {"stdin": true, "container": "container1"}});
        assert_eq!(ask("/pods/attach", attached)["allowed"], false);
        assert_eq!(ask("/always-deny", json!({}))["allowed"], false);
        assert_eq!(ask("/always-allow-delay-5s", json!({}))["allowed"], true);
    }

    #[test]
    fn objects_are_patched_by_what_they_have() {
        let labelled = |labels: Value| ask("/add-label", json!({"object": {"metadata": {"labels": labels}}}));
        assert_eq!(
            patch(&labelled(json!({}))),
            r#"[{"op":"add","path":"/metadata/labels","value":{"added-label":"yes"}}]"#
        );
        assert_eq!(
            patch(&labelled(json!({"a": "b"}))),
            r#"[{"op":"add","path":"/metadata/labels/added-label","value":"yes"}]"#
        );
        assert!(patch(&labelled(json!({"added-label": "no"}))).contains("replace"));
        assert_eq!(labelled(json!({"added-label": "yes"})).get("patch"), None);
        let data = |data: Value| ask("/mutating-configmaps", json!({"object": {"data": data}}));
        assert_eq!(
            patch(&data(json!({"mutation-start": "yes"}))),
            r#"[{"op":"add","path":"/data/mutation-stage-1","value":"yes"}]"#
        );
        assert!(patch(&data(json!({"mutation-stage-1": "yes"}))).contains("stage-2"));
        let pod = ask("/mutating-pods", json!({"object": {"metadata": {"name": "webhook-to-be-mutated"}}}));
        assert!(patch(&pod).contains("webhook-added-init-container"));
        assert!(
            patch(&ask("/mutating-pods-sidecar", json!({"object": {"spec": {}}})))
                .contains(r#""image":"side""#)
        );
    }

    #[test]
    fn a_label_keeps_the_answer_back() {
        let body =
            json!({"request": {"object": {"metadata": {"labels": {"webhook-e2e-test": "wait-forever"}}}}});
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        let request = HttpRequest { headers, body: body.to_string().into_bytes(), ..HttpRequest::default() };
        assert_eq!(respond("/pods", &request, ""), ServerAction::Silence);
        let other = HttpRequest { body: request.body, ..HttpRequest::default() };
        assert_eq!(respond("/pods", &other, ""), ServerAction::Answer(HttpResponse::empty(200)));
    }
}
