//! What the system says about the process of a client: run time of threads, and connections that are its own. Linux only; elsewhere
//! nothing is known, and the window of real time decides.

use super::socket;
use crate::limits;
use parking_lot::Mutex;
use rustix::process::{Pid, test_kill_process_group};
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddrV4;

/// Run time of a group of processes, at one look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessSample {
    /// Nanoseconds that all threads have run.
    pub run_time: u64,
    /// Number of times that a thread was given the processor.
    pub slices: u64,
    /// Threads that run, could run, or go on by themselves once a disk or a child has answered.
    pub runnable: usize,
    /// Threads.
    pub threads: usize,
}

/// The members that groups had at the newest whole look.
static KNOWN: Mutex<BTreeMap<u32, Vec<u32>>> = Mutex::new(BTreeMap::new());

/// Looks at all threads of the process group that `process` leads, or of the process alone if it leads none. `None` if it is gone.
pub fn sample(process: u32) -> Option<ProcessSample> {
    let group = group_of(process)?;
    if group != process {
        return sample_of(&[process]);
    }
    let members = members(group);
    let mut known = KNOWN.lock();
    if known.len() >= limits::PROGRAMS {
        known.clear();
    }
    known.insert(group, members.clone());
    drop(known);
    sample_of(&members)
}

/// As [`sample`], but without the processes that the group got since then. It costs a small part: not all processes of the machine are
/// looked at.
pub fn sample_known(process: u32) -> Option<ProcessSample> {
    let known = KNOWN.lock().get(&process).cloned();
    known.map_or_else(|| sample(process), |members| sample_of(&members))
}

fn sample_of(members: &[u32]) -> Option<ProcessSample> {
    let threads: Vec<Thread> = members.iter().flat_map(|member| threads(*member)).collect();
    let runnable = runnable(&threads);
    let sum = |of: fn(&Thread) -> u64| threads.iter().map(of).sum();
    let total = ProcessSample {
        run_time: sum(|thread| thread.run_time),
        slices: sum(|thread| thread.slices),
        runnable,
        threads: threads.len(),
    };
    (total.threads > 0).then_some(total)
}

/// One thread, at one look.
#[derive(Debug)]
struct Thread {
    process: u32,
    parent: u32,
    /// The state in its `stat` file: `R`, `S`, `D`, `T` …
    state: char,
    run_time: u64,
    slices: u64,
}

/// The threads of one process, without those that end meanwhile.
fn threads(process: u32) -> Vec<Thread> {
    let Ok(entries) = fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    let look = |entry: fs::DirEntry| {
        let read = |name: &str| fs::read_to_string(entry.path().join(name)).ok();
        let (schedule, stat) = (read("schedstat")?, read("stat")?);
        let mut numbers = schedule.split_ascii_whitespace().map(|number| number.parse().unwrap_or(0));
        let (run_time, slices) = (numbers.next().unwrap_or(0), numbers.nth(1).unwrap_or(0));
        let state = field(&stat, 0)?.chars().next()?;
        Some(Thread { process, parent: field(&stat, 1)?.parse().ok()?, state, run_time, slices })
    };
    entries.flatten().filter_map(look).collect()
}

/// Threads that run, wait for the processor, or are in an uninterruptible sleep: they read a page of their program from a disk, or have
/// made a child (`vfork`) that has not begun its program. If that child was stopped by SIGSTOP before it began, its parent does not go on
/// by itself: both do only after SIGCONT.
fn runnable(threads: &[Thread]) -> usize {
    let has_stopped_child =
        |process: u32| threads.iter().any(|child| child.parent == process && child.state == 'T');
    let goes_on = |thread: &&Thread| match thread.state {
        'R' => true,
        'D' => !has_stopped_child(thread.process),
        _ => false,
    };
    threads.iter().filter(goes_on).count()
}

/// Whether a process of a group is not at its end. One that has ended and that its parent has not looked at does not count.
pub fn runs_any_of(group: u32) -> bool {
    let id = i32::try_from(group).ok().and_then(Pid::from_raw);
    if id.is_none_or(|id| test_kill_process_group(id).is_err()) {
        return false;
    }
    let has_ended = |process: u32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        matches!(field(&stat, 0), None | Some("Z" | "X"))
    };
    members(group).into_iter().any(|process| !has_ended(process))
}

