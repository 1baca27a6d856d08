//! `kstore-server stop`: ends the server that runs on a data directory, in order, and waits until it has ended.

use crate::args::StopArgs;
use crate::data_dir;
use crate::shutdown::GRACE;
use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{File, TryLockError};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

/// Time that a server has to end: its own grace, and a reserve for a busy machine.
const PATIENCE: Duration = GRACE.saturating_add(Duration::from_secs(10));

/// Carries out the command. A directory without a running server is no error, so that scripts can repeat it.
pub(crate) fn stop(args: &StopArgs) -> anyhow::Result<ExitCode> {
    let shown = args.data_dir.display();
    let path = args.data_dir.join(data_dir::LOCK);
    let Ok(lock) = File::open(&path) else {
        bail!("no server has used {shown}; name its data directory with --data-dir");
    };
    match lock.try_lock_shared() {
        Ok(()) => println!("no server runs on {shown}"),
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("cannot lock {}", path.display()));
        }
        Err(TryLockError::WouldBlock) => {
            let id = holder(&path)?;
            kill_process(id, Signal::TERM).with_context(|| format!("cannot end process {id}"))?;
            wait(lock).with_context(|| format!("process {id} has not ended"))?;
            println!("stopped the server on {shown} (process {id})");
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The process that holds the lock, which has written its number into the file.
fn holder(path: &Path) -> anyhow::Result<Pid> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let id = text.parse().ok().and_then(Pid::from_raw);
    id.with_context(|| format!("{} names no process", path.display()))
}

/// Waits until the holder has released the lock: the system does so when the process ends.
fn wait(lock: File) -> anyhow::Result<()> {
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || {
        // The receiver may have given up.
        let _ = ended.send(lock.lock_shared());
    });
    let ended = end.recv_timeout(PATIENCE);
    ended.with_context(|| format!("after {} s", PATIENCE.as_secs()))?.context("cannot wait for its lock")
}
