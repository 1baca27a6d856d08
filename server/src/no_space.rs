//! What an operator does about a store without space: the store's own reason, with the commands that end the alarm.

use kstore_store::NoSpaceReason;
use std::path::Path;

/// The reason, followed by the commands.
pub(crate) fn explain(reason: &NoSpaceReason) -> String {
    let offline = |dir: &Path| format!("`kstore-server store alarm disarm --data-dir {}`", dir.display());
    match reason {
        NoSpaceReason::LowDisk { dir, .. } => {
            format!("{reason} (if not, stop the server and run {})", offline(dir))
        }
        NoSpaceReason::Quota { .. } => format!("{reason}, as they do with a larger `--quota-bytes`"),
        NoSpaceReason::Raised { dir: Some(dir), .. } => format!(
            "{reason} with `etcdctl alarm disarm` or, while the server is stopped, with {}",
            offline(dir)
        ),
        NoSpaceReason::Raised { dir: None, .. } => format!("{reason} with `etcdctl alarm disarm`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_followed_by_the_commands_that_end_the_alarm() {
        let offline = "`kstore-server store alarm disarm --data-dir /data`";
        let low = NoSpaceReason::LowDisk { dir: "/data".into(), free: 1 << 20, least: 2 << 20 };
        let expected = format!(
            "the file system of /data has 1 MiB free, less than the 2 MiB that kstore needs to write: free some space; \
             writes go on by themselves once there is enough (if not, stop the server and run {offline})"
        );
        assert_eq!(explain(&low), expected);
        let raised = NoSpaceReason::Raised { dir: Some("/data".into()), used: 5, quota: Some(4) };
        let expected = format!(
            "the space alarm is raised (5 bytes of data, the quota is 4 bytes): delete and compact, then disarm it with \
             `etcdctl alarm disarm` or, while the server is stopped, with {offline}"
        );
        assert_eq!(explain(&raised), expected);
        let full = NoSpaceReason::Quota { used: 5 << 20, quota: 4 << 20 };
        let expected = "the write does not fit: the data have 5 MiB, history not counted, and the quota is 4 MiB; delete something, \
                        and writes go on by themselves, as they do with a larger `--quota-bytes`";
        assert_eq!(explain(&full), expected);
        let in_memory = NoSpaceReason::Raised { dir: None, used: 5, quota: None };
        assert!(explain(&in_memory).ends_with("then disarm it with `etcdctl alarm disarm`"));
    }
}
