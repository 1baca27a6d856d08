//! Random requests against a server in memory: none causes a panic, every refusal is a Status, and a refused
//! or read-only request changes nothing.

use bytes::Bytes;
use http_body_util::Full;
use kstore_nondet::Rng;
use kstore_tests::{Cluster, Setup, manifests, simulate};
use serde_json::{Value, json};

const REQUESTS: usize = 2_500;

fn pick<'a>(rng: &Rng, from: &[&'a str]) -> &'a str {
    from[usize::try_from(rng.below(from.len() as u64)).unwrap()]
}

fn one_in(rng: &Rng, n: u64) -> bool {
    rng.below(n) != 0
}

fn path(rng: &Rng) -> String {
    let roots = [
        "/api/v1",
        "/apis/apps/v1",
        "/apis/autoscaling/v2",
        "/apis/none.io/v1",
        "/api",
        "/apis",
        "//",
        "/%2e%2e",
    ];
    let mut path = pick(rng, &roots).to_owned();
    if one_in(rng, 3) {
        path.push_str(pick(
            rng,
            &["/namespaces/default", "/namespaces/default", "/namespaces/", "/watch", "/namespaces/%zz"],
        ));
    }
    for _ in 0..rng.below(4) {
        path.push('/');
        path.push_str(pick(
            rng,
            &[
                "pods",
                "configmaps",
                "deployments",
                "services",
                "there",
                "web",
                "none",
                "status",
                "scale",
                "log",
                "proxy",
                "eviction",
                "binding",
                "horizontalpodautoscalers",
                "",
                "a%2fb",
                "%00",
                "ü",
            ],
        ));
    }
    path.chars()
        .flat_map(|c| if c.is_ascii() { c.to_string() } else { "%C3%BC".to_owned() }.into_bytes())
        .map(char::from)
        .collect()
}

fn query(rng: &Rng) -> String {
    let names = [
        "limit",
        "continue",
        "labelSelector",
        "fieldSelector",
        "resourceVersion",
        "resourceVersionMatch",
        "dryRun",
        "fieldManager",
        "fieldValidation",
        "force",
        "pretty",
        "timeout",
        "gracePeriodSeconds",
        "propagationPolicy",
        "includeObject",
        "x",
        "%ff",
    ];
    let values = [
        "",
        "1",
        "-1",
        "0",
        "All",
        "Strict",
        "Ignore",
        "true",
        "Exact",
        "NotOlderThan",
        "99999999999999999999",
        "a%3Db",
        "a in (b",
        "metadata.name%3Dthere",
        "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MX0",
        "Foreground",
        "Sideways",
        "%00",
        "%",
        "5s",
    ];
    let pairs: Vec<String> = (0..rng.below(4))
        .map(|_| format!("{}={}", pick(rng, &names), pick(rng, &values).replace(' ', "+")))
        .collect();
    pairs.join("&")
}

fn json(rng: &Rng, depth: u32) -> Value {
    let names = [
        "metadata",
        "spec",
        "name",
        "labels",
        "data",
        "replicas",
        "apiVersion",
        "kind",
        "containers",
        "$patch",
        "op",
        "path",
        "a",
    ];
    let texts = [
        "",
        "there",
        "web",
        "v1",
        "apps/v1",
        "ConfigMap",
        "Deployment",
        "Scale",
        "replace",
        "/spec/replicas",
        "add",
    ];
    match rng.below(if depth == 0 { 4 } else { 7 }) {
        0 => json!(rng.below(5)),
        1 => json!(pick(rng, &texts)),
        2 => Value::Null,
        3 => json!(-1.5e300),
        4 => (0..rng.below(3)).map(|_| json(rng, depth - 1)).collect(),
        _ => Value::Object(
            (0..rng.below(5)).map(|_| (pick(rng, &names).to_owned(), json(rng, depth - 1))).collect(),
        ),
    }
}

fn body(rng: &Rng) -> Vec<u8> {
    match rng.below(6) {
        0 => Vec::new(),
        1 => (0..rng.below(60)).map(|_| rng.next_u64() as u8).collect(),
        2 => [b"k8s\0".to_vec(), (0..rng.below(60)).map(|_| rng.next_u64() as u8).collect()].concat(),
        3 => b"a: &a [*a, b: {c: d]\n- x: {y".to_vec(),
        _ => json(rng, 4).to_string().into_bytes(),
    }
}

fn request(rng: &Rng) -> http::Request<Full<Bytes>> {
    let method =
        pick(rng, &["GET", "GET", "HEAD", "POST", "PUT", "PATCH", "PATCH", "DELETE", "OPTIONS", "BREW"]);
    let types = [
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "text/plain",
        ";;",
        "",
    ];
    let accepts = [
        "*/*",
        "application/json",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/vnd.kubernetes.protobuf",
        "q=;,",
        "image/png",
    ];
    let uri = format!("{}?{}", path(rng), query(rng));
    let request = http::Request::builder().method(method).uri(uri).header("accept", pick(rng, &accepts));
    let request = request
        .header("content-type", pick(rng, &types))
        .header("user-agent", pick(rng, &["x/1", "", "curl"]));
    request.body(Full::new(body(rng).into())).unwrap()
}

#[test]
fn random_requests_cause_no_panic_and_failed_ones_change_nothing() {
    simulate(Setup::api_alone(), async |cluster: &Cluster| {
        cluster.create(manifests::config_map("there", "1")).await;
        cluster.create(manifests::deployment("web", 1)).await;
        let (rng, rest) = (Rng::seeded(11), cluster.rest());
        let mut refused = 0;
        for at in 0..REQUESTS {
            let request = request(&rng);
            let said =
                format!("request {at}: {} {} {:?}", request.method(), request.uri(), request.headers());
            let reads = matches!(request.method().as_str(), "GET" | "HEAD" | "OPTIONS" | "BREW");
            let head = request.method() == "HEAD";
            let before = cluster.store().revision();
            let reply = rest.send(request).await;
            assert!(
                reply.code < 500 || matches!(reply.code, 501 | 504),
                "{said}: {} {}",
                reply.code,
                reply.text("/message")
            );
            if reply.code >= 400 || reads {
                assert_eq!(cluster.store().revision(), before, "{said}: {}", reply.code);
            }
            if reply.code >= 400 && !head && reply.text("/kind") == "Status" {
                assert_eq!(reply.json()["code"], reply.code, "{said}");
                refused += 1;
            }
        }
        assert!(refused > REQUESTS / 10, "only {refused} refusals were Statuses");
    });
}
