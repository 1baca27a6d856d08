//! Control groups (version 2) of containers, where this process has a subtree of its own that it may divide: as root alone in its group,
//! or delegated by the machine's service manager. This process moves into a group below its own, and each container gets one beside it.

use crate::limits::{LAUNCHER_PROCESSES, PROCESSES};
use crate::resources::{Controllers, ResourceLimits, ResourceUsage};
use std::io::{Error, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The beginning of a group's name; the number of the process follows, and for containers another number.
const NAME: &str = "kstore-";
/// The file of a group that lists its processes. A process that is written to it moves to the group.
const PROCESS_LIST: &str = "cgroup.procs";
/// The file of a group that says which controllers the groups below it have.
const SUBTREE: &str = "cgroup.subtree_control";
/// The period of a processor's limit in millionths of a second.
const CPU_PERIOD: u64 = 100_000;
/// The least processor time of a period, which the kernel asks for.
const LEAST_QUOTA: u64 = 1_000;

/// The groups of the containers of a process. They, and the group of the process itself, are removed when this is dropped.
#[derive(Debug)]
pub(crate) struct ControlGroups {
    /// The group that this process was in at first.
    folder: PathBuf,
    process: u32,
    controllers: Controllers,
    containers: AtomicU64,
}

/// The group of one container. Dropping it kills what is left of the container, and removes the group.
#[derive(Debug)]
pub(crate) struct ControlGroup(PathBuf);

impl ControlGroups {
    /// Takes the group of this process for its containers.
    ///
    /// # Errors
    /// Why it cannot be divided.
    pub(crate) fn of_this_process() -> std::result::Result<Self, String> {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let folder = own_folder(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
        let folder = folder.ok_or("control groups of version 2 are not mounted")?;
        Self::divide(folder, std::process::id())
    }

    /// Moves `process` to a group of its own below `folder`, in which it must be alone.
    fn divide(folder: PathBuf, process: u32) -> std::result::Result<Self, String> {
        let shown = folder.display().to_string();
        let controllers = read(&folder, "cgroup.controllers").map(|names| Controllers::of(&names));
        let controllers = controllers.map_err(|error| format!("control group {shown}: {error}"))?;
        if controllers == Controllers::default() {
            return Err(format!("control group {shown} has no controller for memory, pids or cpu"));
        }
        let own = process.to_string();
        let inside =
            read(&folder, PROCESS_LIST).map_err(|error| format!("control group {shown}: {error}"))?;
        if inside.lines().any(|other| other != own) {
            return Err(format!("control group {shown} has other processes too"));
        }
        remove_unused(&folder);
        let groups = Self { folder, process, controllers, containers: AtomicU64::new(0) };
        // An error after this ends the groups, which moves the process back.
        match groups.enter(&own) {
            Ok(()) => Ok(groups),
            Err(error) => Err(format!("control group {shown} cannot be divided: {error}")),
        }
    }

    fn enter(&self, process: &str) -> Result<()> {
        let own = self.own();
        std::fs::create_dir(&own)?;
        write(&own, PROCESS_LIST, process)?;
        write(&self.folder, SUBTREE, &self.words('+'))
    }

    /// The group of this process.
    fn own(&self) -> PathBuf {
        self.folder.join(format!("{NAME}{}", self.process))
    }

    /// The names of the controllers, each with a sign.
    fn words(&self, sign: char) -> String {
        let words: Vec<_> = self.controllers.names().map(|name| format!("{sign}{name}")).collect();
        words.join(" ")
    }

    /// The controllers that limit containers.
    pub(crate) fn controllers(&self) -> Controllers {
        self.controllers
    }

    /// Makes the group of a container with its limits.
    ///
    /// # Errors
    /// The group cannot be made.
    pub(crate) fn create(&self, limits: &ResourceLimits) -> Result<ControlGroup> {
        let number = self.containers.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder.join(format!("{NAME}{}-{number}", self.process));
        let cannot = |error: Error| Error::new(error.kind(), format!("its control group: {error}"));
        std::fs::create_dir(&folder).map_err(cannot)?;
        let group = ControlGroup(folder);
        for (file, value) in settings(limits, self.controllers) {
            write(&group.0, file, &value).map_err(cannot)?;
        }
        if self.controllers.memory {
            // Kernels without swap have no such file, and old ones end one process instead of all.
            let _ = write(&group.0, "memory.swap.max", "0");
            let _ = write(&group.0, "memory.oom.group", "1");
        }
        Ok(group)
    }
}

impl Drop for ControlGroups {
    fn drop(&mut self) {
        // The process can go back once no group below has controllers. Where something fails, empty groups are left.
        let _ = write(&self.folder, SUBTREE, &self.words('-'));
        let _ = write(&self.folder, PROCESS_LIST, &self.process.to_string());
        let _ = std::fs::remove_dir(self.own());
    }
}

impl ControlGroup {
    /// The folder of the group.
    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    /// Sets other limits for the container.
    ///
    /// # Errors
    /// The kernel refuses one.
    pub(crate) fn resize(&self, limits: &ResourceLimits, controllers: Controllers) -> Result<()> {
        if controllers.memory && limits.memory.is_none() {
            write(&self.0, "memory.max", "max")?;
        }
        if controllers.cpu && limits.milli_cpu.is_none() {
            write(&self.0, "cpu.max", &format!("max {CPU_PERIOD}"))?;
        }
        settings(limits, controllers).iter().try_for_each(|(file, value)| write(&self.0, file, value))
    }

    /// Whether the kernel killed processes of the container for want of memory.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        read(&self.0, "memory.events").is_ok_and(|events| number(&events, "oom_kill") > Some(0))
    }

    /// What the container uses; `None` where the group does not count it.
    pub(crate) fn usage(&self) -> Option<ResourceUsage> {
        let used: u64 = read(&self.0, "memory.current").ok()?.trim().parse().ok()?;
        let reclaimable = read(&self.0, "memory.stat").ok().and_then(|text| number(&text, "inactive_file"));
        let cpu = number(&read(&self.0, "cpu.stat").ok()?, "usage_usec")?;
        let memory = used.saturating_sub(reclaimable.unwrap_or(0));
        Some(ResourceUsage { memory, cpu: Duration::from_micros(cpu) })
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // Old kernels have no such file; the processes then end with their first one.
        let _ = write(&self.0, "cgroup.kill", "1");
        #[cfg(target_os = "linux")]
        wait_until_empty(&self.0);
        if let Err(error) = std::fs::remove_dir(&self.0) {
            tracing::warn!(%error, group = %self.0.display(), "a control group is left; the next start removes it");
        }
    }
}

/// Moves this process, which has one thread, to a group.
///
/// # Errors
/// It may not be moved.
#[cfg(target_os = "linux")]
pub(crate) fn join(group: &Path) -> Result<()> {
    write(group, PROCESS_LIST, "0")
}

/// Waits until no process is in a group, at most [`crate::limits::GROUP_END`].
#[cfg(target_os = "linux")]
fn wait_until_empty(group: &Path) {
    use rustix_namespaces::event::{PollFd, PollFlags, poll};
    use std::io::{Read as _, Seek as _};
    let Ok(mut file) = std::fs::File::open(group.join("cgroup.events")) else { return };
    let patience = i32::try_from(crate::limits::GROUP_END.as_millis()).unwrap_or(i32::MAX);
    loop {
        let mut events = String::new();
        let is_read = file.rewind().and_then(|()| file.read_to_string(&mut events)).is_ok();
        if !is_read || number(&events, "populated") != Some(1) {
            return;
        }
        // The kernel announces each change of this file so.
        if !matches!(poll(&mut [PollFd::new(&file, PollFlags::PRI)], patience), Ok(1..)) {
            return;
        }
    }
}

/// The settings of a container's group.
fn settings(limits: &ResourceLimits, controllers: Controllers) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    if controllers.pids {
        all.push(("pids.max", (PROCESSES + LAUNCHER_PROCESSES).to_string()));
    }
    if let Some(bytes) = limits.memory.filter(|_| controllers.memory) {
        all.push(("memory.max", bytes.to_string()));
    }
    if let Some(milli) = limits.milli_cpu.filter(|_| controllers.cpu) {
        let quota = milli.saturating_mul(CPU_PERIOD / 1000).max(LEAST_QUOTA);
        all.push(("cpu.max", format!("{quota} {CPU_PERIOD}")));
    }
    all
}

