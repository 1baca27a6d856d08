//! What a process has used, as Linux tells it.

use crate::machine::field;
use anyhow::Context;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Clock ticks per second in `/proc/PID/stat`: fixed by the interface, whatever the kernel's own rate.
const TICKS: f64 = 100.0;

/// User and system time of all threads so far.
pub(crate) fn processor_seconds(process: u32) -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).context("needs Linux")?;
    // The name in parentheses may hold anything; the fields after it are numbered from 3.
    let fields: Vec<&str> = stat.rsplit_once(')').context("no stat")?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field - 3).and_then(|text| text.parse::<f64>().ok());
    Ok((ticks(14).context("no utime")? + ticks(15).context("no stime")?) / TICKS)
}

/// How often its threads have gone to sleep of themselves so far; each time something had to wake them again.
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

/// Memory that is resident now.
pub(crate) fn resident_mebibytes(process: u32) -> anyhow::Result<f64> {
    let text = field(&format!("/proc/{process}/status"), "VmRSS").context("no VmRSS")?;
    let kibibytes: f64 = text.trim_end_matches(" kB").parse()?;
    Ok(kibibytes / 1024.0)
}

/// From here on [`peak_mebibytes`] counts anew.
pub(crate) fn forget_peak(process: u32) -> anyhow::Result<()> {
    std::fs::write(format!("/proc/{process}/clear_refs"), "5").context("cannot reset the peak")
}

/// The most memory that was resident at a time.
pub(crate) fn peak_mebibytes(process: u32) -> anyhow::Result<f64> {
    let text = field(&format!("/proc/{process}/status"), "VmHWM").context("no VmHWM")?;
    let kibibytes: f64 = text.trim_end_matches(" kB").parse()?;
    Ok(kibibytes / 1024.0)
}

/// Bytes that the files below a directory occupy; a file that goes away meanwhile counts nothing.
pub(crate) fn disk_bytes(dir: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        match std::fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_dir() => bytes += disk_bytes(&path)?,
            // A block has 512 bytes here, whatever the file system's are.
            Ok(meta) => bytes += meta.blocks() * 512,
            Err(_) => {}
        }
    }
    Ok(bytes)
}
