//! What containers use by the list of all processes of the machine (`/proc`), for machines without control groups. The processes of a
//! container are those in its namespace of processes, commands that have entered it among them.

use crate::resources::ResourceUsage;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Unit of processor time in `/proc`: Linux shows hundredths of a second whatever its own clock is.
const TICK: Duration = Duration::from_millis(10);

/// The identity of a namespace of processes: where the link `ns/pid` of its processes leads.
pub(crate) type PidNamespace = PathBuf;

/// The namespace of a process of this machine; `None` if it has ended.
pub(crate) fn namespace_of(pid: i32) -> Option<PidNamespace> {
    std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok()
}

/// The usage of each of `namespaces` that has a process in `proc`, the folder `/proc`.
pub(crate) fn usage(proc: &Path, namespaces: &[PidNamespace]) -> BTreeMap<PidNamespace, ResourceUsage> {
    let mut all: BTreeMap<PidNamespace, ResourceUsage> = BTreeMap::new();
    for entry in std::fs::read_dir(proc).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(|first: char| first.is_ascii_digit()) {
            continue;
        }
        let process = entry.path();
        // Processes of other users have no link for this one, and one may end at any time.
        let Ok(namespace) = std::fs::read_link(process.join("ns/pid")) else { continue };
        if !namespaces.contains(&namespace) {
            continue;
        }
        let read = |name: &str| std::fs::read_to_string(process.join(name)).unwrap_or_default();
        let used = all.entry(namespace).or_default();
        used.memory += memory(&read("status"));
        used.cpu += processor_time(&read("stat"));
    }
    all
}

/// The memory of a process in bytes by its file `status`: what is not a copy of a file, in memory or swapped out. Processes that share it
/// since a fork count it each.
fn memory(status: &str) -> u64 {
    let kibibytes = |line: &str| {
        let rest = line.strip_prefix("RssAnon:").or(line.strip_prefix("VmSwap:"))?;
        rest.split_whitespace().next()?.parse::<u64>().ok()
    };
    status.lines().filter_map(kibibytes).sum::<u64>() * 1024
}

/// The processor time of a process, and of its children that it has waited for, by its file `stat`.
fn processor_time(stat: &str) -> Duration {
    // The second word is the name in brackets, which may have blanks and brackets. The 14th to 17th are times.
    let Some((_, rest)) = stat.rsplit_once(')') else { return Duration::ZERO };
    let times = rest.split_whitespace().skip(11).take(4);
    let ticks: u64 = times.filter_map(|word| word.parse::<u64>().ok()).sum();
    TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_usage_of_a_namespace_is_that_of_its_processes() {
        let dir = tempfile::tempdir().unwrap();
        let process = |pid: &str, namespace: &str, status: &str, stat: &str| {
            let folder = dir.path().join(pid);
            std::fs::create_dir_all(folder.join("ns")).unwrap();
            symlink(namespace, folder.join("ns/pid")).unwrap();
            std::fs::write(folder.join("status"), status).unwrap();
            std::fs::write(folder.join("stat"), stat).unwrap();
        };
        let status =
            "Name:\top\nVmRSS:\t  900 kB\nRssAnon:\t     100 kB\nRssFile:\t 800 kB\nVmSwap:\t       4 kB\n";
        process("7", "pid:[1]", status, "7 (a) b) S 1 7 7 0 -1 4 1 2 3 4 150 50 20 30 20 0 1\n");
        process("8", "pid:[1]", "RssAnon: 1 kB\n", "8 (x) S 1 7 7 0 -1 4 1 2 3 4 1 0 0 0 20\n");
        process("9", "pid:[2]", status, "9 (x) S 1");
        process("self", "pid:[1]", status, "");
        std::fs::create_dir(dir.path().join("10")).unwrap();
        let all = usage(dir.path(), &["pid:[1]".into(), "pid:[3]".into()]);
        let expected = ResourceUsage { memory: 105 * 1024, cpu: Duration::from_millis(2510) };
        assert_eq!(all, BTreeMap::from([("pid:[1]".into(), expected)]));
        assert_eq!(processor_time("cut off"), Duration::ZERO);
    }
}
