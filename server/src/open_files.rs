//! Raises the limit of open files at start and derives the largest number of network connections from it. The
//! apiserver counts connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{info, warn};

/// File descriptors reserved for files that are not connections: log, engine and snapshot files, listeners,
/// streams to pods.
const RESERVE: u64 = 256;

/// Limit assumed if the system reports none.
const UNLIMITED: u64 = 1 << 20;

/// Raises the soft limit of open files to the hard limit and returns the largest number of open connections.
/// If raising fails, the current limit is used.
pub(crate) fn raise() -> usize {
    let before = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: before.maximum, maximum: before.maximum };
    if before.current != before.maximum
        && let Err(error) = setrlimit(Resource::Nofile, wanted)
    {
        warn!(%error, "cannot raise the limit of open files");
    }
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(UNLIMITED);
    let connections = connections(limit);
    info!(limit, connections, "open files");
    connections
}

/// Largest number of connections under a limit of open files.
fn connections(limit: u64) -> usize {
    // Under a small limit a quarter is reserved, which is what an idle server needs.
    let reserve = RESERVE.min(limit / 4);
    usize::try_from((limit - reserve).max(1)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_to_the_store() {
        for (limit, expected) in [(1024, 768), (65_536, 65_280), (64, 48), (0, 1), (1, 1)] {
            assert_eq!(connections(limit), expected, "{limit}");
        }
    }

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_one() {
        raise();
        let limits = getrlimit(Resource::Nofile);
        assert_eq!(limits.current, limits.maximum);
    }
}
