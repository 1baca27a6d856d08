//! What a container may use of this machine, what it uses, and which of its limits hold here. Pure.

use crate::limits::PROCESSES;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The limits of a container, as its pod states them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceLimits {
    /// Bytes of memory; `None`: no limit.
    pub memory: Option<u64>,
    /// Thousandths of a processor; `None`: no limit.
    pub milli_cpu: Option<u64>,
    /// Bytes of ephemeral storage, which bound each file that the container writes; `None`: no limit.
    pub ephemeral_storage: Option<u64>,
}

/// The limits that every process of a container has by itself, from the kernel's `setrlimit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessLimits {
    /// Processes and threads of the container; `None`: the kernel would count those of other containers too.
    pub processes: Option<u64>,
    /// Bytes of a file that it writes; a process that exceeds them is ended by SIGXFSZ.
    pub file_bytes: Option<u64>,
}

/// What the processes of a container use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceUsage {
    /// Bytes of memory that cannot be reclaimed by writing to files or dropping their copies.
    pub memory: u64,
    /// Processor time since the start of the container.
    pub cpu: Duration,
}

/// Controllers of control groups that can limit containers here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Controllers {
    /// Limits memory.
    pub memory: bool,
    /// Limits processes.
    pub pids: bool,
    /// Limits processor time.
    pub cpu: bool,
}

impl Controllers {
    /// Those that a list of names has, as in `cgroup.controllers`.
    pub(crate) fn of(names: &str) -> Self {
        let has = |name: &str| names.split_whitespace().any(|one| one == name);
        Self { memory: has("memory"), pids: has("pids"), cpu: has("cpu") }
    }

    /// Their names.
    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        let all = [("memory", self.memory), ("pids", self.pids), ("cpu", self.cpu)];
        all.into_iter().filter_map(|(name, is_here)| is_here.then_some(name))
    }
}

/// Which limits of containers hold on this machine, and by what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Enforcement {
    /// What control groups limit.
    pub(crate) controllers: Controllers,
    /// Why control groups limit nothing; empty if they limit something.
    pub(crate) no_groups: String,
    /// Whether the kernel counts the processes of each container apart without control groups.
    pub(crate) counts_processes: bool,
}

impl Enforcement {
    /// The memory limit that no control group enforces: the caller has to compare it with the container's usage.
    pub fn sampled_memory(&self, limits: &ResourceLimits) -> Option<u64> {
        limits.memory.filter(|_| !self.controllers.memory)
    }

    /// Which of the limits have no effect here, and why; `None` if all of them have one.
    pub fn unenforced(&self, limits: &ResourceLimits) -> Option<String> {
        let milli = limits.milli_cpu.filter(|_| !self.controllers.cpu)?;
        let why = match self.no_groups.as_str() {
            "" => "control groups here have no controller for processors",
            why => why,
        };
        Some(format!(
            "the limit on cpu ({milli}m) is not enforced: {why}; it is where the server has a control group of its own, as by \
             'systemd-run --user --scope -p Delegate=yes'"
        ))
    }

    /// The limits that each process of a container has.
    pub(crate) fn process_limits(&self, limits: &ResourceLimits) -> ProcessLimits {
        let processes = Some(PROCESSES).filter(|_| self.counts_processes && !self.controllers.pids);
        ProcessLimits { processes, file_bytes: limits.ephemeral_storage }
    }
}

impl fmt::Display for Enforcement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Controllers { memory, pids, cpu } = self.controllers;
        f.write_str(if memory { "memory by control groups" } else { "memory by samples" })?;
        match (pids, self.counts_processes) {
            (true, _) => f.write_str(", processes by control groups")?,
            (false, true) => f.write_str(", processes by the kernel's limit for users")?,
            (false, false) => f.write_str(", processes not at all")?,
        }
        f.write_str(if cpu { ", processors by control groups" } else { ", processors not at all" })?;
        match self.no_groups.as_str() {
            "" => Ok(()),
            why => write!(f, " ({why})"),
        }
    }
}

/// Whether a kernel of this release counts the processes of a user in each user namespace apart, as Linux does since 5.14. Earlier ones
/// count all processes of the user on the machine.
pub(crate) fn counts_by_namespace(release: &str) -> bool {
    let mut numbers = release.split(|byte: char| !byte.is_ascii_digit()).map(|part| part.parse::<u32>().ok());
    let number = |part: Option<Option<u32>>| part.flatten().unwrap_or(0);
    (number(numbers.next()), number(numbers.next())) >= (5, 14)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_without_effect_is_named_with_the_reason() {
        let all = ResourceLimits { memory: Some(1), milli_cpu: Some(500), ephemeral_storage: Some(9) };
        let none = Enforcement { no_groups: "no groups here".to_owned(), ..Enforcement::default() };
        let text = none.unenforced(&all).unwrap();
        assert!(text.starts_with("the limit on cpu (500m) is not enforced: no groups here; "), "{text}");
        assert_eq!(none.unenforced(&ResourceLimits { milli_cpu: None, ..all }), None);
        assert_eq!(
            (none.sampled_memory(&all), none.sampled_memory(&ResourceLimits::default())),
            (Some(1), None)
        );
        let groups =
            Enforcement { controllers: Controllers::of("cpuset cpu io memory pids"), ..none.clone() };
        assert_eq!((groups.unenforced(&all), groups.sampled_memory(&all)), (None, None));
        let memory = Enforcement { controllers: Controllers::of("memory"), ..Enforcement::default() };
        assert!(memory.unenforced(&all).unwrap().contains("no controller for processors"));
        assert_eq!(memory.controllers.names().collect::<Vec<_>>(), ["memory"]);
        assert_eq!(
            none.to_string(),
            "memory by samples, processes not at all, processors not at all (no groups here)"
        );
    }

    #[test]
    fn processes_are_limited_once_and_only_where_containers_are_counted_apart() {
        let limits = ResourceLimits { ephemeral_storage: Some(7), ..ResourceLimits::default() };
        let old = Enforcement::default();
        assert_eq!(old.process_limits(&limits), ProcessLimits { processes: None, file_bytes: Some(7) });
        let new = Enforcement { counts_processes: true, ..old };
        assert_eq!(new.process_limits(&limits).processes, Some(PROCESSES));
        let groups = Enforcement { controllers: Controllers::of("pids"), ..new };
        assert_eq!(groups.process_limits(&limits).processes, None);
        for (release, expected) in
            [("6.18.44-fc", true), ("5.14.0", true), ("5.13.19", false), ("4.18.0-553", false), ("", false)]
        {
            assert_eq!(counts_by_namespace(release), expected, "{release}");
        }
    }
}
