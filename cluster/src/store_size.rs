//! [`render`]: the size of the store as metrics.

use kstore_metrics_text::Page;
use kstore_store::StoreSize;

/// Appends the metrics of a store's size. The first one is kube-apiserver's, of whose label the value is that of its only etcd.
pub(crate) fn render(out: &mut String, size: StoreSize) {
    let mut page = Page::new(out);
    let name = "apiserver_storage_size_bytes";
    page.head(name, "gauge", "Size of the storage database file physically allocated in bytes.");
    page.line(name, &[("storage_cluster_id", "etcd-0")], size.allocated);
    page.gauge("kstore_storage_live_bytes", "Bytes of the current objects and of live history.", size.live);
    let help = "Bytes of the current objects, each with 256 bytes for its key.";
    page.gauge("kstore_storage_current_bytes", help, size.current);
    page.gauge("kstore_storage_log_bytes", "Bytes of the log's files.", size.log);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_gauges() {
        let mut page = String::new();
        render(&mut page, StoreSize { allocated: 3, live: 2, current: 4, log: 1 });
        let lines: Vec<&str> = page.lines().filter(|line| !line.starts_with('#')).collect();
        let allocated = "apiserver_storage_size_bytes{storage_cluster_id=\"etcd-0\"} 3";
        let stored =
            ["kstore_storage_live_bytes 2", "kstore_storage_current_bytes 4", "kstore_storage_log_bytes 1"];
        assert_eq!(lines, [&[allocated], &stored[..]].concat());
    }
}
