//! The metrics page: it follows the exposition format, and its values follow the requests served.

use bytes::Bytes;
use http_body_util::Full;
use kstore_tests::{Cluster, Rest, Setup, manifests, simulate};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// One sample: labels without `le`, the bucket's bound, the value.
type Sample = (String, Option<f64>, f64);

/// Families of a page by name: type, and samples by their full name.
type Families = BTreeMap<String, (String, BTreeMap<String, Vec<Sample>>)>;

async fn page(rest: &Rest) -> String {
    let reply = rest.call("GET", "/metrics", "").await;
    assert_eq!(reply.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    String::from_utf8(reply.body.to_vec()).unwrap()
}

/// Parses a page as strictly as Prometheus' own checker: every family is described before its samples and is
/// contiguous.
fn families(text: &str) -> Families {
    let mut out = Families::new();
    let (mut helped, mut current, mut seen) = (BTreeSet::new(), String::new(), BTreeSet::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or_else(|| panic!("no help: {line}"));
            assert!(!help.is_empty() && helped.insert(name.to_owned()), "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(helped.contains(name), "described after its type: {line}");
            assert!(["counter", "gauge", "histogram", "summary"].contains(&kind), "{line}");
            let new = out.insert(name.to_owned(), (kind.to_owned(), BTreeMap::new())).is_none();
            assert!(new, "a family in two pieces: {name}");
            name.clone_into(&mut current);
        } else {
            let (name, sample) = sample(line);
            assert!(
                seen.insert((name.clone(), sample.0.clone(), sample.1.map(f64::to_bits))),
                "twice: {line}"
            );
            let (kind, samples) = out.get_mut(&current).unwrap_or_else(|| panic!("no family: {line}"));
            let suffix =
                name.strip_prefix(current.as_str()).unwrap_or_else(|| panic!("{line} within {current}"));
            let fits = match kind.as_str() {
                "histogram" => ["_bucket", "_sum", "_count"].contains(&suffix),
                _ => suffix.is_empty(),
            };
            assert!(fits, "{line} is no sample of the {kind} {current}");
            samples.entry(name).or_default().push(sample);
        }
    }
    out
}

fn sample(line: &str) -> (String, Sample) {
    let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
    let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    assert!(!name.is_empty() && name.chars().all(legal), "{line}");
    let labels = labels.strip_suffix('}').unwrap_or_else(|| panic!("no end of labels: {line}"));
    let (mut bound, mut others, mut names) = (None, Vec::new(), BTreeSet::new());
    for pair in labels.split("\",").filter(|pair| !pair.is_empty()) {
        let (label, value) = pair.split_once("=\"").unwrap_or_else(|| panic!("bad label: {line}"));
        assert!(label.chars().all(legal) && names.insert(label), "{line}");
        match label {
            "le" => bound = Some(value.trim_end_matches('"').parse().unwrap()),
            _ => others.push(pair),
        }
    }
    (name.to_owned(), (others.join(","), bound, value))
}

/// Checks that buckets ascend to the count, which equals the infinite bucket.
fn check_histogram(name: &str, samples: &BTreeMap<String, Vec<Sample>>) {
    let of = |suffix: &str| samples.get(&format!("{name}{suffix}")).cloned().unwrap_or_default();
    let mut series: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for (labels, bound, value) in of("_bucket") {
        series.entry(labels).or_default().push((bound.unwrap_or_else(|| panic!("{name} without le")), value));
    }
    let counts = of("_count");
    assert_eq!((counts.len(), of("_sum").len()), (series.len(), series.len()), "{name}");
    for (labels, _, count) in counts {
        let buckets = &series[labels.strip_suffix('"').unwrap_or(&labels)];
        assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{name}{{{labels}}}");
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, count)), "{name}{{{labels}}}");
    }
}

/// Sends requests over REST and gRPC.
async fn some_traffic(cluster: &Cluster) {
    let rest = cluster.rest();
    cluster.create(manifests::config_map("a", "1")).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let create = json!({"metadata": {"name": "b"}}).to_string();
    assert_eq!(rest.call("POST", maps, create.clone()).await.code, 201);
    assert_eq!(
        rest.call("POST", &format!("{maps}?dryRun=All"), json!({"metadata": {"name": "c"}}).to_string())
            .await
            .code,
        201
    );
    assert_eq!(rest.call("POST", maps, create).await.code, 409);
    assert_eq!(rest.call("GET", &format!("{maps}/b"), "").await.code, 200);
    assert_eq!(rest.call("GET", &format!("{maps}/none"), "").await.code, 404);
    assert_eq!(rest.call("GET", maps, "").await.code, 200);
    let watch = rest.call("GET", &format!("{maps}?watch=true&timeoutSeconds=1"), "").await;
    assert!(watch.body.iter().filter(|byte| **byte == b'\n').count() > 1);
    assert_eq!(rest.call("GET", "/readyz", "").await.code, 200);
}

