//! Flags of `kstore-server store`, which `store_cmd` carries out.

use super::{DEFAULT_DATA_DIR, Engine};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

pub(super) const HELP: &str = "\
No server may use the directory at the same time. A running server with --etcd-listen ADDR gives a snapshot to \
`etcdctl --endpoints ADDR snapshot save FILE`, in the same file format.

Exit codes: 0 success, 1 failure, 2 invalid command line, 3 done but data is damaged or lost.

Examples:
  kstore-server store status
  kstore-server store verify --data-dir /var/lib/kstore
  kstore-server store snapshot save backup.db
  kstore-server store snapshot restore backup.db --data-dir ./restored
  kstore-server store salvage what-is-left.db
  kstore-server store alarm disarm --data-dir /var/lib/kstore";

const RESTORE_HELP: &str = "\
FILE may come from `kstore-server store snapshot save`, or from `etcdctl snapshot save` with a server of kstore \
or etcd. Leases start with their full time to live. Users and roles of an etcd are left out.

Watchers and caches of the lost store must not see other changes under revisions that they already have: raise the \
revision beyond the lost store's last one, with --bump-revision and --mark-compacted.

Examples:
  kstore-server store snapshot restore backup.db --data-dir ./restored
  kstore-server store snapshot restore etcd.db --bump-revision 1000000000 --mark-compacted";

const DISARM_HELP: &str = "\
NOSPACE is raised at the quota or when the disk is nearly full, CORRUPT when stored data fails its checksum. Fix the cause \
first, or the next write raises the alarm again. NOSPACE of a nearly full disk clears itself when space is free again. \
For a running server with --etcd-listen ADDR, use \
`etcdctl --endpoints ADDR alarm disarm`.";

/// Arguments of `store`: work on a data directory or a snapshot file without a server.
#[derive(Debug, Args)]
pub struct StoreArgs {
    /// Subcommand.
    #[command(subcommand)]
    pub command: StoreCommand,
    /// Output format
    #[arg(long, value_enum, global = true, default_value_t = Output::Table)]
    pub output: Output,
}

/// Output format of results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// Subcommands of `store`. They need a store that no server has open.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Show what the directory contains
    Status(DirArgs),
    /// Read and check everything in the directory; report each problem and its location
    Verify(DirArgs),
    /// Save, restore and inspect snapshots
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Save what can still be read of a damaged directory
    Salvage(SaveArgs),
    /// Disarm alarms, which refuse writes
    #[command(subcommand)]
    Alarm(AlarmCommand),
}

/// Subcommands on alarms; `status` lists alarms.
#[derive(Debug, Subcommand)]
pub enum AlarmCommand {
    /// Disarm every alarm, so that writes are served again
    #[command(after_help = DISARM_HELP)]
    Disarm(DirArgs),
}

/// Subcommands on snapshots.
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Save the directory's data to a file that etcd's tools can read, too
    Save(SaveArgs),
    /// Create a data directory from a snapshot of kstore or etcd
    #[command(after_help = RESTORE_HELP)]
    Restore(RestoreArgs),
    /// Check a snapshot and show what it contains
    Status {
        /// The snapshot
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// The directory of a store.
#[derive(Debug, Args)]
pub struct DirArgs {
    /// The data directory
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DATA_DIR)]
    pub data_dir: PathBuf,
}

/// The directory of a store, and the file to write.
#[derive(Debug, Args)]
pub struct SaveArgs {
    /// File to write; an existing file is replaced when the new one is complete
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The directory of the store.
    #[command(flatten)]
    pub dir: DirArgs,
}

/// A snapshot, its target directory, and how it is restored.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// The snapshot
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The directory of the store.
    #[command(flatten)]
    pub dir: DirArgs,
    /// Storage engine of the history; start the server with the same
    #[arg(long, value_enum, default_value_t = Engine::Segments)]
    pub engine: Engine,
    /// Accept a file without a checksum, such as the database of an etcd's data directory
    #[arg(long)]
    pub skip_hash_check: bool,
    /// Raise the revision by N
    #[arg(long, value_name = "N", default_value_t = 0, requires = "mark_compacted", value_parser = super::number::count::<u64>)]
    pub bump_revision: u64,
    /// Mark all history before the raised revision as compacted
    #[arg(long, requires = "bump_revision")]
    pub mark_compacted: bool,
}
