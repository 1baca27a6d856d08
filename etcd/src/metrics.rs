//! Metrics in Prometheus' text format, under etcd's names, which dashboards and tools expect. Metrics of etcd without a
//! counterpart in kstore are left out. The store and `calls` count.

use crate::calls::{CallCount, Calls};
use crate::node::{Node, VERSION};
use kstore_metrics_text::Page;
use kstore_store::{Histogram, MetricsSnapshot, Revision, StoreStatus};
use std::fmt;
use std::sync::Arc;
use tonic::Code;

/// Metrics of the surrounding program: a function that appends them to the page, in the text format 0.0.4.
#[derive(Clone)]
pub struct ExtraMetrics(Arc<dyn Fn(&mut String) + Send + Sync>);

impl ExtraMetrics {
    /// Metrics that `append` writes.
    pub fn new(append: impl Fn(&mut String) + Send + Sync + 'static) -> Self {
        Self(Arc::new(append))
    }
}

impl Default for ExtraMetrics {
    fn default() -> Self {
        Self::new(|_| {})
    }
}

impl fmt::Debug for ExtraMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExtraMetrics")
    }
}

/// Writes the whole metrics page.
pub(crate) fn text(node: &Node, calls: &Calls, more: &ExtraMetrics) -> String {
    let mut text = String::new();
    let mut page = Page::new(&mut text);
    let (status, metrics) = (node.store.status(), node.store.metrics());
    member(&mut page, node);
    server(&mut page, &status, &metrics);
    disk(&mut page, &status, &metrics);
    history(&mut page, &status, &metrics);
    watches(&mut page, node.watch_streams(), &metrics);
    leases(&mut page, &metrics);
    grpc(&mut page, &calls.counts());
    process(&mut page);
    (more.0)(&mut text);
    text
}

fn member(page: &mut Page<'_>, node: &Node) {
    page.gauge("etcd_server_has_leader", "Whether a leader exists.", 1);
    page.gauge("etcd_server_is_leader", "Whether this member is the leader.", 1);
    page.gauge("etcd_server_is_learner", "Whether this member is a learner.", 0);
    page.counter("etcd_server_leader_changes_seen_total", "Changes of the leader.", 1);
    page.head("etcd_server_id", "gauge", "This member.");
    page.line("etcd_server_id", &[("server_id", &format!("{:x}", node.member))], 1);
    page.head("etcd_server_version", "gauge", "The version whose API is served.");
    page.line("etcd_server_version", &[("server_version", VERSION)], 1);
}

fn server(page: &mut Page<'_>, status: &StoreStatus, metrics: &MetricsSnapshot) {
    page.counter("etcd_server_proposals_committed_total", "Commits in the log.", status.seq);
    page.counter("etcd_server_proposals_applied_total", "Commits visible to readers.", status.seq);
    page.gauge(
        "etcd_server_proposals_pending",
        "Writes that wait for their answer.",
        metrics.requests_pending,
    );
    page.counter(
        "etcd_server_proposals_failed_total",
        "Writes refused because the queue was full.",
        metrics.busy,
    );
    let quota = status.quota.unwrap_or(0);
    page.gauge("etcd_server_quota_backend_bytes", "Bytes of data that may be stored; 0 is unlimited.", quota);
}

fn disk(page: &mut Page<'_>, status: &StoreStatus, metrics: &MetricsSnapshot) {
    page.gauge("etcd_mvcc_db_total_size_in_bytes", "Bytes allocated for the history.", status.size.allocated);
    page.gauge("etcd_mvcc_db_total_size_in_use_in_bytes", "Bytes of live history.", status.size.live);
    durations(page, "etcd_disk_wal_fsync_duration_seconds", "Duration of log syncs.", &metrics.log_sync_time);
    durations(
        page,
        "etcd_disk_backend_commit_duration_seconds",
        "Duration of checkpoints of the engine.",
        &metrics.checkpoint_time,
    );
    page.counter("etcd_disk_wal_write_bytes_total", "Bytes written to the log.", metrics.log_bytes);
    page.counter("kstore_wal_groups_total", "Writes to the log, one per group of changes.", metrics.groups);
    page.counter("kstore_wal_syncs_total", "Syncs of the log.", metrics.syncs);
    page.counter("kstore_checkpoints_total", "Checkpoints of the engine.", metrics.checkpoints);
    page.counter("kstore_engine_reads_total", "Versions read from the engine.", metrics.engine_reads);
    page.counter(
        "kstore_records_healed_total",
        "Damaged records of the history that were restored from a copy.",
        metrics.records_healed,
    );
    page.gauge(
        "kstore_records_damaged",
        "Damaged records without an intact copy: reads of them fail.",
        metrics.records_damaged,
    );
    page.gauge(
        "kstore_engine_failed",
        "1 if the history engine failed and the log grows until a restart, else 0.",
        metrics.engine_failed,
    );
    page.gauge(
        "kstore_pending_bytes",
        "Bytes of changes in the log that are not in the engine yet.",
        metrics.pending_bytes,
    );
}

