//! Flags of `kstore-server store`, which `store_cmd` carries out.

use super::command::{given, subcommand};
use super::flag::{Choice, Flag, chosen, put, required, words};
use super::number::count;
use super::parser::{self, add};
use super::{DEFAULT_DATA_DIR, Engine};
use clap::{ArgMatches, Command};
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

const OUTPUT: &[Flag<Output>] =
    &[Flag::choice(("output", "OUTPUT"), words::<Output>, |o, word| put(o, chosen(word)), "Output format")
        .default("table")
        .shaped(|arg| arg.global(true).display_order(99))];

const DIR: &[Flag<DirArgs>] = &[data_dir(|o: &mut DirArgs, path| o.data_dir = path)];

const SAVE: &[Flag<SaveArgs>] = &[
    Flag::path(
        "file",
        "FILE",
        |o: &mut SaveArgs, path| o.file = path,
        "File to write; an existing file is replaced when the new one is complete",
    )
    .positional()
    .shaped(required),
    data_dir(|o: &mut SaveArgs, path| o.dir.data_dir = path),
];

const RESTORE: &[Flag<RestoreArgs>] = &[
    snapshot(|o: &mut RestoreArgs, path| o.file = path),
    data_dir(|o: &mut RestoreArgs, path| o.dir.data_dir = path),
    Flag::choice(
        ("engine", "ENGINE"),
        words::<Engine>,
        |o: &mut RestoreArgs, word| put(&mut o.engine, chosen(word)),
        "Storage engine of the history; start the server with the same",
    )
    .default("segments"),
    Flag::switch(
        "skip-hash-check",
        |o: &mut RestoreArgs| o.skip_hash_check = true,
        "Accept a file without a checksum, such as the database of an etcd's data directory",
    ),
    Flag::value(
        "bump-revision",
        "N",
        |o: &mut RestoreArgs, text| put(&mut o.bump_revision, count(text)),
        "Raise the revision by N",
    )
    .default("0")
    .shaped(|arg| arg.requires("mark-compacted")),
    Flag::switch(
        "mark-compacted",
        |o: &mut RestoreArgs| o.mark_compacted = true,
        "Mark all history before the raised revision as compacted",
    )
    .shaped(|arg| arg.requires("bump-revision")),
];

const SNAPSHOT: &[Flag<PathBuf>] = &[snapshot(|o, path| *o = path)];

/// The flag of a store's directory.
const fn data_dir<O>(set: fn(&mut O, PathBuf)) -> Flag<O> {
    Flag::path("data-dir", "DIR", set, "The data directory").default(DEFAULT_DATA_DIR)
}

/// The argument of a snapshot to read.
const fn snapshot<O>(set: fn(&mut O, PathBuf)) -> Flag<O> {
    Flag::path("file", "FILE", set, "The snapshot").positional().shaped(required)
}

/// Adds flags and subcommands of `store`.
pub(super) fn build(command: Command) -> Command {
    let needs_subcommand = |command: Command| command.subcommand_required(true).arg_required_else_help(true);
    let snapshot = subcommand("snapshot", "Save, restore and inspect snapshots", "").subcommands([
        add(
            subcommand("save", "Save the directory's data to a file that etcd's tools can read, too", ""),
            SAVE,
        ),
        add(
            subcommand("restore", "Create a data directory from a snapshot of kstore or etcd", RESTORE_HELP),
            RESTORE,
        ),
        add(subcommand("status", "Check a snapshot and show what it contains", ""), SNAPSHOT),
    ]);
    let disarm = subcommand("disarm", "Disarm every alarm, so that writes are served again", DISARM_HELP);
    let alarm = subcommand("alarm", "Disarm alarms, which refuse writes", "").subcommand(add(disarm, DIR));
    let verify = "Read and check everything in the directory; report each problem and its location";
    let salvage = subcommand("salvage", "Save what can still be read of a damaged directory", "");
    needs_subcommand(add(command, OUTPUT)).subcommands([
        add(subcommand("status", "Show what the directory contains", ""), DIR),
        add(subcommand("verify", verify, ""), DIR),
        needs_subcommand(snapshot),
        add(salvage, SAVE),
        needs_subcommand(alarm),
    ])
}

