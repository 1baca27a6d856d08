//! Tests of conversion by a webhook.

use super::super::client::ClientConfig;
use super::super::conversion::{Batch, Review};
use super::super::review::ReviewVersion;
use super::super::review::transport::HttpAnswer;
use serde_json::{Value, json};

fn object(version: &str, name: &str) -> Value {
    json!({"apiVersion": format!("x.dev/{version}"), "kind": "Dog",
        "metadata": {"name": name, "namespace": "n", "uid": name, "labels": {"a": "b"}, "finalizers": ["f"]}, "spec": 1})
}

fn single() -> Review<'static> {
    Review::new(ReviewVersion::V1, "x.dev/v2", Batch::Single, vec![object("v1", "a")])
}

fn list() -> Review<'static> {
    let batch = Batch::List { api_version: "x.dev/v1", kind: "DogList" };
    let objects = vec![object("v1", "a"), object("v2", "b"), object("v1", "c")];
    Review::new(ReviewVersion::V1, "x.dev/v2", batch, objects)
}

fn finish(review: Review<'_>, body: &Value) -> Result<Vec<Value>, String> {
    let body = body.to_string();
    let answer = HttpAnswer { status: 200, content_type: "application/json", body: body.as_bytes() };
    review.finish("u", &answer).map_err(|error| {
        let status = serde_json::to_value(error.status()).unwrap();
        assert_eq!((&status["code"], &status["reason"]), (&json!(500), &Value::Null), "500 without a reason");
        error.to_string()
    })
}

fn answer(objects: &[Value]) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "response": {"uid": "u", "result": {"status": "Success"}, "convertedObjects": objects}})
}

#[test]
fn only_objects_in_other_versions_are_sent_for_conversion() {
    let body: Value = serde_json::from_slice(&list().encode_request("u")).unwrap();
    assert_eq!(
        body,
        json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "request": {"uid": "u",
            "desiredAPIVersion": "x.dev/v2", "objects": [object("v1", "a"), object("v1", "c")]}})
    );
    let review = |objects| Review::new(ReviewVersion::V1Beta1, "x.dev/v2", Batch::Single, objects);
    assert!(!review(vec![object("v2", "a")]).needs_call());
    assert!(!review(Vec::new()).needs_call());
    let bare = review(vec![json!({"apiVersion": "x.dev/v1", "kind": "Dog"})]);
    assert!(!bare.needs_call());
    assert_eq!(bare.into_unconverted(), [json!({"apiVersion": "x.dev/v2", "kind": "Dog"})]);
}

#[test]
fn converted_objects_keep_their_order_and_metadata() {
    let mut a = object("v2", "a");
    a["spec"] = json!(2);
    a["metadata"] = json!({"name": "a", "namespace": "n", "uid": "a", "labels": {"new": "x"}, "annotations": {"k": "v"}, "finalizers": []});
    let mut c = object("v2", "c");
    c["metadata"].as_object_mut().unwrap().remove("labels");
    let found = finish(list(), &answer(&[a, c])).unwrap();
    let names: Vec<&Value> = found.iter().map(|object| &object["metadata"]["name"]).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let metadata = json!({"name": "a", "namespace": "n", "uid": "a", "labels": {"new": "x"}, "annotations": {"k": "v"}, "finalizers": ["f"]});
    assert_eq!((&found[0]["metadata"], &found[0]["spec"]), (&metadata, &json!(2)));
    assert_eq!(found[2]["metadata"]["labels"], Value::Null);
}

#[test]
fn conversion_responses_are_checked_in_the_order_of_kubernetes() {
    let failed = "conversion webhook for x.dev/v1, Kind=Dog failed: ";
    let of = |response: Value| json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response});
    let cases = [
        (
            json!({"response": null}),
            "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind=",
        ),
        (of(Value::Null), "no response provided"),
        (of(json!({"uid": "x", "result": {"status": "Failure"}})), "expected response.uid=\"u\", got \"x\""),
        (of(json!({"uid": "u"})), "response.result.status was '', not 'Success'"),
        (
            of(json!({"uid": "u", "result": {"status": "Failure"}})),
            "response.result.status was 'Failure', not 'Success'",
        ),
        (of(json!({"uid": "u", "result": {"status": "Failure", "message": "cannot"}})), "cannot"),
        (
            json!(7),
            "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }",
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(finish(single(), &body).unwrap_err(), format!("{failed}{expected}"));
    }
    let error = finish(list(), &answer(&[])).unwrap_err();
    assert_eq!(error, "conversion webhook for x.dev/v1, Kind=DogList returned 0 objects, expected 2");
    let client = ClientConfig::read(&json!({"url": "https://127.0.0.1:1/c"})).unwrap();
    assert_eq!(
        single().no_answer(&client, "dial tcp 127.0.0.1:1: connect: connection refused").to_string(),
        format!(
            "{failed}Post \"https://127.0.0.1:1/c?timeout=30s\": dial tcp 127.0.0.1:1: connect: connection refused"
        )
    );
}

#[test]
fn conversion_must_not_change_identity() {
    let with = |member: &str, value: Value| {
        let mut object = object("v2", "a");
        *object.pointer_mut(member).unwrap() = value;
        object
    };
    let dog = "conversion webhook for x.dev/v1, Kind=Dog returned invalid ";
    let mut nameless = object("v2", "a");
    nameless.as_object_mut().unwrap().remove("kind");
    let cases = [
        (
            object("v1", "a"),
            format!("{dog}object at index 0: invalid groupVersion (expected x.dev/v2, received x.dev/v1)"),
        ),
        (
            with("/kind", json!("Cat")),
            format!("{dog}object at index 0: invalid kind (expected Dog, received Cat)"),
        ),
        (with("/metadata/name", json!("b")), format!("{dog}object: must have the same name: a != b")),
        (
            with("/metadata/namespace", json!("m")),
            format!("{dog}object: must have the same namespace: n != m"),
        ),
        (with("/metadata/uid", json!("x")), format!("{dog}object: must have the same UID: a != x")),
        (
            with("/metadata/labels", json!("x")),
            format!("{dog}metadata: invalid metadata.labels of type string in converted object"),
        ),
        (
            with("/metadata/labels", json!({"a": 1})),
            format!("{dog}metadata: metadata.labels[a] must be a string, but is int64 in converted object"),
        ),
        (
            with("/metadata/labels", json!({"a": "b c"})),
            format!(
                "{dog}metadata: metadata.labels: Invalid value: \"b c\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ),
        ),
        (
            json!("x"),
            "json: cannot unmarshal string into Go value of type map[string]interface {}".to_owned(),
        ),
        (json!({}), "Object 'Kind' is missing in '{}'".to_owned()),
    ];
    for (converted, expected) in cases {
        assert_eq!(finish(single(), &answer(&[converted])).unwrap_err(), expected);
    }
    assert!(finish(single(), &answer(&[with("/metadata", json!(3))])).is_err());
    let in_list =
        "conversion webhook for x.dev/v1, Kind=DogList returned invalid converted object at index 1: ";
    let error =
        finish(list(), &answer(&[with("/metadata/name", json!("b")), object("v2", "c")])).unwrap_err();
    assert_eq!(error, format!("{in_list}must have the same name: a != b"));
}
