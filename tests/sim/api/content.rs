//! Representations of answers: JSON, indented JSON, YAML and protobuf; objects, tables and metadata only;
//! compressed or not.

use super::{ask, config_map, names};
use kstore_api::object::semantically_equal;
use kstore_api::wire::protobuf;
use kstore_tests::{Cluster, Reply, Setup, simulate};
use serde_json::{Value, json};
use std::io::Read as _;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

async fn fill(cluster: &Cluster, count: usize, bytes: usize) {
    for n in 0..count {
        let mut object: Value =
            serde_json::from_str(&config_map(&format!("c-{n}"), &json!({"n": "x"}))).unwrap();
        object["data"]["text"] = format!("line\n\n  indented {}", "y".repeat(bytes)).into();
        assert_eq!(cluster.rest().call("POST", CONFIG_MAPS, object.to_string()).await.code, 201);
    }
}

fn decode(reply: &Reply) -> Value {
    assert_eq!(reply.headers["content-type"], PROTOBUF);
    protobuf::decode(&reply.body).unwrap().1
}

/// Decodes the frames of a protobuf watch: event type and object.
fn frames(mut body: &[u8]) -> Vec<(String, Value)> {
    let mut events = Vec::new();
    while let Some((length, rest)) = body.split_first_chunk::<4>() {
        let (frame, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        // WatchEvent{1: type, 2: RawExtension{1: the enveloped object}}
        let kind_length = usize::from(frame[1]);
        let kind = String::from_utf8(frame[2..2 + kind_length].to_vec()).unwrap();
        let object = frame.windows(4).position(|window| window == protobuf::MAGIC).unwrap();
        events.push((kind, protobuf::decode(&frame[object..]).unwrap().1));
        body = rest;
    }
    events
}

/// Whether a JSON and a protobuf answer are equal. Empty strings that JSON always prints are absent in
/// protobuf.
fn is_same(json: &Value, proto: &Value) -> bool {
    let (mut json, mut proto) = (json.clone(), proto.clone());
    drop_empty_texts(&mut json);
    drop_empty_texts(&mut proto);
    semantically_equal(&json, &proto)
}

fn drop_empty_texts(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| member != "");
            members.values_mut().for_each(drop_empty_texts);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty_texts),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn protobuf_and_json_answers_are_equal() {
    simulate(Setup::seed(3), async |cluster| {
        fill(cluster, 2, 10).await;
        let nodes = async || !cluster.list("nodes", "").await.is_empty();
        cluster.wait_until("there is a node", nodes).await;
        let paths = [
            "/api/v1/nodes",
            "/api/v1/namespaces",
            CONFIG_MAPS,
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            "/api/v1/services",
            "/apis/discovery.k8s.io/v1/endpointslices",
            "/apis/scheduling.k8s.io/v1/priorityclasses",
        ];
        for path in paths {
            let accept = [("accept", "application/vnd.kubernetes.protobuf,application/json")];
            let json = ask(cluster, "GET", path, &[]).await.json();
            // Nodes update their status all the time.
            let version = json["metadata"]["resourceVersion"].as_str().unwrap();
            let exact = format!("{path}?resourceVersion={version}&resourceVersionMatch=Exact");
            let proto = decode(&ask(cluster, "GET", &exact, &accept).await);
            assert_eq!(
                (&json["kind"], &json["metadata"]["resourceVersion"]),
                (&proto["kind"], &proto["metadata"]["resourceVersion"])
            );
            assert!(
                !names(&json).is_empty() && is_same(&json["items"], &proto["items"]),
                "{path}\n{json}\n{proto}"
            );
        }
        let one = format!("{CONFIG_MAPS}/c-0");
        let accept = [("accept", PROTOBUF)];
        let (json, proto) =
            (ask(cluster, "GET", &one, &[]).await.json(), decode(&ask(cluster, "GET", &one, &accept).await));
        assert!(is_same(&json, &proto), "{json}\n{proto}");
        let missing = ask(cluster, "GET", &format!("{CONFIG_MAPS}/none"), &accept).await;
        let status = decode(&missing);
        assert_eq!(
            (missing.code, &status["kind"], &status["reason"]),
            (404, &json!("Status"), &json!("NotFound"))
        );
    });
}

#[test]
fn partial_metadata_is_served_in_every_version_and_encoding() {
    simulate(Setup::api_alone(), async |cluster| {
        fill(cluster, 2, 10).await;
        for version in ["v1", "v1beta1"] {
            for (encoding, list) in
                [("application/json", false), (PROTOBUF, true), ("application/yaml", false)]
            {
                let accept = format!("{encoding};as=PartialObjectMetadataList;g=meta.k8s.io;v={version}");
                let reply = ask(cluster, "GET", CONFIG_MAPS, &[("accept", &accept)]).await;
                let found = match encoding {
                    PROTOBUF => decode(&reply),
                    _ => serde_yaml_ng::from_slice(&reply.body).unwrap(),
                };
                let kind = json!("PartialObjectMetadataList");
                assert_eq!(
                    (&found["kind"], &found["apiVersion"]),
                    (&kind, &json!(format!("meta.k8s.io/{version}")))
                );
                assert_eq!(
                    (names(&found), &found["items"][0]["data"]),
                    (vec!["c-0".into(), "c-1".into()], &Value::Null)
                );
                assert_eq!(found["items"][0]["kind"].is_null(), list, "protobuf items carry no kind");
                let one = ask(
                    cluster,
                    "GET",
                    &format!("{CONFIG_MAPS}/c-1"),
                    &[("accept", &accept.replace("List", ""))],
                )
                .await;
                let one = if list { decode(&one) } else { serde_yaml_ng::from_slice(&one.body).unwrap() };
                assert_eq!(
                    (&one["kind"], &one["metadata"]["name"]),
                    (&json!("PartialObjectMetadata"), &json!("c-1"))
                );
            }
        }
    });
}

