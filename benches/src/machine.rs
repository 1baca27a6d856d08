//! The machine and the commit of the measurements, which results are meaningless without.

/// Processor, cores, memory and kernel, as far as Linux reports them.
pub(crate) fn describe() -> String {
    let processor = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".to_owned());
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kibibytes: Option<u64> =
        field("/proc/meminfo", "MemTotal").and_then(|text| text.split(' ').next()?.parse().ok());
    let memory = kibibytes.map_or_else(String::new, |kib| format!(", {} GiB", (kib + (1 << 19)) >> 20));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{processor}, {cores} cores{memory}, Linux {}", kernel.trim())
}

/// The checked-out commit, with the suffix `-dirty` if files differ from it; `unknown` outside a git
/// repository.
pub(crate) fn commit() -> String {
    let git = std::process::Command::new("git")
        .args([
            "-C",
            env!("CARGO_MANIFEST_DIR"),
            "describe",
            "--always",
            "--dirty",
            "--abbrev=10",
            "--exclude=*",
        ])
        .output();
    let named = git.ok().filter(|output| output.status.success());
    let text = named.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown".to_owned())
}

/// Whether a text of [`commit`] names exactly the code that is checked out.
pub(crate) fn is_clean(commit: &str) -> bool {
    !commit.is_empty() && commit.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The value of `name` in a file of `name: value` lines.
pub(crate) fn field(path: &str, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.split(':').next().is_some_and(|key| key.trim() == name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_only_named_after_a_clean_commit() {
        assert!(is_clean("0123456789"));
        for commit in ["0123456789-dirty", "unknown", ""] {
            assert!(!is_clean(commit), "{commit}");
        }
    }
}
