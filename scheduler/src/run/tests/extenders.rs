//! Tests of the loop with extenders: real servers, over HTTP and HTTPS.

use super::*;
use crate::configuration::Configuration;
use crate::plugins::Registry;
use crate::run::test_extender::{Reply, TestExtender};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

/// What an extender does, and the beginning of the message about it. `BASE` is its URL without the last slash.
type Case = (fn() -> Reply, &'static str);

/// The configuration of a scheduler with extenders: the items of the list, as YAML.
fn with_extenders(items: &[String]) -> Config {
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders:";
    let text = format!("{head}\n{}", items.concat());
    Configuration::parse(&text, &Registry::in_tree()).unwrap_or_else(|error| panic!("{text}\n{error}")).into()
}

fn item(server: &TestExtender, more: &str) -> String {
    format!("- {{urlPrefix: 'http://{}/scheduler/', {more}}}\n", server.address())
}

fn cluster(nodes: &[&str]) -> Fake {
    let fake = Fake::default();
    for name in nodes {
        fake.put("nodes", node(name, "4"));
    }
    fake
}

/// The reason and the message of a pod's condition.
fn condition(fake: &Fake, pod: &str) -> (String, String) {
    let condition = fake.get("pods", &format!("ns/{pod}"))["status"]["conditions"][0].clone();
    let text = |name: &str| condition[name].as_str().unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

#[tokio::test(start_paused = true)]
async fn extenders_filter_and_score_after_the_plugins() {
    let server = TestExtender::start(|verb, document| match verb {
        "filter" => Reply::Json(json!({
            "nodenames": ["n2", "n3"], "failedNodes": { "n1": "no license" }, "unknown": [1],
        })),
        "prioritize" => {
            assert_eq!(document["NodeNames"], json!(["n2", "n3"]));
            Reply::Json(json!([{ "Host": "n3", "Score": 10 }, { "Host": "nowhere", "Score": 99 }]))
        }
        other => panic!("{other}"),
    });
    let config = with_extenders(&[item(
        &server,
        "filterVerb: filter, prioritizeVerb: prioritize, weight: 5, nodeCacheCapable: true",
    )]);
    let fake = cluster(&["n1", "n2", "n3"]);
    for name in ["a", "b"] {
        fake.put("pods", pod(name, "1"));
    }
    let running = start_with(&fake, 1, config);
    running.settle().await;
    assert_eq!(
        [running.node_of("a"), running.node_of("b")],
        ["n3", "n3"],
        "50 points are more than the plugins' difference"
    );
    let [first, _] = &server.sent("filter")[..] else { panic!("{:?}", server.requests()) };
    assert_eq!((&first["Pod"]["metadata"]["uid"], &first["Nodes"]), (&json!("uid-a"), &json!(null)));
    let mut names: Vec<_> =
        first["NodeNames"].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["n1", "n2", "n3"]);
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_extender_without_a_cache_gets_and_returns_objects() {
    let server = TestExtender::start(|_, document| {
        let items = document["Nodes"]["items"].as_array().unwrap();
        assert!(
            document["NodeNames"].is_null()
                && items.iter().all(|node| node["status"]["allocatable"]["cpu"] == "4")
        );
        let kept: Vec<_> = items.iter().filter(|node| node["metadata"]["name"] == "n2").collect();
        Reply::Json(json!({ "Nodes": { "items": kept }, "NodeNames": ["n1"] }))
    });
    let fake = cluster(&["n1", "n2"]);
    fake.put("pods", pod("a", "1"));
    let running = start_with(&fake, 1, with_extenders(&[item(&server, "filterVerb: f")]));
    running.settle().await;
    assert_eq!(running.node_of("a"), "n2");
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_an_extender_refuses_everywhere_waits_for_any_event() {
    let server = TestExtender::start(|_, document| {
        let names = document["NodeNames"].as_array().unwrap();
        match names.iter().any(|name| name == "n3") {
            true => Reply::Json(json!({ "NodeNames": ["n3"] })),
            false => Reply::Json(json!({
                "FailedNodes": { "n1": "no license", "n2": "broken" }, "FailedAndUnresolvableNodes": { "n2": "no card" },
            })),
        }
    });
    let config = with_extenders(&[item(&server, "filterVerb: filter, nodeCacheCapable: true")]);
    let fake = cluster(&["n1", "n2"]);
    fake.put("pods", pod("a", "1"));
    let running = start_with(&fake, 1, config);
    running.settle().await;
    let (reason, message) = condition(&fake, "a");
    assert_eq!(
        (reason.as_str(), message.as_str()),
        (
            "Unschedulable",
            "0/2 nodes are available: 1 no card, 1 no license. no new claims to deallocate, preemption: 0/2 nodes are available: \
             1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
        )
    );
    fake.put("nodes", node("n3", "4"));
    running.settle().await;
    assert_eq!(running.node_of("a"), "n3");
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn failures_of_an_extender_are_errors_of_the_pod_and_end_within_their_bounds() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let cases: [Case; 8] = [
        (|| Reply::Text(500, "broken"), "failed filter with extender at URL BASE/filter, code 500"),
        (|| Reply::Json(json!({ "Error": "no database" })), "no database"),
        (
            || Reply::Text(200, "{"),
            "cannot read the answer of extender at URL BASE/filter: EOF while parsing",
        ),
        (
            || Reply::Json(json!([])),
            "cannot read the answer of extender at URL BASE/filter: invalid type: sequence",
        ),
        (
            || Reply::Json(json!({ "NodeNames": ["n7"] })),
            "extender \"BASE/\" claims a filtered node \"n7\" which is not found in the input node list",
        ),
        (|| Reply::Close, "Post \"BASE/filter\": EOF"),
        (|| Reply::Silence, "Post \"BASE/filter\": context deadline exceeded (Client.Timeout exceeded"),
        (|| Reply::Flood, "Post \"BASE/filter\": the answer has more than 67108864 bytes"),
    ];
    for (reply, expected) in cases {
        let server = TestExtender::start(move |_, _| reply());
        // The time for 64 MiB; the case without an answer has to wait for all of it.
        let timeout = if expected.contains("deadline") { "50ms" } else { "60s" };
        let more = format!("filterVerb: filter, nodeCacheCapable: true, httpTimeout: {timeout}");
        let fake = cluster(&["n1"]);
        fake.put("pods", pod("a", "1"));
        let running = start_with(&fake, 1, with_extenders(&[item(&server, &more)]));
        running.settle().await;
        let (reason, message) = condition(&fake, "a");
        let expected = expected.replace("BASE", &format!("http://{}/scheduler", server.address()));
        assert!(message.starts_with(&expected), "{message} instead of {expected}");
        assert_eq!(reason, "SchedulerError");
        assert!(fake.binds().is_empty(), "a pod is not bound without the extender");
        running.end().await;
    }
    let gone = format!("- {{urlPrefix: 'http://{closed}', filterVerb: filter}}\n");
    let fake = cluster(&["n1"]);
    fake.put("pods", pod("a", "1"));
    let running = start_with(&fake, 1, with_extenders(&[gone]));
    running.settle().await;
    let refused = format!("Post \"http://{closed}/filter\": dial tcp {closed}: connect: connection refused");
    assert_eq!(condition(&fake, "a").1, refused);
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_ignorable_extender_that_fails_is_skipped_and_scores_never_fail() {
    let broken = TestExtender::start(|_, _| Reply::Text(503, "later"));
    let choosing = TestExtender::start(|_, _| Reply::Json(json!({ "NodeNames": ["n2"] })));
    let config = with_extenders(&[
        item(&broken, "filterVerb: filter, ignorable: true, nodeCacheCapable: true"),
        item(&broken, "prioritizeVerb: score, weight: 1, nodeCacheCapable: true"),
        item(&choosing, "filterVerb: filter, nodeCacheCapable: true"),
    ]);
    let fake = cluster(&["n1", "n2"]);
    fake.put("pods", pod("a", "1"));
    let running = start_with(&fake, 1, config);
    running.settle().await;
    assert_eq!(running.node_of("a"), "n2");
    assert_eq!(broken.sent("filter")[0]["NodeNames"], json!(["n2"]), "ignorable extenders are asked last");
    assert_eq!(broken.sent("score").len(), 0, "one node needs no scores");
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_extender_is_asked_for_pods_with_its_resources_only_which_the_scheduler_may_ignore() {
    let server = TestExtender::start(|_, _| Reply::Json(json!({ "NodeNames": ["n2"] })));
    let managed = "managedResources: [{name: example.com/fpga, ignoredByScheduler: true}]";
    let config =
        with_extenders(&[item(&server, &format!("filterVerb: f, nodeCacheCapable: true, {managed}"))]);
    let fake = cluster(&["n1", "n2"]);
    fake.put("pods", pod("plain", "1"));
    let mut fpga = pod("fpga", "1");
    fpga["spec"]["containers"][0]["resources"] = json!({
        "requests": { "example.com/fpga": "1" }, "limits": { "example.com/fpga": "1" },
    });
    fake.put("pods", fpga);
    let running = start_with(&fake, 1, config);
    running.settle().await;
    assert_eq!(running.node_of("fpga"), "n2", "no node has the resource");
    assert!(!running.node_of("plain").is_null());
    assert_eq!(server.requests().len(), 1);
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_extender_binds_pods_or_says_why_not() {
    let fake = cluster(&["n1"]);
    let api = fake.clone();
    let server = TestExtender::start(move |verb, document| {
        assert_eq!((verb, &document["Node"]), ("bind", &json!("n1")));
        let key = format!(
            "{}/{}",
            document["PodNamespace"].as_str().unwrap(),
            document["PodName"].as_str().unwrap()
        );
        let mut pod = api.get("pods", &key);
        assert_eq!(document["PodUID"], pod["metadata"]["uid"]);
        if key == "ns/bad" {
            return Reply::Json(json!({ "Error": "no quota" }));
        }
        pod["spec"]["nodeName"] = document["Node"].clone();
        api.put("pods", pod);
        Reply::Json(json!({}))
    });
    fake.put("pods", pod("a", "1"));
    fake.put("pods", pod("bad", "1"));
    let running = start_with(&fake, 1, with_extenders(&[item(&server, "bindVerb: bind")]));
    running.settle().await;
    assert_eq!(running.node_of("a"), "n1");
    assert!(fake.binds().is_empty(), "the scheduler itself binds nothing");
    assert_eq!(condition(&fake, "bad"), ("SchedulerError".to_owned(), "no quota".to_owned()));
    let events = fake.events();
    assert!(
        events.iter().any(|event| event.starts_with("Normal Scheduled Successfully assigned ns/a to n1")),
        "{events:?}"
    );
    running.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_extender_chooses_among_the_candidates_of_preemption() {
    for capable in [true, false] {
        let server = TestExtender::start(move |_, document| {
            let (given, other) = match capable {
                true => (&document["NodeNameToMetaVictims"], &document["NodeNameToVictims"]),
                false => (&document["NodeNameToVictims"], &document["NodeNameToMetaVictims"]),
            };
            assert!(other.is_null() && given["n1"]["NumPDBViolations"] == 0, "{document}");
            let victim = &given["n2"]["Pods"][0];
            let uid = if capable { &victim["UID"] } else { &victim["metadata"]["uid"] };
            Reply::Json(
                json!({ "NodeNameToMetaVictims": { "n2": { "Pods": [{ "UID": uid }], "NumPDBViolations": 0 } } }),
            )
        });
        let fake = cluster(&["n1", "n2"]);
        // The lower priority makes n1 the better candidate.
        for (name, node, priority) in [("v1", "n1", 0), ("v2", "n2", 1)] {
            let mut victim = pod(name, "4");
            (victim["spec"]["nodeName"], victim["spec"]["priority"]) = (node.into(), priority.into());
            fake.put("pods", victim);
        }
        let mut high = pod("high", "4");
        high["spec"]["priority"] = 5.into();
        fake.put("pods", high);
        let more = format!("preemptVerb: preempt, nodeCacheCapable: {capable}");
        let running = start_with(&fake, 1, with_extenders(&[item(&server, &more)]));
        running.settle().await;
        assert_eq!(fake.evictions().0, ["ns/v2"]);
        assert_eq!(running.node_of("high"), "n2");
        running.end().await;
    }
}

#[tokio::test(start_paused = true)]
async fn https_extenders_are_verified_if_there_is_an_authority() {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let another = generate_simple_self_signed(["localhost".to_owned()]).unwrap().cert.pem();
    let server_config = || {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        builder.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key).unwrap()
    };
    let data = |pem: &str| {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(pem)
    };
    for (tls, is_trusted) in [
        (format!("tlsConfig: {{caData: {}}}", data(&cert.pem())), true),
        (format!("tlsConfig: {{caData: {}}}", data(&another)), false),
        ("enableHTTPS: true".to_owned(), true),
        ("tlsConfig: {insecure: true}".to_owned(), true),
        (String::new(), false),
    ] {
        let server =
            TestExtender::start_tls(server_config(), |_, _| Reply::Json(json!({ "NodeNames": ["n1"] })));
        let port = server.address().port();
        let comma = if tls.is_empty() { "" } else { ", " };
        let text = format!(
            "- {{urlPrefix: 'https://localhost:{port}', filterVerb: f, nodeCacheCapable: true{comma}{tls}}}\n"
        );
        let fake = cluster(&["n1"]);
        fake.put("pods", pod("a", "1"));
        let running = start_with(&fake, 1, with_extenders(std::slice::from_ref(&text)));
        running.settle().await;
        assert_eq!(!running.node_of("a").is_null(), is_trusted, "{text} {:?}", condition(&fake, "a"));
        if !is_trusted {
            let (_, message) = condition(&fake, "a");
            assert!(message.starts_with(&format!("Post \"https://localhost:{port}/f\": tls: ")), "{message}");
        }
        running.end().await;
    }
}
