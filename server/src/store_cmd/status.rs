//! The status of a directory for people: sizes in binary units, objects by kind, and sentences instead of numbers where a
//! number needs to be explained. Pure.

use super::print;
use crate::data_version::DataVersion;
use kstore_store::Revision;
use kstore_store::maintenance::DirectoryStatus;
use std::collections::BTreeMap;
use std::path::Path;

/// Kinds that the table names; the others are summed up.
const KINDS: usize = 30;

/// Number of existing keys by kind, which is the beginning of their paths.
#[derive(Debug, Default)]
pub(super) struct KeyCounts(BTreeMap<String, u64>);

impl KeyCounts {
    pub(super) fn add(&mut self, key: &[u8]) {
        *self.0.entry(kind_of(key)).or_default() += 1;
    }
}

/// The kind in a Kubernetes key: `pods` of `/registry/pods/default/web`, and with the group of `/registry/GROUP/PLURAL/…`.
/// Another key has its first segment.
fn kind_of(key: &[u8]) -> String {
    let key = String::from_utf8_lossy(key);
    let mut segments = key.trim_start_matches('/').split('/');
    let first = segments.next().unwrap_or_default();
    if first != "registry" {
        return first.to_owned();
    }
    match (segments.next().unwrap_or_default(), segments.next()) {
        // Kubernetes stores these two below one folder.
        ("services", Some("specs")) => "services".to_owned(),
        ("services", Some("endpoints")) => "endpoints".to_owned(),
        (group, Some(plural)) if group.contains('.') => format!("{plural}.{group}"),
        (plural, _) => plural.to_owned(),
    }
}

/// A size in the largest binary unit in which it is at least one.
fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) if bytes >= 10 * unit => format!("{} {name}", bytes / unit),
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} bytes"),
    }
}

/// The rows of the table.
pub(super) fn table(
    dir: &Path,
    version: Option<&DataVersion>,
    status: &DirectoryStatus,
    kinds: &KeyCounts,
) -> String {
    let history = match status.compacted {
        compacted if compacted <= Revision::FIRST => "from the first revision".to_owned(),
        compacted if compacted == status.revision => "of the newest revision only".to_owned(),
        compacted => format!("from revision {compacted}"),
    };
    let alarms: Vec<_> = status.alarms.iter().map(|alarm| print::alarm(*alarm)).collect();
    let files = if status.log.files == 1 { "file" } else { "files" };
    let rows = [
        ("directory", dir.display().to_string()),
        ("kubernetes", version.map_or_else(|| "no version is recorded".to_owned(), DataVersion::described)),
        ("engine", status.engine.to_owned()),
        ("identity", format!("{:016x}", status.identity)),
        ("revision", status.revision.to_string()),
        ("history", history),
        (
            "data",
            format!("{} in {} versions of {} keys", size(status.record_bytes), status.records, status.keys),
        ),
        ("leases", status.leases.to_string()),
        ("alarms", if alarms.is_empty() { "none".to_owned() } else { alarms.join(", ") }),
        (
            "on disk",
            format!(
                "{} of history, {} of log in {} {files}",
                size(status.engine_bytes),
                size(status.log.bytes),
                status.log.files
            ),
        ),
    ];
    let mut text: String = rows.iter().map(|(name, value)| format!("{name:10}  {value}\n")).collect();
    let mut kinds: Vec<_> = kinds.0.iter().collect();
    kinds.sort_by_key(|(kind, count)| (std::cmp::Reverse(**count), *kind));
    let width = kinds.first().map_or(0, |(_, count)| count.to_string().len());
    if !kinds.is_empty() {
        text.push_str("objects\n");
    }
    for (kind, count) in kinds.iter().take(KINDS) {
        text.push_str(&format!("  {count:>width$}  {kind}\n"));
    }
    let others: u64 = kinds.iter().skip(KINDS).map(|(_, count)| **count).sum();
    if others > 0 {
        text.push_str(&format!("  {others:>width$}  of {} other kinds\n", kinds.len() - KINDS));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use kstore_store::maintenance::LogRange;

    #[test]
    fn the_status_is_a_table_for_people() {
        let mut status = DirectoryStatus {
            engine: "segments",
            identity: 7,
            revision: Revision(547),
            compacted: Revision::NEVER_COMPACTED,
            keys: 4,
            records: 547,
            record_bytes: 356_352,
            leases: 1,
            alarms: Vec::new(),
            checkpoint: 12,
            engine_bytes: 900,
            log: LogRange { first: 1, last: 547, files: 1, bytes: 64 << 20 },
        };
        let mut kinds = KeyCounts::default();
        for key in [
            "/registry/pods/default/a",
            "/registry/pods/default/b",
            "/registry/services/specs/default/kubernetes",
            "/registry/ex.io/widgets/default/w",
        ] {
            kinds.add(key.as_bytes());
        }
        let expected = "\
directory   data
kubernetes  1.34 with EnvFiles=false
engine      segments
identity    0000000000000007
revision    547
history     from the first revision
data        348 KiB in 547 versions of 4 keys
leases      1
alarms      none
on disk     900 bytes of history, 64 MiB of log in 1 file
objects
  2  pods
  1  services
  1  widgets.ex.io
";
        let version = DataVersion::parse("kubernetes 1.34\nfeature-gates EnvFiles=false\n");
        let shown = |status: &DirectoryStatus| table(Path::new("data"), version.as_ref(), status, &kinds);
        assert_eq!(shown(&status), expected);
        status.compacted = Revision(100);
        assert!(shown(&status).contains("history     from revision 100\n"));
        assert!(
            table(Path::new("data"), None, &status, &kinds).contains("kubernetes  no version is recorded\n")
        );
        assert_eq!([size(1536), size(5 << 30), size(20 << 30)], ["1.5 KiB", "5.0 GiB", "20 GiB"]);
        assert_eq!(kind_of(b"plain"), "plain");
    }
}
