//! `agnhost crd-conversion-webhook`: converts the custom resource of Kubernetes' own tests between `v1`, which has one member for host and
//! port, and `v2`, which has two.

use super::ServerAction;
use super::files::error;
use crate::http::{HttpRequest, HttpResponse};
use serde_json::{Map, Value, json};

const V1: &str = "stable.example.com/v1";
const V2: &str = "stable.example.com/v2";

/// What the server does for a request.
pub(super) fn respond(path: &str, request: &HttpRequest) -> ServerAction {
    ServerAction::Answer(match path {
        "/readyz" => HttpResponse::sniffed(200, "ok"),
        "/crdconvert" => match serde_json::from_slice::<Value>(&request.body) {
            Ok(review) => {
                HttpResponse::new(200, "application/json", converted(&review).to_string().into_bytes())
            }
            Err(why) => error(400, &format!("failed to deserialize body: {why}")),
        },
        _ => error(404, "404 page not found"),
    })
}

/// The review with its answer.
fn converted(review: &Value) -> Value {
    let request = &review["request"];
    let desired = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let objects = request["objects"].as_array().into_iter().flatten();
    let all: Result<Vec<Value>, String> = objects.map(|object| convert(object, desired)).collect();
    let response = match all {
        Ok(all) => json!({"uid": request["uid"], "convertedObjects": all, "result": {"status": "Success"}}),
        Err(why) => {
            json!({"uid": request["uid"], "convertedObjects": [], "result": {"status": "Failure", "message": why}})
        }
    };
    json!({"kind": review["kind"], "apiVersion": review["apiVersion"], "response": response})
}

fn convert(object: &Value, desired: &str) -> Result<Value, String> {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    if version == desired {
        return Err(format!("conversion from a version to itself should not call the webhook: {desired}"));
    }
    let mut members = object.as_object().cloned().unwrap_or_default();
    match (version, desired) {
        (V1, V2) => split(&mut members)?,
        (V2, V1) => join(&mut members),
        (V1 | V2, other) | (other, _) => return Err(format!("unexpected conversion version {other:?}")),
    }
    members.insert("apiVersion".to_owned(), json!(desired));
    Ok(Value::Object(members))
}

fn split(members: &mut Map<String, Value>) -> Result<(), String> {
    let Some(both) = members.remove("hostPort") else { return Ok(()) };
    let text = both.as_str().unwrap_or_default();
    let parts: Vec<&str> = text.split(':').collect();
    let [host, port] = parts[..] else { return Err(format!("invalid hostPort value `{text}`")) };
    members.insert("host".to_owned(), json!(host));
    members.insert("port".to_owned(), json!(port));
    Ok(())
}

fn join(members: &mut Map<String, Value>) {
    let (host, port) = (members.remove("host"), members.remove("port"));
    if host.is_some() || port.is_some() {
        let text = |value: Option<Value>| {
            value.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
        };
        members.insert("hostPort".to_owned(), json!(format!("{}:{}", text(host), text(port))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_converted_in_both_directions_and_other_versions_fail() {
        let ask = |object: Value, desired: &str| {
            let review = json!({"request": {"uid": "1", "desiredAPIVersion": desired, "objects": [object]}});
            converted(&review)["response"].clone()
        };
        let one = json!({"apiVersion": V1, "metadata": {"name": "a"}, "hostPort": "localhost:8080"});
        let two = json!({"apiVersion": V2, "metadata": {"name": "a"}, "host": "localhost", "port": "8080"});
        let there = ask(one.clone(), V2);
        assert_eq!((&there["convertedObjects"][0], &there["result"]["status"]), (&two, &json!("Success")));
        assert_eq!(ask(two, V1)["convertedObjects"][0], one);
        for (object, desired, why) in [
            (one.clone(), "stable.example.com/v3", "unexpected conversion version \"stable.example.com/v3\""),
            (
                one,
                V1,
                "conversion from a version to itself should not call the webhook: stable.example.com/v1",
            ),
            (json!({"apiVersion": V1, "hostPort": "a"}), V2, "invalid hostPort value `a`"),
        ] {
            let answer = ask(object, desired);
            assert_eq!(
                (&answer["result"]["status"], &answer["result"]["message"]),
                (&json!("Failure"), &json!(why))
            );
        }
        let request = HttpRequest { body: b"}{".to_vec(), ..HttpRequest::default() };
        assert!(
            matches!(respond("/crdconvert", &request), ServerAction::Answer(answer) if answer.code == 400)
        );
    }
}