/// Reads the arguments of `store`.
pub(super) fn read(matches: &ArgMatches) -> Result<StoreArgs, clap::Error> {
    let output = parser::read(OUTPUT, matches)?;
    let command = match given(matches)? {
        ("status", dir) => StoreCommand::Status(parser::read(DIR, dir)?),
        ("verify", dir) => StoreCommand::Verify(parser::read(DIR, dir)?),
        ("snapshot", snapshot) => StoreCommand::Snapshot(match given(snapshot)? {
            ("save", save) => SnapshotCommand::Save(parser::read(SAVE, save)?),
            ("restore", restore) => SnapshotCommand::Restore(parser::read(RESTORE, restore)?),
            (_, status) => SnapshotCommand::Status { file: parser::read(SNAPSHOT, status)? },
        }),
        ("salvage", save) => StoreCommand::Salvage(parser::read(SAVE, save)?),
        (_, alarm) => StoreCommand::Alarm(AlarmCommand::Disarm(parser::read(DIR, given(alarm)?.1)?)),
    };
    Ok(StoreArgs { command, output })
}

/// Arguments of `store`: work on a data directory or a snapshot file without a server.
#[derive(Debug)]
pub struct StoreArgs {
    /// Subcommand.
    pub command: StoreCommand,
    /// Output format
    pub output: Output,
}

/// Output format of results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Output {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
}

impl Choice for Output {
    const WORDS: &'static [(&'static str, Self, &'static str)] =
        &[("table", Self::Table, "For people"), ("json", Self::Json, "For programs")];
}

/// Subcommands of `store`. They need a store that no server has open.
#[derive(Debug)]
pub enum StoreCommand {
    /// Show what the directory contains
    Status(DirArgs),
    /// Read and check everything in the directory; report each problem and its location
    Verify(DirArgs),
    /// Save, restore and inspect snapshots
    Snapshot(SnapshotCommand),
    /// Save what can still be read of a damaged directory
    Salvage(SaveArgs),
    /// Disarm alarms, which refuse writes
    Alarm(AlarmCommand),
}

/// Subcommands on alarms; `status` lists alarms.
#[derive(Debug)]
pub enum AlarmCommand {
    /// Disarm every alarm, so that writes are served again
    Disarm(DirArgs),
}

/// Subcommands on snapshots.
#[derive(Debug)]
pub enum SnapshotCommand {
    /// Save the directory's data to a file that etcd's tools can read, too
    Save(SaveArgs),
    /// Create a data directory from a snapshot of kstore or etcd
    Restore(RestoreArgs),
    /// Check a snapshot and show what it contains
    Status {
        /// The snapshot
        file: PathBuf,
    },
}

/// The directory of a store.
#[derive(Debug, Default)]
pub struct DirArgs {
    /// The data directory
    pub data_dir: PathBuf,
}

/// The directory of a store, and the file to write.
#[derive(Debug, Default)]
pub struct SaveArgs {
    /// File to write; an existing file is replaced when the new one is complete
    pub file: PathBuf,
    /// The directory of the store.
    pub dir: DirArgs,
}

/// A snapshot, its target directory, and how it is restored.
#[derive(Debug, Default)]
pub struct RestoreArgs {
    /// The snapshot
    pub file: PathBuf,
    /// The directory of the store.
    pub dir: DirArgs,
    /// Storage engine of the history; start the server with the same
    pub engine: Engine,
    /// Accept a file without a checksum, such as the database of an etcd's data directory
    pub skip_hash_check: bool,
    /// Raise the revision by N
    pub bump_revision: u64,
    /// Mark all history before the raised revision as compacted
    pub mark_compacted: bool,
}
