//! Requests that are small and cost much: names, claims, nested values.

use super::target::{Target, User, Writer};
use super::{Attack, Scale};
use crate::hostile::frames;
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::{LocalBoxFuture, join_all};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::time::{Instant, sleep, timeout};
use tower::ServiceExt as _;

/// Wait for the end of an attack's own requests.
const END: Duration = Duration::from_secs(60);

/// Calls without credentials whose first message names a million nodes.
pub(super) const TUNNEL_NAMES: Attack = Attack::new("names of a tunnel", 128, tunnel_names);

fn tunnel_names(target: &Target, _: Scale) -> LocalBoxFuture<'_, usize> {
    const NAMES: usize = 1_400_000;
    const CALLS: usize = 8;
    async move {
        // TunnelUp with TunnelNodes, each name an empty field 1.
        let names = [0x0a, 0].repeat(NAMES);
        let mut message = vec![0x0a];
        varint(&mut message, names.len());
        message.extend(names);
        let length = u32::try_from(message.len()).unwrap().to_be_bytes();
        let body = Bytes::from([&[0], &length[..], &message].concat());
        let stranger = target.admin.without_certificate().http2().await;
        target.begin(Writer::Tenant).await;
        let call = |_| {
            let body = Full::new(body.clone()).map_err(|never| match never {});
            let request = http::Request::post("https://kstore/kstore.v1.Kstore/Tunnel")
                .header("content-type", "application/grpc")
                .header("te", "trailers")
                .body(tonic::body::Body::new(body))
                .unwrap();
            timeout(END, stranger.clone().oneshot(request))
        };
        join_all((0..CALLS).map(call)).await;
        sleep(Duration::from_secs(1)).await;
        CALLS * body.len()
    }
    .boxed_local()
}

fn varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap());
}

/// A JSON patch whose moves nest 250,000 levels.
pub(super) const PATCH_DEPTH: Attack = Attack::new("nesting by moves", 256, patch_depth);

fn patch_depth(target: &Target, _: Scale) -> LocalBoxFuture<'_, usize> {
    const LEVELS: usize = 100;
    async move {
        let eve = target.user("eve", "edit").await;
        let map = json!({"metadata": {"name": "one"}}).to_string();
        assert_eq!(eve.send(("POST", &eve.path("configmaps")), "application/json", &map).await, 201);
        let nested = (0..LEVELS).fold(json!({}), |inner, _| json!({"k": inner}));
        let deepest = "/k".repeat(LEVELS);
        let mut operations = vec![json!({"op": "add", "path": "/a", "value": {}})];
        for _ in 0..2_500 {
            operations.push(json!({"op": "add", "path": "/b", "value": nested}));
            operations.push(json!({"op": "move", "from": "/a", "path": format!("/b{deepest}/k")}));
            operations.push(json!({"op": "move", "from": "/b", "path": "/a"}));
        }
        let patch = Value::from(operations).to_string();
        let path = eve.path("configmaps/one?dryRun=All");
        target.begin(Writer::Tenant).await;
        for _ in 0..3 {
            let code = eve.send(("PATCH", &path), "application/json-patch+json", &patch).await;
            assert!([0, 413, 422].contains(&code), "{code}");
        }
        sleep(Duration::from_secs(1)).await;
        3 * patch.len()
    }
    .boxed_local()
}

/// Bodies of which only the length is sent.
pub(super) const CLAIMED_BODIES: Attack = Attack::new("claimed bodies", 128, claimed_bodies);

fn claimed_bodies(target: &Target, scale: Scale) -> LocalBoxFuture<'_, usize> {
    const CLAIMS: u32 = 45;
    async move {
        let eve = target.user("eve", "view").await;
        target.begin(Writer::Tenant).await;
        let mut held = Vec::new();
        let mut sent = 0;
        for _ in 0..2 {
            let mut tls = eve.https.try_connect().await.unwrap();
            let mut bytes = [frames::PREFACE, &frames::initial_window(65_535)].concat();
            for number in 0..CLAIMS {
                bytes.extend(frames::head(
                    2 * number + 1,
                    0,
                    &[
                        (":method", "POST"),
                        (":scheme", "https"),
                        (":path", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
                        (":authority", "kstore"),
                        ("authorization", &eve.authorization),
                        ("content-type", "application/json"),
                        ("content-length", "3145728"),
                    ],
                ));
            }
            tls.write_all(&bytes).await.unwrap();
            sent += bytes.len();
            held.push(tls);
        }
        sleep(scale.time()).await;
        sent
    }
    .boxed_local()
}

/// A document of a few hundred bytes whose aliases stand for hundreds of thousands of values.
pub(super) const YAML_ALIASES: Attack = Attack::new("YAML aliases", 256, yaml_aliases);

fn yaml_aliases(target: &Target, scale: Scale) -> LocalBoxFuture<'_, usize> {
    async move {
        let eve = target.user("eve", "edit").await;
        let mut yaml =
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: y-}\na0: &a0 [x,x,x,x,x,x,x,x]\n"
                .to_owned();
        for level in 1..6 {
            let aliases = vec![format!("*a{}", level - 1); 8].join(",");
            yaml += &format!("a{level}: &a{level} [{aliases}]\n");
        }
        let path = eve.path("configmaps?dryRun=All");
        target.begin(Writer::Tenant).await;
        let requests = repeat(&eve, scale, 8, (&path, "application/yaml"), &yaml).await;
        requests * yaml.len()
    }
    .boxed_local()
}

/// Objects of a custom kind that consist of hundreds of thousands of maps with one member.
pub(super) const TINY_MAPS: Attack = Attack::new("tiny maps", 640, tiny_maps);

fn tiny_maps(target: &Target, scale: Scale) -> LocalBoxFuture<'_, usize> {
    async move {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = json!({"metadata": {"name": "maps.load.test"},
            "spec": {"group": "load.test", "scope": "Namespaced", "names": {"plural": "maps", "kind": "TinyMaps"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
        target.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
        let rule = json!([{"apiGroups": ["load.test"], "resources": ["maps"], "verbs": ["create"]}]);
        let role = json!({"metadata": {"name": "maps"}, "rules": rule});
        target.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role).await;
        let eve = target.user("eve", "maps").await;
        let maps = vec![r#"{"a":1}"#; scale.number(60_000, 170_000)].join(",");
        let object =
            format!(r#"{{"apiVersion":"load.test/v1","kind":"TinyMaps","metadata":{{"generateName":"m-"}},"x":[{maps}]}}"#);
        let path = "/apis/load.test/v1/namespaces/eve/maps?dryRun=All";
        target.begin(Writer::Tenant).await;
        let requests = repeat(&eve, scale, 8, (path, "application/json"), &object).await;
        requests * object.len()
    }
    .boxed_local()
}

/// Posts a body again and again over several connections. Returns the number of requests.
pub(super) async fn repeat(
    eve: &User,
    scale: Scale,
    connections: usize,
    (path, content_type): (&str, &str),
    body: &str,
) -> usize {
    let end = Instant::now() + scale.time();
    let post = |_| async move {
        let mut requests = 0;
        while Instant::now() < end {
            eve.send(("POST", path), content_type, body).await;
            requests += 1;
        }
        requests
    };
    join_all((0..connections).map(post)).await.into_iter().sum()
}
