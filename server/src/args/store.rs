//! The flags of `kstore-server store`. Not what is done with them: that is `store_cmd`.

use super::{DEFAULT_DATA_DIR, Engine};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

pub(super) const HELP: &str = "\
No server may run on the directory meanwhile. From one that runs with --etcd-listen ADDR, take a snapshot with
`etcdctl --endpoints ADDR snapshot save FILE`; it is the same kind of file.

Exit codes: 0 all is well, 1 it could not be done, 2 the command line is wrong, 3 it was done but data is damaged or lost.

Examples:
  kstore-server store status
  kstore-server store verify --data-dir /var/lib/kstore
  kstore-server store snapshot save backup.db
  kstore-server store snapshot restore backup.db --data-dir ./restored
  kstore-server store salvage what-is-left.db
  kstore-server store alarm disarm --data-dir /var/lib/kstore";

const RESTORE_HELP: &str = "\
The file may come from `kstore-server store snapshot save`, or from `etcdctl snapshot save`, whatever served it: kstore
or an etcd. Leases begin with their full time to live. Users and rights of an etcd are left out.

Watchers and caches that outlive the lost store must not meet other changes under revisions that they have seen: move the
revision past all that the store may have reached since the snapshot, with --bump-revision and --mark-compacted.

Examples:
  kstore-server store snapshot restore backup.db --data-dir ./restored
  kstore-server store snapshot restore etcd.db --bump-revision 1000000000 --mark-compacted";

const DISARM_HELP: &str = "\
NOSPACE is raised at the quota or when the disk is nearly full, CORRUPT when stored data failed its checksum. Fix the cause first:
a cause that lasts raises the alarm again at the next write. NOSPACE of a disk that was nearly full clears itself when there is room. A running server with --etcd-listen ADDR is told with
`etcdctl --endpoints ADDR alarm disarm`.";

/// Work on the store's directory, or on a snapshot's file, without a server.
#[derive(Debug, Args)]
pub struct StoreArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: StoreCommand,
    /// How results are printed
    #[arg(long, value_enum, global = true, default_value_t = Output::Table)]
    pub output: Output,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people.
    Table,
    /// For programs.
    Json,
}

/// What can be done with a store that is not open.
#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Say what the directory holds
    Status(DirArgs),
    /// Read and check everything in the directory, and say what is wrong and where
    Verify(DirArgs),
    /// Save and restore snapshots, and look at them
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Save what can still be read of a damaged directory
    Salvage(SaveArgs),
    /// Disarm alarms, which refuse writes
    #[command(subcommand)]
    Alarm(AlarmCommand),
}

/// What can be done with alarms. `status` lists them.
#[derive(Debug, Subcommand)]
pub enum AlarmCommand {
    /// Disarm every alarm, so that writes are served again
    #[command(after_help = DISARM_HELP)]
    Disarm(DirArgs),
}

/// What can be done with snapshots.
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Save the directory's data to a file that etcd's tools understand, too
    Save(SaveArgs),
    /// Make a data directory from a snapshot, kstore's or etcd's
    #[command(after_help = RESTORE_HELP)]
    Restore(RestoreArgs),
    /// Check a snapshot and say what it holds
    Status {
        /// The snapshot
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// Where the store is.
#[derive(Debug, Args)]
pub struct DirArgs {
    /// The data directory
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DATA_DIR)]
    pub data_dir: PathBuf,
}

/// Where the store is, and where its data is to go.
#[derive(Debug, Args)]
pub struct SaveArgs {
    /// File to write; an existing file is replaced when the new one is complete
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Where the store is.
    #[command(flatten)]
    pub dir: DirArgs,
}

/// What to restore, where, and how.
#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// The snapshot
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Where the store is.
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