#[test]
fn watches_support_every_streamable_representation() {
    simulate(Setup::api_alone(), async |cluster| {
        fill(cluster, 1, 10).await;
        let path = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1&allowWatchBookmarks=1");
        let partial = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        for (extra, kind) in [("", "ConfigMap"), (partial, "PartialObjectMetadata")] {
            let proto = ask(cluster, "GET", &path, &[("accept", &format!("{PROTOBUF}{extra}"))]).await;
            assert_eq!(proto.headers["content-type"], format!("{PROTOBUF};stream=watch"));
            let json = ask(cluster, "GET", &path, &[("accept", &format!("application/json{extra}"))]).await;
            assert_eq!(json.headers["content-type"], "application/json");
            let lines: Vec<Value> = String::from_utf8_lossy(&json.body)
                .lines()
                .map(|l| serde_json::from_str(l).unwrap())
                .collect();
            let frames = frames(&proto.body);
            assert_eq!(frames.len(), lines.len());
            for ((event, object), line) in frames.iter().zip(&lines) {
                assert_eq!(
                    (event, &object["kind"]),
                    (&line["type"].as_str().unwrap().to_owned(), &json!(kind))
                );
                assert!(semantically_equal(object, &line["object"]), "{object} {line}");
            }
        }
        let table =
            ask(cluster, "GET", &path, &[("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")]).await;
        let first: Value = serde_json::from_slice(table.body.split(|b| *b == b'\n').next().unwrap()).unwrap();
        assert_eq!(
            (&first["object"]["kind"], &first["object"]["rows"][0]["cells"][0]),
            (&json!("Table"), &json!("c-0"))
        );
        let yaml = ask(cluster, "GET", &path, &[("accept", "application/yaml")]).await;
        let want = "only the following media types are accepted: application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
        let said: Value = serde_yaml_ng::from_slice(&yaml.body).unwrap();
        assert_eq!((yaml.code, said["message"].as_str()), (406, Some(want)), "a Status can be YAML");
    });
}

/// Go decodes a text without a value into an empty object of the kind.
#[test]
fn a_body_of_comments_is_an_object_without_a_name() {
    simulate(Setup::api_alone(), async |cluster| {
        for (kind, body) in [("application/yaml", "# nothing yet\n"), ("application/json", "null")] {
            let path = "/api/v1/namespaces/default/configmaps";
            let refused = cluster.rest().call_as("POST", path, kind, body).await;
            let text =
                "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required";
            assert_eq!((refused.code, refused.text("/message")), (422, text.into()), "{kind}");
        }
    });
}

#[test]
fn indented_and_yaml_lists_equal_the_compact_ones() {
    simulate(Setup::api_alone(), async |cluster| {
        fill(cluster, 3, 10).await;
        for path in [CONFIG_MAPS, "/api/v1/namespaces/default/pods"] {
            let compact = ask(cluster, "GET", path, &[]).await.json();
            let pretty = ask(cluster, "GET", &format!("{path}?pretty=true"), &[]).await;
            let yaml = ask(cluster, "GET", path, &[("accept", "application/yaml")]).await;
            assert_eq!((pretty.json(), &pretty.body[..4]), (compact.clone(), &b"{\n  "[..]));
            assert_eq!(
                (yaml.headers["content-type"].as_bytes(), pretty.body.last()),
                (&b"application/yaml"[..], Some(&b'\n'))
            );
            assert_eq!(serde_yaml_ng::from_slice::<Value>(&yaml.body).unwrap(), compact);
            for form in ["application/json", "application/yaml"] {
                let table =
                    ask(cluster, "GET", path, &[("accept", &format!("{form};as=Table;g=meta.k8s.io;v=v1"))])
                        .await;
                let table: Value = serde_yaml_ng::from_slice(&table.body).unwrap();
                assert_eq!(
                    (&table["kind"], table["rows"].as_array().map(Vec::len)),
                    (&json!("Table"), Some(names(&compact).len()))
                );
            }
        }
    });
}