/// Writes a histogram of the store, in seconds.
fn durations(page: &mut Page<'_>, name: &str, help: &str, measured: &Histogram) {
    let buckets = measured.buckets.iter().enumerate().scan(0, |total, (bucket, count)| {
        *total += count;
        Some((Histogram::bound(bucket).as_secs_f64(), *total))
    });
    // A concurrent measurement may be in a bucket but not in the count yet.
    let count = measured.count.max(measured.buckets.iter().sum());
    page.head(name, "histogram", help);
    page.histogram(name, &[], buckets.chain([(f64::INFINITY, count)]), measured.sum.as_secs_f64());
}

fn history(page: &mut Page<'_>, status: &StoreStatus, metrics: &MetricsSnapshot) {
    page.counter("etcd_mvcc_range_total", "Reads.", metrics.ranges);
    page.counter("etcd_mvcc_put_total", "Puts.", metrics.puts);
    page.counter("etcd_mvcc_delete_total", "Deletions.", metrics.deletes);
    page.counter("etcd_mvcc_txn_total", "Transactions.", metrics.txns);
    page.gauge("etcd_debugging_mvcc_keys_total", "Keys that exist.", metrics.keys);
    page.gauge("etcd_debugging_mvcc_current_revision", "The newest revision.", status.revision);
    let compacted = status.compacted.max(Revision(0));
    page.gauge("etcd_debugging_mvcc_compact_revision", "The revision of the last compaction.", compacted);
    page.counter(
        "etcd_debugging_mvcc_db_compaction_keys_total",
        "Versions removed by compaction.",
        metrics.compacted_versions,
    );
}

/// Watch metrics. They include watches of this process that were not created through this API.
fn watches(page: &mut Page<'_>, streams: usize, metrics: &MetricsSnapshot) {
    page.gauge("etcd_debugging_mvcc_watch_stream_total", "Watch streams.", streams);
    page.gauge("etcd_debugging_mvcc_watcher_total", "Watches.", metrics.watchers);
    page.gauge(
        "etcd_debugging_mvcc_slow_watcher_total",
        "Lagging watches, which read history.",
        metrics.watchers_behind,
    );
    page.gauge(
        "etcd_debugging_mvcc_pending_events_total",
        "Events queued for watches.",
        metrics.events_pending,
    );
    page.counter(
        "etcd_debugging_mvcc_events_total",
        "Events delivered to watches.",
        metrics.events_delivered,
    );
    page.counter(
        "kstore_watches_lagged_total",
        "Times a watch exceeded its queue and switched to history.",
        metrics.watchers_lagged,
    );
}

fn leases(page: &mut Page<'_>, metrics: &MetricsSnapshot) {
    page.counter("etcd_debugging_lease_granted_total", "Leases granted.", metrics.leases_granted);
    page.counter("etcd_debugging_lease_revoked_total", "Leases revoked or expired.", metrics.leases_revoked);
    page.counter("etcd_debugging_lease_renewed_total", "Renewals of leases.", metrics.leases_renewed);
    page.counter("etcd_debugging_server_lease_expired_total", "Leases that expired.", metrics.leases_expired);
}

fn grpc(page: &mut Page<'_>, calls: &[CallCount]) {
    let labels = |call: &CallCount| {
        [("grpc_method", call.method), ("grpc_service", call.service), ("grpc_type", call.kind)]
    };
    let name = "grpc_server_started_total";
    page.head(name, "counter", "Calls that began.");
    for call in calls.iter().filter(|call| call.ended.is_none()) {
        page.line(name, &labels(call), call.count);
    }
    let name = "grpc_server_handled_total";
    page.head(name, "counter", "Calls that ended, streams not counted.");
    for call in calls {
        if let Some(code) = call.ended {
            let [method, service, kind] = labels(call);
            page.line(name, &[("grpc_code", code_name(code)), method, service, kind], call.count);
        }
    }
}

/// grpc-go's name of a code.
fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

/// Memory and CPU metrics of the process, where the system provides them.
fn process(page: &mut Page<'_>) {
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        let kib = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field))?;
            line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()
        };
        if let Some(resident) = kib("VmRSS:") {
            page.gauge("process_resident_memory_bytes", "Memory in use.", resident << 10);
        }
        if let Some(virtual_size) = kib("VmSize:") {
            page.gauge("process_virtual_memory_bytes", "Address space in use.", virtual_size << 10);
        }
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        page.gauge("process_open_fds", "Open files.", files.count());
    }
}
