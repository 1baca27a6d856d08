//! Metrics of this process from Linux's `/proc`. On other systems the families are left out.

use kstore_metrics_text::Page;
use std::fs;

/// Clock ticks per second in `/proc`: a constant of Linux's interface to programs.
const TICKS: f64 = 100.0;
/// Indexes of fields of `/proc/self/stat` after the program's name (which may contain spaces).
const USER_TIME: usize = 11;
const SYSTEM_TIME: usize = 12;
const START_TIME: usize = 19;

/// Renders the families `process_*`.
pub(super) fn render(page: &mut Page<'_>) {
    let mut gauge = |name: &str, help: &str, value: Option<f64>| {
        if let Some(value) = value {
            page.head(name, if name.ends_with("_total") { "counter" } else { "gauge" }, help);
            page.line(name, &[], value);
        }
    };
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    gauge("process_cpu_seconds_total", "Processor time used.", cpu_seconds(&stat));
    gauge("process_max_fds", "Limit of open files.", max_files());
    gauge("process_open_fds", "Open files.", fs::read_dir("/proc/self/fd").ok().map(|d| d.count() as f64));
    gauge("process_resident_memory_bytes", "Memory in use.", bytes(&status, "VmRSS:"));
    gauge("process_start_time_seconds", "Start of the process, in seconds since 1970.", started(&stat));
    gauge("process_virtual_memory_bytes", "Address space in use.", bytes(&status, "VmSize:"));
}

fn ticks(stat: &str, field: usize) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(field)?.parse().ok()
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    Some((ticks(stat, USER_TIME)? + ticks(stat, SYSTEM_TIME)?) / TICKS)
}

fn started(stat: &str) -> Option<f64> {
    let system = fs::read_to_string("/proc/stat").ok()?;
    let booted: f64 = system.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    Some(booted + ticks(stat, START_TIME)? / TICKS)
}

fn bytes(status: &str, field: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024.0)
}

fn max_files() -> Option<f64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_metrics_do_not_depend_on_the_program_name() {
        let stat = "1 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 50 13 14 15 16 17 18 4200 20";
        assert_eq!((cpu_seconds(stat), ticks(stat, START_TIME)), (Some(2.0), Some(4200.0)));
        assert_eq!(bytes("VmPeak:\t 9 kB\nVmRSS:\t   12 kB\n", "VmRSS:"), Some(12288.0));
        assert_eq!(cpu_seconds(""), None);
    }
}