#[test]
fn yaml_is_read_as_1_1_and_written_for_both_versions() {
    simulate(Setup::api_alone(), async |cluster| {
        let send = async |text: &str| {
            cluster.rest().call_as("POST", CONFIG_MAPS, "application/yaml", text.to_owned()).await
        };
        let texts = "data: {a: 'yes', b: \"0644\", c: !!str 1_000}";
        let made = send(&format!(
            "base: &m {{name: a}}\nmetadata: {{<<: *m}}\nimmutable: no\n{texts}\n---\nanother: ["
        ))
        .await;
        let data = json!({"a": "yes", "b": "0644", "c": "1_000"});
        assert_eq!((made.code, &made.json()["data"], &made.json()["immutable"]), (201, &data, &json!(false)));
        let read = ask(cluster, "GET", &format!("{CONFIG_MAPS}/a"), &[("accept", "application/yaml")]).await;
        let text = String::from_utf8(read.body.to_vec()).unwrap();
        assert!(
            text.contains("data:\n  a: \"yes\"\n  b: \"0644\"\n  c: \"1_000\"\nimmutable: false\n"),
            "{text}"
        );
        for (text, want) in [
            (
                "data: {a: yes}",
                "json: cannot unmarshal bool into Go struct field ConfigMap.data of type string",
            ),
            (
                "data: {a: 0644}",
                "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
            ),
            (
                "data: &a [*a]",
                "the object provided is unrecognized (must be of type ConfigMap): yaml: anchor 'a' value contains itself (646174613a202661205b2a615d)",
            ),
        ] {
            let refused = send(text).await;
            assert_eq!(refused.code, 400);
            assert!(refused.text("/message").contains(want), "{}", refused.text("/message"));
        }
        let pod = "metadata: {name: p}\nspec:\n  containers: [{name: c, image: i}]\n  terminationGracePeriodSeconds: 0x10\n  \
                   volumes: [{name: v, configMap: {name: a, defaultMode: 0644, optional: on}}]\n";
        let made =
            cluster.rest().call_as("POST", "/api/v1/namespaces/default/pods", "application/yaml", pod).await;
        let volume = &made.json()["spec"]["volumes"][0]["configMap"];
        assert_eq!((made.code, volume), (201, &json!({"name": "a", "defaultMode": 420, "optional": true})));
        assert_eq!(made.json()["spec"]["terminationGracePeriodSeconds"], 16);
    });
}

#[test]
fn unacceptable_media_types_are_refused_with_the_supported_ones() {
    simulate(Setup::api_alone(), async |cluster| {
        let want = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf";
        for accept in [
            "image/png",
            "application/json;as=Table;g=meta.k8s.io;v=v7",
            "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1",
        ] {
            let reply = ask(cluster, "GET", CONFIG_MAPS, &[("accept", accept)]).await;
            assert_eq!(
                (reply.code, reply.text("/reason").as_str(), reply.text("/message").as_str()),
                (406, "NotAcceptable", want),
                "{accept}"
            );
        }
        let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let request =
            http::Request::builder().method("POST").uri(review).header("content-type", "application/json");
        let request = request.header("accept", "application/json;as=Table;g=meta.k8s.io;v=v1");
        let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}});
        let reply = cluster.rest().send(request.body(body.to_string().into()).unwrap()).await;
        assert_eq!((reply.code, reply.text("/message").as_str()), (406, want));
    });
}

#[test]
fn large_answers_are_compressed_if_the_client_accepts_it() {
    simulate(Setup::api_alone(), async |cluster| {
        fill(cluster, 40, 5000).await;
        let gzip = [("accept-encoding", "gzip")];
        let small = ask(cluster, "GET", &format!("{CONFIG_MAPS}?limit=10"), &gzip).await;
        assert!(small.headers.get("content-encoding").is_none());
        let plain = ask(cluster, "GET", CONFIG_MAPS, &[]).await;
        for accept in ["application/json", PROTOBUF, "application/yaml"] {
            let packed = ask(cluster, "GET", CONFIG_MAPS, &[gzip[0], ("accept", accept)]).await;
            assert_eq!(
                (&packed.headers["content-encoding"], &packed.headers["vary"]),
                (&"gzip".parse().unwrap(), &"Accept-Encoding".parse().unwrap())
            );
            let mut body = Vec::new();
            flate2::read::GzDecoder::new(&packed.body[..]).read_to_end(&mut body).unwrap();
            let bare = ask(cluster, "GET", CONFIG_MAPS, &[("accept", accept)]).await;
            assert!(bare.body == body && packed.body.len() * 4 < body.len());
        }
        assert!(plain.body.len() > 128 * 1024);
    });
}

#[test]
fn head_returns_the_headers_of_get_without_a_body() {
    simulate(Setup::api_alone(), async |cluster| {
        fill(cluster, 2, 10).await;
        for path in [
            CONFIG_MAPS.to_owned(),
            format!("{CONFIG_MAPS}/c-0"),
            format!("{CONFIG_MAPS}/none"),
            "/version".into(),
        ] {
            let (get, head) = (ask(cluster, "GET", &path, &[]).await, ask(cluster, "HEAD", &path, &[]).await);
            assert_eq!(
                (head.code, &head.headers["content-type"]),
                (get.code, &get.headers["content-type"]),
                "{path}"
            );
            assert_eq!(
                (head.body.len(), &head.headers["content-length"]),
                (0, &get.body.len().into()),
                "{path}"
            );
        }
    });
}
