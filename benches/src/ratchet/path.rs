//! [`PATHS`]: the counted paths.

use super::{etcd, informer, pod, requests, restart, scheduler, start, watch};
use anyhow::Context;
use std::path::Path;

/// A path whose instructions are counted.
pub(super) struct CountedPath {
    /// The name in the table and in the file of accepted counts.
    pub(super) name: &'static str,
    /// How often the operation is run.
    pub(super) times: Times,
    /// Runs the operation this often, in this process, and ends the process.
    run: fn(u64) -> anyhow::Result<()>,
    /// Fills the working directory of a child, before it is started.
    prepare: Option<fn(&Path) -> anyhow::Result<()>>,
}

/// How the cost of one operation is derived from counts of whole processes.
#[derive(Clone, Copy)]
pub(super) enum Times {
    /// The count of a process that runs the operation once.
    Once,
    /// The difference between the counts of two processes per additional operation; all preparation cancels out.
    Between(u64, u64),
}

/// All paths. Long ones are first, so that the last child does not run alone for long.
pub(super) static PATHS: [CountedPath; 12] = [
    CountedPath::prepared("restart", Times::Once, restart::run, restart::prepare),
    CountedPath::new("pod", Times::Between(5, 25), pod::run),
    CountedPath::new("list-page", Times::Between(2, 12), requests::list_page),
    CountedPath::new("scheduler-decision", Times::Between(50, 250), scheduler::run),
    CountedPath::new("watch-dispatch", Times::Between(10, 50), watch::run),
    CountedPath::new("start", Times::Once, start::run),
    CountedPath::new("create", Times::Between(50, 250), requests::create),
    CountedPath::new("get", Times::Between(100, 500), requests::get),
    CountedPath::new("patch", Times::Between(50, 250), requests::patch),
    CountedPath::new("etcd-put", Times::Between(500, 2_500), etcd::put),
    CountedPath::new("etcd-range", Times::Between(500, 2_500), etcd::range),
    CountedPath::new("informer-apply", Times::Between(200, 1_200), informer::run),
];

/// The path with this name.
///
/// # Errors
///
/// There is none.
pub(super) fn named(name: &str) -> anyhow::Result<&'static CountedPath> {
    let names = || PATHS.iter().map(|path| path.name).collect::<Vec<_>>().join(", ");
    let found = PATHS.iter().find(|path| path.name == name);
    found.with_context(|| format!("there is no path `{name}`, but {}", names()))
}

impl CountedPath {
    const fn new(name: &'static str, times: Times, run: fn(u64) -> anyhow::Result<()>) -> Self {
        Self { name, times, run, prepare: None }
    }

    const fn prepared(
        name: &'static str,
        times: Times,
        run: fn(u64) -> anyhow::Result<()>,
        prepare: fn(&Path) -> anyhow::Result<()>,
    ) -> Self {
        Self { name, times, run, prepare: Some(prepare) }
    }

    /// Runs the operation `times` times in this process. Ends the process, unless it fails.
    ///
    /// # Errors
    ///
    /// An operation fails.
    pub(super) fn run(&self, times: u64) -> anyhow::Result<()> {
        (self.run)(times)
    }

    /// Fills the working directory of a child.
    ///
    /// # Errors
    ///
    /// The preparation fails.
    pub(super) fn prepare(&self, directory: &Path) -> anyhow::Result<()> {
        self.prepare.map_or(Ok(()), |prepare| prepare(directory))
    }
}

impl Times {
    /// The numbers of operations, one per child.
    pub(super) fn each(self) -> Vec<u64> {
        match self {
            Self::Once => vec![1],
            Self::Between(few, many) => vec![few, many],
        }
    }

    /// Instructions of one operation, from the counts of the children of [`Times::each`].
    ///
    /// # Errors
    ///
    /// More operations took fewer instructions: the path does not depend on their number.
    pub(super) fn instructions(self, counts: &[u64]) -> anyhow::Result<u64> {
        match (self, counts) {
            (Self::Once, &[count]) => Ok(count),
            (Self::Between(few, many), &[with_few, with_many]) => {
                let more = with_many.checked_sub(with_few).filter(|more| *more > 0);
                let more = more.context("more operations took no more instructions")?;
                Ok(more / (many - few))
            }
            _ => anyhow::bail!("{} counts for {} children", counts.len(), self.each().len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preparation_cancels_out() {
        let times = Times::Between(10, 30);
        assert_eq!(times.instructions(&[5_000 + 10 * 7, 5_000 + 30 * 7]).unwrap(), 7);
        assert!(times.instructions(&[5_000, 5_000]).is_err());
        assert_eq!(Times::Once.instructions(&[5_000]).unwrap(), 5_000);
    }

    #[test]
    fn names_are_unique_and_fit_into_a_line() {
        for (at, path) in PATHS.iter().enumerate() {
            assert!(path.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", path.name);
            assert!(PATHS[..at].iter().all(|other| other.name != path.name), "{}", path.name);
        }
        assert!(named("get").is_ok() && named("got").is_err());
    }
}
