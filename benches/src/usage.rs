//! Resource usage of a process, as Linux reports it.

use crate::machine::field;
use anyhow::Context;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Clock ticks per second in `/proc/PID/stat`: fixed by the interface, independent of the kernel's rate.
const TICKS: f64 = 100.0;

/// User and system time of all threads so far, in seconds.
pub(crate) fn processor_seconds(process: u32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).context("needs Linux")?;
    // The name in parentheses may contain anything; the fields after it are numbered from 3.
    let fields: Vec<&str> = stat.rsplit_once(')').context("no stat")?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3).and_then(|text| text.parse::<f64>().ok());
    Ok((ticks(14).context("no utime")? + ticks(15).context("no stime")?) / TICKS)
}

/// How often the process's threads have blocked voluntarily so far, which equals the number of wake-ups.
pub(crate) fn wakeups(process: u32) -> anyhow::Result<u64> {
    let mut sum = 0;
    for task in std::fs::read_dir(format!("/proc/{process}/task")).context("needs Linux")? {
        let status = task?.path().join("status");
        // A thread may have ended meanwhile.
        let count = status.to_str().and_then(|path| field(path, "voluntary_ctxt_switches"));
        sum += count.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    }
    Ok(sum)
}

/// Resident memory now.
pub(crate) fn resident_mebibytes(process: u32) -> anyhow::Result<f64> {
    let text = field(&format!("/proc/{process}/status"), "VmRSS").context("no VmRSS")?;
    let kibibytes: f64 = text.trim_end_matches(" kB").parse()?;
    Ok(kibibytes / 1024.0)
}

/// Resets [`peak_mebibytes`].
pub(crate) fn reset_peak(process: u32) -> anyhow::Result<()> {
    std::fs::write(format!("/proc/{process}/clear_refs"), "5").context("cannot reset the peak")
}

/// Peak of the resident memory.
pub(crate) fn peak_mebibytes(process: u32) -> anyhow::Result<f64> {
    let text = field(&format!("/proc/{process}/status"), "VmHWM").context("no VmHWM")?;
    let kibibytes: f64 = text.trim_end_matches(" kB").parse()?;
    Ok(kibibytes / 1024.0)
}

/// Disk space of the files below a directory, in bytes; a file that is deleted meanwhile counts as 0.
pub(crate) fn disk_bytes(dir: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        match std::fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_dir() => bytes += disk_bytes(&path)?,
            // `st_blocks` counts blocks of 512 bytes, independent of the file system's block size.
            Ok(meta) => bytes += meta.blocks() * 512,
            Err(_) => {}
        }
    }
    Ok(bytes)
}
