//! The sentinel: a small process that kills the process groups of programs when this process ends in any way, also by SIGKILL. It waits for
//! the end of a pipe that only this process holds. The kernel's signal at the death of a parent would reach the leaders alone, and would
//! follow the thread that started them.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What the sentinel does: notes process groups that are added (`+`) and removed (`-`), kills the noted ones at the end of its input, and
/// removes the folder of kubeconfig files.
const SCRIPT: &str = r#"
groups=
while read -r sign group; do
  case $sign in
  +) groups="$groups $group" ;;
  -)
    kept=
    for one in $groups; do [ "$one" = "$group" ] || kept="$kept $one"; done
    groups=$kept
    ;;
  esac
done
for one in $groups; do kill -s KILL -- "-$one" 2>/dev/null; done
rm -rf -- "$1"
"#;

/// The sentinel of this process; it lives as long.
static SENTINEL: Mutex<Option<Sentinel>> = Mutex::new(None);

struct Sentinel {
    child: Child,
    /// Process groups that it knows.
    groups: BTreeSet<u32>,
    /// Folder for kubeconfig files, private to the user.
    folder: PathBuf,
}

impl Sentinel {
    fn start(folder: PathBuf) -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        // A process group of its own: Ctrl-C does not end it.
        command.args(["-c", SCRIPT, "kstore-lab-sentinel"]).arg(&folder).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { child: command.spawn()?, groups: BTreeSet::new(), folder })
    }

    fn tell(&mut self, line: &str) -> io::Result<()> {
        let input = self.child.stdin.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        input.write_all(line.as_bytes())?;
        input.flush()
    }

    /// Replaces a sentinel that has ended.
    fn again(&mut self) -> io::Result<()> {
        let mut next = Self::start(self.folder.clone())?;
        for group in &self.groups {
            next.tell(&format!("+ {group}\n"))?;
        }
        // The ended one is waited for, so that it leaves no entry among the processes.
        let _ = self.child.try_wait();
        next.groups.clone_from(&self.groups);
        *self = next;
        Ok(())
    }
}

/// Makes a private folder for a program below that of the sentinel, which removes it when this process ends. Starts the sentinel.
pub(super) fn folder(name: &str) -> io::Result<PathBuf> {
    unique(&start()?, name)
}

/// Starts the sentinel unless it runs, and returns its folder.
pub(super) fn start() -> io::Result<PathBuf> {
    let mut sentinel = SENTINEL.lock();
    if sentinel.is_none() {
        let folder = tempfile::Builder::new().prefix("kstore-lab-").tempdir()?.keep();
        *sentinel = Some(Sentinel::start(folder)?);
    }
    Ok(sentinel.as_ref().map(|sentinel| sentinel.folder.clone()).ok_or(io::ErrorKind::NotFound)?)
}

/// Makes a folder that did not exist.
fn unique(base: &Path, name: &str) -> io::Result<PathBuf> {
    Ok(tempfile::Builder::new().prefix(&format!("{name}-")).tempdir_in(base)?.keep())
}

/// Adds a process group. The sentinel kills it when this process ends.
pub(super) fn watch(group: u32) -> io::Result<()> {
    let mut sentinel = SENTINEL.lock();
    let sentinel = sentinel.as_mut().ok_or(io::ErrorKind::NotFound)?;
    sentinel.groups.insert(group);
    match sentinel.tell(&format!("+ {group}\n")) {
        Ok(()) => Ok(()),
        Err(_) => sentinel.again(),
    }
}

/// Removes a process group, whose number may be another's from now on.
pub(super) fn forget(group: u32) {
    if let Some(sentinel) = SENTINEL.lock().as_mut() {
        sentinel.groups.remove(&group);
        if sentinel.tell(&format!("- {group}\n")).is_err() {
            let _ = sentinel.again();
        }
    }
}
