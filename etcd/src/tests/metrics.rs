//! Tests of the metrics page, parsed like a scraper does.

use super::*;
use std::collections::BTreeMap;

/// Metrics that dashboards for etcd use, with the type that each must have.
const NAMES: &[(&str, &str)] = &[
    ("etcd_debugging_lease_granted_total", "counter"),
    ("etcd_debugging_lease_renewed_total", "counter"),
    ("etcd_debugging_lease_revoked_total", "counter"),
    ("etcd_debugging_mvcc_compact_revision", "gauge"),
    ("etcd_debugging_mvcc_current_revision", "gauge"),
    ("etcd_debugging_mvcc_events_total", "counter"),
    ("etcd_debugging_mvcc_keys_total", "gauge"),
    ("etcd_debugging_mvcc_pending_events_total", "gauge"),
    ("etcd_debugging_mvcc_slow_watcher_total", "gauge"),
    ("etcd_debugging_mvcc_watch_stream_total", "gauge"),
    ("etcd_debugging_mvcc_watcher_total", "gauge"),
    ("etcd_debugging_server_lease_expired_total", "counter"),
    ("etcd_disk_backend_commit_duration_seconds", "histogram"),
    ("etcd_disk_wal_fsync_duration_seconds", "histogram"),
    ("etcd_mvcc_db_total_size_in_bytes", "gauge"),
    ("etcd_mvcc_db_total_size_in_use_in_bytes", "gauge"),
    ("etcd_mvcc_delete_total", "counter"),
    ("etcd_mvcc_put_total", "counter"),
    ("etcd_mvcc_range_total", "counter"),
    ("etcd_mvcc_txn_total", "counter"),
    ("etcd_server_has_leader", "gauge"),
    ("etcd_server_is_leader", "gauge"),
    ("etcd_server_proposals_applied_total", "counter"),
    ("etcd_server_proposals_committed_total", "counter"),
    ("etcd_server_proposals_failed_total", "counter"),
    ("etcd_server_proposals_pending", "gauge"),
    ("grpc_server_handled_total", "counter"),
];

/// A metric family.
#[derive(Default)]
struct Family {
    kind: String,
    /// Name with labels, and value, in the page's order.
    samples: Vec<(String, f64)>,
}

/// Parses the page into families. Panics on what a scraper would refuse: a sample outside of its family, a repeated
/// family, a family without help or type.
fn parse(page: &str) -> BTreeMap<String, Family> {
    let mut families = BTreeMap::<String, Family>::new();
    let (mut current, mut helped) = (String::new(), String::new());
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            help.split_once(' ').unwrap().0.clone_into(&mut helped);
        } else if let Some(head) = line.strip_prefix("# TYPE ") {
            let (name, kind) = head.split_once(' ').unwrap();
            assert_eq!(helped, name, "help comes before the type");
            name.clone_into(&mut current);
            let family = Family { kind: kind.to_owned(), samples: Vec::new() };
            assert!(families.insert(current.clone(), family).is_none(), "{name} twice");
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let family = families.get_mut(&current).unwrap();
            let name = series.split('{').next().unwrap();
            let end = name.strip_prefix(&current).unwrap_or("of another family");
            let allowed: &[&str] =
                if family.kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(allowed.contains(&end), "{line} in {current}");
            family.samples.push((series.to_owned(), value.parse().unwrap()));
        }
    }
    families
}

async fn families(server: &Server) -> BTreeMap<String, Family> {
    let answer = transport::page(server, "GET /metrics").await;
    parse(answer.split_once("\r\n\r\n").unwrap().1)
}

fn value(families: &BTreeMap<String, Family>, name: &str) -> f64 {
    families[name].samples[0].1
}

#[tokio::test]
async fn every_metric_of_etcd_dashboards_exists_with_its_type() {
    let server = Server::start().await;
    let families = families(&server).await;
    for (name, kind) in NAMES {
        let family = families.get(*name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(family.kind, *kind, "{name}");
        // No call was made yet.
        assert!(!family.samples.is_empty() || name.starts_with("grpc_"), "{name} has no sample");
    }
}

#[tokio::test]
async fn metrics_count_operations() {
    let server = Server::start().await;
    server.put("a", "1").await;
    server.put("a", "2").await;
    server.put("b", "1").await;
    server.kv().delete_range(delete("b", "")).await.unwrap();
    let (mut watches, requests) = super::watch::open(&server).await;
    super::watch::create(&requests, super::watch::on("a")).await;
    super::watch::create(&requests, super::watch::on("b")).await;
    for _ in 0..2 {
        assert!(watches.message().await.unwrap().unwrap().created);
    }
    for id in [7, 8] {
        server.lease().lease_grant(pb::LeaseGrantRequest { ttl: 60, id }).await.unwrap();
    }
    server.lease().lease_revoke(pb::LeaseRevokeRequest { id: 7 }).await.unwrap();
    let now = families(&server).await;
    for (name, expected) in [
        ("etcd_debugging_mvcc_keys_total", 1.0),
        ("etcd_debugging_mvcc_current_revision", 5.0),
        ("etcd_debugging_mvcc_watch_stream_total", 1.0),
        ("etcd_debugging_mvcc_watcher_total", 2.0),
        ("etcd_debugging_mvcc_slow_watcher_total", 0.0),
        ("etcd_debugging_mvcc_pending_events_total", 0.0),
        ("etcd_debugging_lease_granted_total", 2.0),
        ("etcd_debugging_lease_revoked_total", 1.0),
        ("etcd_debugging_server_lease_expired_total", 0.0),
        ("etcd_server_proposals_pending", 0.0),
        ("etcd_mvcc_put_total", 3.0),
        ("etcd_mvcc_delete_total", 1.0),
    ] {
        assert_eq!(value(&now, name), expected, "{name}");
    }
    assert!(
        now["grpc_server_handled_total"].samples.iter().any(|(series, count)| {
            series.contains(r#"grpc_code="OK",grpc_method="Put""#) && *count == 3.0
        })
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn syncs_and_checkpoints_of_a_store_on_disk_fill_the_histograms() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::with(Config::durable(folder.path())).await;
    server.put("a", "1").await;
    // Defragmentation ends with a checkpoint.
    server.maintenance().defragment(pb::DefragmentRequest {}).await.unwrap();
    let families = families(&server).await;
    for name in ["etcd_disk_wal_fsync_duration_seconds", "etcd_disk_backend_commit_duration_seconds"] {
        let samples = &families[name].samples;
        let [buckets @ .., sum, count] = &samples[..] else { panic!("{name} has no samples") };
        assert_eq!(buckets[0].0, format!(r#"{name}_bucket{{le="0.001"}}"#));
        assert_eq!(buckets[13].0, format!(r#"{name}_bucket{{le="8.192"}}"#));
        assert_eq!(buckets[14], (format!(r#"{name}_bucket{{le="+Inf"}}"#), count.1));
        assert!(buckets.is_sorted_by_key(|(_, count)| *count), "{buckets:?}");
        assert!(count.1 >= 1.0 && sum.1 > 0.0, "{samples:?}");
    }
}
