//! [`CpuCounters`]: processor time of a node, which grows with each sample. Pure.

use super::PodUsage;
use crate::limits::USAGE_WINDOW;
use jiff::Timestamp;
use kstore_container_sim::time::between;
use std::collections::BTreeMap;

/// Processor time of a node, its pods and their containers, in billionths of a second. Never decreases, as
/// Prometheus counters must not. Between two samples a container is assumed to have used what the later
/// sample shows; before the first, since its start. Where processor time is measured, usage is computed from it instead, over the time
/// since the last sample; samples that follow it at once show the same. Holds only the pods and containers of the last sample.
#[derive(Debug, Default)]
pub(crate) struct CpuCounters {
    total: u64,
    /// Counters of pods by uid.
    pods: BTreeMap<String, PodCounter>,
}

#[derive(Debug, Default)]
struct PodCounter {
    total: u64,
    /// Counters of runs by container name.
    runs: BTreeMap<String, RunCounter>,
}

/// One run of a container.
#[derive(Clone, Copy, Debug)]
struct RunCounter {
    started: Timestamp,
    total: u64,
    /// The time up to which usage is counted.
    until: Timestamp,
    /// The measured usage up to then, in billionths of a processor.
    nano_cores: u64,
}

impl CpuCounters {
    /// Counts usage until `at`, writes processor times into `pods`, and returns that of the node.
    pub(super) fn advance(&mut self, at: Timestamp, pods: &mut [PodUsage]) -> u64 {
        let mut before = std::mem::take(&mut self.pods);
        for pod in pods {
            let mut counter = before.remove(&pod.uid).unwrap_or_default();
            let mut runs = std::mem::take(&mut counter.runs);
            for container in &mut pod.containers {
                let started = container.started;
                let known = runs.remove(&container.name).filter(|run| run.started == started);
                let mut run =
                    known.unwrap_or(RunCounter { started, total: 0, until: started, nano_cores: 0 });
                let used = match container.measured_nanos {
                    Some(measured) => {
                        let used = run.measure(measured, at);
                        container.nano_cores = run.nano_cores;
                        used
                    }
                    None => run.assume(container.nano_cores, at),
                };
                counter.total = counter.total.saturating_add(used);
                self.total = self.total.saturating_add(used);
                container.cpu_nanos = run.total;
                counter.runs.insert(container.name.clone(), run);
            }
            pod.cpu_nanos = counter.total;
            self.pods.insert(pod.uid.clone(), counter);
        }
        self.total
    }
}

impl RunCounter {
    /// Counts a constant usage until `at`; returns the processor time since the last sample.
    fn assume(&mut self, nano_cores: u64, at: Timestamp) -> u64 {
        let used = core_nanos(nano_cores, self.until, at);
        self.total = self.total.saturating_add(used);
        self.until = self.until.max(at);
        used
    }

    /// Takes the processor time that the run has used at `at`, and computes its usage; returns the processor time since the last sample.
    fn measure(&mut self, measured: u64, at: Timestamp) -> u64 {
        let time = between(self.until, at);
        if time < USAGE_WINDOW {
            return 0;
        }
        let used = measured.saturating_sub(self.total);
        let rate = u128::from(used).saturating_mul(1_000_000_000) / time.as_nanos();
        self.nano_cores = u64::try_from(rate).unwrap_or(u64::MAX);
        self.total += used;
        self.until = at;
        used
    }
}

/// Processor time for a constant usage in billionths of a processor; zero if `to` is not later than `from`.
fn core_nanos(nano_cores: u64, from: Timestamp, to: Timestamp) -> u64 {
    let nanos = u128::from(nano_cores).saturating_mul(between(from, to).as_nanos()) / 1_000_000_000;
    u64::try_from(nanos).unwrap_or(u64::MAX)
}
