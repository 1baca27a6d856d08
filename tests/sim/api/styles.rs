//! CustomResourceDefinitions in the style of well-known projects: accepted, served, documented down to nested
//! fields, and their objects accepted or refused. `.ci/crds` does the same with published definitions.

use kstore_tests::{Cluster, Setup, simulate};
use serde::Deserialize;
use serde_json::Value;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[derive(Deserialize)]
struct StyleCase {
    definition: Value,
    /// A field with a description.
    explained: String,
    taken: Value,
    refused: Vec<RefusedCase>,
}

#[derive(Deserialize)]
struct RefusedCase {
    text: String,
    object: Value,
}

fn styles() -> Vec<StyleCase> {
    serde_yaml_ng::from_str(include_str!("styles.yaml")).unwrap()
}

/// The collection path of a definition's objects, in the version of an object.
fn path(definition: &Value, object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let spec = &definition["spec"];
    let namespace = if spec["scope"] == "Namespaced" { "/namespaces/default" } else { "" };
    format!("/apis/{}{namespace}/{}", text(&object["apiVersion"]), text(&spec["names"]["plural"]))
}

async fn post(cluster: &Cluster, path: &str, body: &Value) -> kstore_tests::Reply {
    cluster.rest().call("POST", path, body.to_string()).await
}

/// Resolves the schema of a field as kubectl does: through properties, items and references.
fn field<'d>(document: &'d Value, model: &'d Value, path: &str) -> Option<&'d Value> {
    path.split('.').try_fold(model, |at, name| {
        let at = if at["type"] == "array" { &at["items"] } else { at };
        let reference = at["allOf"][0]["$ref"].as_str().or(at["$ref"].as_str());
        let at = match reference {
            Some(reference) => document.pointer(reference.strip_prefix('#')?)?,
            None => at,
        };
        at["properties"].get(name)
    })
}

#[test]
fn definitions_like_those_of_known_projects_are_served_and_documented() {
    simulate(Setup::api_alone(), async |cluster| {
        let rest = cluster.rest();
        for StyleCase { definition, explained, taken, .. } in styles() {
            let name = definition["metadata"]["name"].as_str().unwrap();
            let made = post(cluster, &format!("{DEFINITIONS}?fieldValidation=Strict"), &definition).await;
            assert_eq!(made.code, 201, "{name}: {}", made.json());
            assert!(made.headers.get("warning").is_none(), "{name}: {:?}", made.headers);
            let api_version = taken["apiVersion"].as_str().unwrap();
            let resources = rest.call("GET", &format!("/apis/{api_version}"), "").await.json();
            assert_eq!(resources["resources"][0]["name"], definition["spec"]["names"]["plural"]);
            let document = rest.call("GET", &format!("/openapi/v3/apis/{api_version}"), "").await.json();
            let kind = &taken["kind"];
            let of_kind = |model: &&Value| model["x-kubernetes-group-version-kind"][0]["kind"] == *kind;
            let models = document["components"]["schemas"].as_object().unwrap();
            let model = models.values().find(of_kind).unwrap();
            let described = field(&document, model, &explained).map(|field| field["description"].is_string());
            assert_eq!(described, Some(true), "{name}: {explained}");
            assert!(field(&document, model, "metadata.ownerReferences.uid").is_some(), "{name}");
            assert!(field(&document, model, "spec.nonsense").is_none(), "{name}");
        }
        let swagger = rest.call("GET", "/openapi/v2", "").await.json();
        for StyleCase { taken, .. } in styles() {
            let kind = &taken["kind"];
            let of_kind = |model: &&Value| model["x-kubernetes-group-version-kind"][0]["kind"] == *kind;
            let model = swagger["definitions"].as_object().unwrap().values().find(of_kind).unwrap();
            assert!(field(&swagger, model, "metadata.name").is_some(), "{kind}");
        }
    });
}

#[test]
fn objects_like_those_of_known_projects_are_accepted_or_refused_with_the_reason() {
    simulate(Setup::api_alone(), async |cluster| {
        for StyleCase { definition, taken, refused, .. } in styles() {
            assert_eq!(post(cluster, DEFINITIONS, &definition).await.code, 201);
            let path = path(&definition, &taken);
            let made = post(cluster, &format!("{path}?fieldValidation=Strict"), &taken).await;
            assert_eq!(made.code, 201, "{}", made.json());
            assert!(!refused.is_empty());
            for RefusedCase { text, object } in refused {
                let answer = post(cluster, &path, &object).await;
                let message = answer.text("/message");
                assert!(
                    answer.code == 422 && message.contains(&text),
                    "{}: {message}\nwanted: {text}",
                    answer.code
                );
            }
        }
    });
}