#[test]
fn the_metrics_page_is_valid_exposition_format() {
    simulate(Setup::seed(1), async |cluster| {
        some_traffic(cluster).await;
        let families = families(&page(&cluster.rest()).await);
        for (name, (kind, samples)) in &families {
            if kind == "histogram" {
                check_histogram(name, samples);
            }
            // Names that Kubernetes chose before the naming rule.
            let old = [
                "authentication_attempts",
                "authenticated_user_requests",
                "apiserver_admission_webhook_rejection_count",
                "apiserver_admission_webhook_fail_open_count",
            ];
            let total = name.ends_with("_total") || old.contains(&name.as_str());
            assert_eq!(kind == "counter", total, "{name} is a {kind}");
        }
    });
}

#[test]
fn metrics_that_dashboards_query_exist() {
    simulate(Setup::api_alone(), async |cluster| {
        some_traffic(cluster).await;
        let page = page(&cluster.rest()).await;
        let of = |verb: &str, scope: &str| {
            format!(
                "verb=\"{verb}\",group=\"\",version=\"v1\",resource=\"configmaps\",subresource=\"\",scope=\"{scope}\",component=\"apiserver\""
            )
        };
        let post = of("POST", "resource");
        for wanted in [
            format!("apiserver_request_total{{{post},dry_run=\"\",code=\"201\"}} 2\n"),
            format!("apiserver_request_total{{{post},dry_run=\"\",code=\"409\"}} 1\n"),
            format!("apiserver_request_total{{{post},dry_run=\"All\",code=\"201\"}} 1\n"),
            format!("apiserver_request_total{{{},dry_run=\"\",code=\"404\"}} 1\n", of("GET", "resource")),
            format!("apiserver_request_total{{{},dry_run=\"\",code=\"200\"}} 1\n", of("LIST", "namespace")),
            format!("apiserver_request_duration_seconds_count{{{post},dry_run=\"\"}} 3\n"),
            format!("apiserver_request_sli_duration_seconds_bucket{{{post},le=\"1\"}} 4\n"),
            format!("apiserver_response_sizes_count{{{post}}} 3\n"),
            format!("apiserver_longrunning_requests{{{}}} 0\n", of("WATCH", "namespace")),
            "apiserver_watch_events_total{group=\"\",version=\"v1\",resource=\"configmaps\"} ".into(),
            "apiserver_request_body_size_bytes_count{group=\"\",resource=\"configmaps\",verb=\"POST\"} 3\n".into(),
            "apiserver_current_inflight_requests{request_kind=\"readOnly\"} 1\n".into(),
            "apiserver_current_inqueue_requests{request_kind=\"mutating\"} 0\n".into(),
            "apiserver_storage_objects{resource=\"configmaps\"} ".into(),
            "etcd_request_duration_seconds_count{operation=\"create\",group=\"\",resource=\"configmaps\"} ".into(),
            "apiserver_admission_step_admission_duration_seconds_count{type=\"validate\",operation=\"CREATE\",rejected=\"false\"} ".into(),
            "apiserver_admission_controller_admission_duration_seconds_count{name=\"NamespaceLifecycle\",type=\"admit\",".into(),
            "authentication_attempts{result=\"success\"} ".into(),
            "authorization_attempts_total{result=\"allowed\"} ".into(),
            "apiserver_watch_cache_read_wait_seconds_count{group=\"\",resource=\"configmaps\"} ".into(),
            "verb=\"GET\",group=\"\",version=\"\",resource=\"\",subresource=\"/readyz\",scope=\"\",component=\"apiserver\",dry_run=\"\",code=\"200\"} 1\n".into(),
            "kubernetes_build_info{".into(),
            "process_resident_memory_bytes ".into(),
        ] {
            assert!(page.contains(&wanted), "{wanted} is not in\n{page}");
        }
    });
}

#[test]
fn openmetrics_is_served_on_request() {
    simulate(Setup::api_alone(), async |cluster| {
        // A counter that has counted nothing is not served.
        cluster.list("pods", "default").await;
        let accept =
            "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let request = http::Request::builder().uri("/metrics").header("accept", accept);
        let reply = cluster.rest().send(request.body(Full::<Bytes>::default()).unwrap()).await;
        assert_eq!(
            reply.headers["content-type"],
            "application/openmetrics-text; version=1.0.0; charset=utf-8"
        );
        let text = String::from_utf8(reply.body.to_vec()).unwrap();
        assert!(
            text.contains("# TYPE apiserver_request counter\napiserver_request_total{")
                && text.ends_with("\n# EOF\n")
        );
        assert!(text.contains("# TYPE authentication_attempts counter\nauthentication_attempts_total{"));
    });
}