/// The process group of a process.
fn group_of(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    field(&stat, 2)?.parse().ok()
}

/// The nth field of a `stat` file after the name, which may have spaces: state, parent, process group.
fn field(stat: &str, nth: usize) -> Option<&str> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(nth)
}

/// The processes of a group.
fn members(group: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return vec![group] };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter(|process| group_of(*process) == Some(group)).collect()
}

/// The leader of the process group, among `groups`, that has the other end of a connection to this machine: `peer` is its address, `ours`
/// that of the server. `None` if none of them has it, or the process belongs to another user.
pub fn owner(peer: SocketAddrV4, ours: SocketAddrV4, groups: &[u32]) -> Option<u32> {
    let inode = socket::states(&[(peer, ours)]).into_values().next()?.inode;
    let wanted = format!("socket:[{inode}]");
    let has_socket = |process: &u32| {
        let descriptors = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        let mut targets = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
        targets.any(|target| target.as_os_str() == wanted.as_str())
    };
    groups.iter().copied().find(|group| members(*group).iter().any(has_socket))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(process: u32, parent: u32, state: char) -> Thread {
        Thread { process, parent, state, run_time: 0, slices: 0 }
    }

    #[test]
    fn a_thread_that_waits_for_a_disk_goes_on_by_itself() {
        let going = |state: char| runnable(&[thread(7, 1, state)]);
        assert_eq!(['R', 'D', 'S', 'T', 'Z'].map(going), [1, 1, 0, 0, 0]);
    }

    #[test]
    fn a_process_that_waits_for_a_stopped_child_to_begin_does_not_go_on() {
        let runnable = |child| runnable(&[thread(7, 1, 'D'), thread(7, 1, 'S'), child]);
        assert_eq!(runnable(thread(8, 7, 'T')), 0);
        assert_eq!(runnable(thread(8, 7, 'R')), 2);
        assert_eq!(runnable(thread(8, 1, 'T')), 1, "another's child");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_owner_of_a_connection_is_found_among_process_groups() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let v4 = |address| match address {
            std::net::SocketAddr::V4(address) => address,
            std::net::SocketAddr::V6(address) => panic!("{address}"),
        };
        let (peer, ours) = (v4(stream.local_addr().unwrap()), v4(listener.local_addr().unwrap()));
        let own = group_of(std::process::id()).unwrap();
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(owner(peer, ours, &[other.id(), own]), Some(own));
        assert_eq!(owner(peer, ours, &[other.id()]), None);
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_glance_has_the_processes_of_the_newest_whole_look() {
        use std::io::Write as _;
        use std::os::unix::process::CommandExt as _;
        use std::process::{Command, Stdio};
        let mut leader = Command::new("sh");
        let leader = leader.args(["-c", "read line; sleep 60 & wait"]).process_group(0).stdin(Stdio::piped());
        let mut leader = leader.spawn().unwrap();
        let threads = |sample: Option<ProcessSample>| sample.map(|sample| sample.threads);
        let id = leader.id();
        assert_eq!(threads(sample(id)), Some(1));
        leader.stdin.take().unwrap().write_all(b"go\n").unwrap();
        while members(id).len() < 2 {
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
        assert_eq!(threads(sample_known(id)), Some(1));
        assert_eq!(threads(sample(id)), Some(2));
        assert_eq!(threads(sample_known(id)), Some(2));
        let group = Pid::from_raw(i32::try_from(id).unwrap()).unwrap();
        rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
        leader.wait().unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_that_sleeps_does_not_run_between_two_looks() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let look = || sample(child.id());
        let pause = || std::thread::park_timeout(std::time::Duration::from_millis(50));
        pause();
        let before = look();
        pause();
        assert!(before.as_ref().is_some_and(|sample| sample.threads == 1), "{before:?}");
        assert_eq!(before, look());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(sample(child.id()), None);
        assert!(sample(std::process::id()).is_some_and(|own| own.run_time > 0));
    }
}