/// The folder of the group of a process, by its file `cgroup` and the mounts of the machine.
fn own_folder(groups: &str, mounts: &str) -> Option<PathBuf> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        let mut words = mount.split(' ').skip(3);
        let (root, target) = (words.next()?, words.next()?);
        let below = path.strip_prefix(root.trim_end_matches('/'))?;
        let is_of_groups = source.split(' ').next() == Some("cgroup2");
        is_of_groups.then(|| Path::new(target).join(below.trim_start_matches('/')).components().collect())
    })
}

/// Removes the groups that ended processes have left.
fn remove_unused(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let process = name.strip_prefix(NAME).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            // A group with processes is not removed.
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

/// The number behind a name in a file with a name and a number in each line.
fn number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

fn read(group: &Path, file: &str) -> Result<String> {
    std::fs::read_to_string(group.join(file))
}

fn write(group: &Path, file: &str, value: &str) -> Result<()> {
    std::fs::write(group.join(file), value)
        .map_err(|error| Error::new(error.kind(), format!("write {value:?} to {file}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_a_process_is_found_below_the_mount() {
        let mounts = "24 1 0:21 / /proc rw - proc proc rw\n\
                      31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
        let at = |groups: &str, mounts: &str| own_folder(groups, mounts);
        let expected = Some("/sys/fs/cgroup/unified/user.slice/run-7.scope".into());
        assert_eq!(at("4:memory:/x\n0::/user.slice/run-7.scope\n", mounts), expected);
        assert_eq!(at("0::/\n", mounts), Some("/sys/fs/cgroup/unified".into()));
        let inner = "41 31 0:38 /pod /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(at("0::/pod/a\n", inner), Some("/sys/fs/cgroup/a".into()));
        assert_eq!(at("0::/other\n", inner), None);
        assert_eq!(at("4:memory:/x\n", mounts), None);
    }

    /// A folder with the files of a group, in which these processes are.
    fn group(controllers: &str, processes: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "cgroup.controllers", controllers).unwrap();
        write(dir.path(), PROCESS_LIST, processes).unwrap();
        dir
    }

    #[test]
    fn only_a_group_of_one_process_with_controllers_is_divided() {
        let refused = |dir: &tempfile::TempDir| ControlGroups::divide(dir.path().into(), 7).unwrap_err();
        assert!(refused(&group("hugetlb\n", "7\n")).ends_with("has no controller for memory, pids or cpu"));
        assert!(refused(&group("cpu memory\n", "1\n7\n")).ends_with("has other processes too"));
        assert!(refused(&tempfile::tempdir().unwrap()).contains("No such file"));
        let dir = group("cpu io memory\n", "7\n");
        std::fs::create_dir(dir.path().join("kstore-4294967294-3")).unwrap();
        std::fs::create_dir(dir.path().join(format!("kstore-{}", std::process::id()))).unwrap();
        let groups = ControlGroups::divide(dir.path().into(), 7).unwrap();
        assert_eq!(read(dir.path(), SUBTREE).unwrap(), "+memory +cpu");
        assert_eq!(read(&groups.own(), PROCESS_LIST).unwrap(), "7");
        assert!(!dir.path().join("kstore-4294967294-3").exists(), "its process has ended");
        assert!(dir.path().join(format!("kstore-{}", std::process::id())).exists(), "its process runs");
        drop(groups);
        assert_eq!(read(dir.path(), SUBTREE).unwrap(), "-memory -cpu");
    }

    #[test]
    fn a_container_gets_its_limits_and_its_usage_is_read() {
        let dir = group("cpu memory pids\n", "7\n");
        let groups = ControlGroups::divide(dir.path().into(), 7).unwrap();
        let limits = ResourceLimits { memory: Some(1 << 20), milli_cpu: Some(250), ephemeral_storage: None };
        let one = groups.create(&limits).unwrap();
        let at = |file: &str| read(one.folder(), file).unwrap();
        assert_eq!([at("memory.max"), at("cpu.max"), at("pids.max")], ["1048576", "25000 100000", "1025"]);
        assert_eq!((one.usage(), one.is_out_of_memory()), (None, false));
        for (file, text) in [
            ("memory.current", "1000\n"),
            ("memory.stat", "anon 5\ninactive_file 300\n"),
            ("cpu.stat", "usage_usec 1500000\nuser_usec 1\n"),
            ("memory.events", "oom 1\noom_kill 1\n"),
        ] {
            write(one.folder(), file, text).unwrap();
        }
        let larger = ResourceLimits { memory: Some(2 << 20), milli_cpu: None, ephemeral_storage: None };
        one.resize(&larger, groups.controllers()).unwrap();
        assert_eq!([at("memory.max"), at("cpu.max")], ["2097152", "max 100000"]);
        one.resize(&ResourceLimits::default(), Controllers::of("memory")).unwrap();
        assert_eq!([at("memory.max"), at("cpu.max")], ["max", "max 100000"]);
        one.resize(&limits, groups.controllers()).unwrap();
        assert_eq!([at("memory.max"), at("cpu.max")], ["1048576", "25000 100000"]);
        let used = ResourceUsage { memory: 700, cpu: Duration::from_millis(1500) };
        assert_eq!((one.usage(), one.is_out_of_memory()), (Some(used), true));
        assert_ne!(groups.create(&limits).unwrap().folder(), one.folder());
        let least = ResourceLimits { milli_cpu: Some(1), ..limits };
        assert_eq!(settings(&least, Controllers::of("cpu")), [("cpu.max", "1000 100000".to_owned())]);
    }
}
