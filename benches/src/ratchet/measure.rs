//! Counts the instructions of paths, in children.

use super::path::CountedPath;
use super::{platform, valgrind};
use anyhow::Context;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Children at a time: as many as the smallest machines of a gate have processors.
const CHILDREN: usize = 2;

/// The counts of several paths on one platform.
pub(super) struct Measured {
    /// Processor, compiler and library that the counts depend on.
    pub(super) platform: String,
    /// The counts, in the order of the paths.
    pub(super) counts: Vec<Count>,
}

/// The count of a path.
pub(super) struct Count {
    /// The path's name.
    pub(super) name: &'static str,
    /// Instructions of one operation.
    pub(super) instructions: u64,
}

/// One child: a path and the number of its operations.
struct Job {
    path: &'static CountedPath,
    times: u64,
}

/// Counts paths; children run [`CHILDREN`] at a time.
///
/// # Errors
///
/// valgrind is missing, or a path fails.
pub(super) fn counts(paths: &[&'static CountedPath]) -> anyhow::Result<Measured> {
    let program = std::env::current_exe()?;
    let jobs: Vec<Job> = paths
        .iter()
        .flat_map(|path| path.times.each().into_iter().map(|times| Job { path, times }))
        .collect();
    let (next, runs) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || -> anyhow::Result<()> {
        while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let run = job.run(&program).with_context(|| format!("the path {}", job.path.name))?;
            runs.lock().expect("no holder panics").push((job, run));
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..CHILDREN).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a count does not panic"))
    })?;
    let runs = runs.into_inner().expect("no holder panics");
    let extensions = runs.first().map_or("", |(_, run)| run.output.lines().next().unwrap_or_default());
    let of = |path: &CountedPath, times| {
        let is_meant = |job: &Job| job.path.name == path.name && job.times == times;
        runs.iter().find(|(job, _)| is_meant(job)).map_or(0, |(_, run)| run.instructions)
    };
    let count = |path: &&'static CountedPath| {
        let counts: Vec<u64> = path.times.each().into_iter().map(|times| of(path, times)).collect();
        let instructions = path.times.instructions(&counts).context(path.name)?;
        Ok(Count { name: path.name, instructions })
    };
    let counts = paths.iter().map(count).collect::<anyhow::Result<_>>()?;
    Ok(Measured { platform: platform::describe(extensions), counts })
}

impl Job {
    /// Runs the child in a directory of its own.
    fn run(&self, program: &Path) -> anyhow::Result<valgrind::CountedRun> {
        let directory = tempfile::tempdir()?;
        self.path.prepare(directory.path())?;
        let times = self.times.to_string();
        valgrind::run(program, &["--path", self.path.name, "--times", &times], directory.path())
    }
}
