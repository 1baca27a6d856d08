//! `kstore-server store`: work on a data directory or a snapshot without a server. The work is the store's; here are its
//! arguments, its answers on the terminal, and exit codes.

mod print;
mod progress;

use crate::args::{
    AlarmCommand, Engine, Output, RestoreArgs, SaveArgs, SnapshotCommand, StoreArgs, StoreCommand,
};
use anyhow::{Context, bail};
use kstore_nondet::Nondet;
use kstore_store::maintenance::{self, ExportError, Restore, SurveyError};
use kstore_store::{Alarm, Config, EngineKind, OpenError, Store};
use progress::Meter;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;

/// It was done, but data is damaged or lost.
const DAMAGED: u8 = 3;

/// Carries out one command.
pub(crate) fn run(args: StoreArgs) -> anyhow::Result<ExitCode> {
    let output = args.output;
    match args.command {
        StoreCommand::Status(dir) => examine(&dir.data_dir, output, false),
        StoreCommand::Verify(dir) => examine(&dir.data_dir, output, true),
        StoreCommand::Salvage(save) => salvage(&save, output),
        StoreCommand::Alarm(AlarmCommand::Disarm(args)) => disarm(&args.data_dir, output),
        StoreCommand::Snapshot(SnapshotCommand::Save(args)) => save(&args, output),
        StoreCommand::Snapshot(SnapshotCommand::Restore(args)) => restore(args, output),
        StoreCommand::Snapshot(SnapshotCommand::Status { file }) => snapshot_status(&file, output),
    }
}

/// `status` and `verify` read the same; they differ in what is the answer.
fn examine(dir: &Path, output: Output, judge: bool) -> anyhow::Result<ExitCode> {
    let mut meter = Meter::new("checked");
    let examined = maintenance::verify(dir, &mut |done, total| meter.at(done, total))?;
    drop(meter);
    print::answer(output, &print::examined(&examined, judge));
    let sound = examined.problems.is_empty();
    if !sound && !judge {
        eprintln!("kstore-server: the directory is damaged; `kstore-server store verify` says where");
    }
    Ok(if sound { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) })
}

fn save(args: &SaveArgs, output: Output) -> anyhow::Result<ExitCode> {
    let mut meter = Meter::new("saved");
    let saved = maintenance::save(&args.dir.data_dir, &args.file, &mut |done, total| meter.at(done, total));
    drop(meter);
    let in_use =
        matches!(saved, Err(ExportError::Directory(SurveyError::Directory(OpenError::LockedBy { .. }))));
    let info = if in_use {
        saved.context(
            "no snapshot was taken; with --etcd-listen ADDR a running server gives one to \
             `etcdctl --endpoints ADDR snapshot save FILE`",
        )
    } else {
        saved.map_err(Into::into)
    }?;
    let file = args.file.display().to_string();
    let answer =
        json!({"file": file, "revision": info.revision.0, "records": info.records, "bytes": info.bytes});
    print::answer(output, &answer);
    Ok(ExitCode::SUCCESS)
}

fn salvage(args: &SaveArgs, output: Output) -> anyhow::Result<ExitCode> {
    let mut meter = Meter::new("salvaged");
    let salvaged =
        maintenance::salvage(&args.dir.data_dir, &args.file, &mut |done, total| meter.at(done, total))?;
    drop(meter);
    print::answer(output, &print::salvaged(&args.file, &salvaged));
    let complete = salvaged.holes == 0 && salvaged.snapshot.revision == salvaged.newest;
    let whole = complete && salvaged.problems.is_empty();
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) })
}

/// Opens the store as a server does, so that what is taken back is as durable as any write.
fn disarm(dir: &Path, output: Output) -> anyhow::Result<ExitCode> {
    let mut meter = Meter::new("checked");
    let status = maintenance::verify(dir, &mut |done, total| meter.at(done, total))?.status;
    drop(meter);
    if !status.alarms.is_empty() {
        let engine = if status.engine == "sled" { EngineKind::Sled } else { EngineKind::Segments };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(take_back(Config { engine, ..Config::durable(dir) }, &status.alarms))?;
    }
    let disarmed: Vec<_> = status.alarms.into_iter().map(print::alarm).collect();
    print::answer(output, &json!({"directory": dir.display().to_string(), "disarmed": disarmed}));
    Ok(ExitCode::SUCCESS)
}

async fn take_back(config: Config, alarms: &[Alarm]) -> anyhow::Result<()> {
    let store = Store::open(config, Nondet::real()).await?;
    for alarm in alarms {
        store.alarm_disarm(*alarm).await?;
    }
    store.close().await;
    Ok(())
}

fn restore(args: RestoreArgs, output: Output) -> anyhow::Result<ExitCode> {
    if args.mark_compacted && args.bump_revision == 0 {
        bail!("--mark-compacted needs --bump-revision with more than 0");
    }
    let dir = args.dir.data_dir;
    let request = Restore {
        snapshot: args.file,
        dir: dir.clone(),
        engine: match args.engine {
            Engine::Segments => EngineKind::Segments,
            Engine::Sled => EngineKind::Sled,
        },
        unchecked: args.skip_hash_check,
        bump: args.bump_revision,
    };
    let mut meter = Meter::new("restored");
    let restored =
        maintenance::restore(&request, &Nondet::real().rng, &mut |done, total| meter.at(done, total))?;
    drop(meter);
    let answer = json!({
        "directory": dir.display().to_string(),
        "revision": restored.revision.0,
        "compacted": restored.compacted.0,
        "records": restored.records,
        "leases": restored.leases,
    });
    print::answer(output, &answer);
    if restored.users_left_out {
        eprintln!(
            "kstore-server: the snapshot's users and their rights were left out: kstore's etcd API admits by \
             certificate, not by password"
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn snapshot_status(file: &Path, output: Output) -> anyhow::Result<ExitCode> {
    let status = maintenance::snapshot_status(file)?;
    let answer = json!({
        "hash": format!("{:x}", status.hash),
        "revision": status.revision.0,
        "entries": status.entries,
        "bytes": status.bytes,
        "checksum": if status.checked { "right" } else { "none" },
    });
    print::answer(output, &answer);
    Ok(ExitCode::SUCCESS)
}
