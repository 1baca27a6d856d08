//! `kstore-server store`: work on a data directory or a snapshot file without a server. The crate `store`
//! does the work; this module converts arguments, prints results and chooses exit codes.

mod print;
mod progress;
mod status;
mod unreadable;

use crate::args::{
    AlarmCommand, Engine, Output, RestoreArgs, SaveArgs, SnapshotCommand, StoreArgs, StoreCommand,
};
use crate::data_dir;
use crate::data_version::DataVersion;
use anyhow::{Context, bail};
use kstore_nondet::Nondet;
use kstore_storage::storage_key::DATA_VERSION;
use kstore_store::maintenance::{self, ExportError, Restore, SurveyError};
use kstore_store::{Alarm, Config, EngineKind, OpenError, Store};
use progress::ProgressMeter;
use serde_json::json;
use std::path::Path;
use std::process::ExitCode;
use unreadable::UnreadableValues;

/// Exit code of a completed command that found damaged or lost data.
const DAMAGED: u8 = 3;

/// Executes one command.
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

/// `status` and `verify`, which read the same data. Only `verify` prints the problems.
fn examine(dir: &Path, output: Output, with_problems: bool) -> anyhow::Result<ExitCode> {
    let (mut meter, mut kinds) = (ProgressMeter::new("checked"), status::KeyCounts::default());
    let examined =
        maintenance::verify_keys(dir, &mut |key| kinds.add(key), &mut |done, total| meter.at(done, total))?;
    drop(meter);
    let version = DataVersion::read(dir)?;
    match output {
        Output::Table if !with_problems => {
            print::text(&status::table(dir, version.as_ref(), &examined.status, &kinds));
        }
        Output::Table | Output::Json => {
            print::answer(output, &print::examined(&examined, version.as_ref(), with_problems));
        }
    }
    let is_sound = examined.problems.is_empty();
    if !is_sound && !with_problems {
        eprintln!("kstore-server: the directory is damaged; run `kstore-server store verify` for details");
    }
    Ok(if is_sound { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) })
}

fn save(args: &SaveArgs, output: Output) -> anyhow::Result<ExitCode> {
    let mut meter = ProgressMeter::new("saved");
    let saved = maintenance::save(&args.dir.data_dir, &args.file, &mut |done, total| meter.at(done, total));
    drop(meter);
    let in_use =
        matches!(saved, Err(ExportError::Directory(SurveyError::Directory(OpenError::LockedBy { .. }))));
    let info = if in_use {
        saved.context(
            "no snapshot was taken; take one from a running server with --etcd-listen ADDR by \
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
    let mut meter = ProgressMeter::new("salvaged");
    let salvaged =
        maintenance::salvage(&args.dir.data_dir, &args.file, &mut |done, total| meter.at(done, total))?;
    drop(meter);
    print::answer(output, &print::salvaged(&args.file, &salvaged, output));
    let is_intact = salvaged.lost.is_empty() && salvaged.problems.is_empty();
    if !salvaged.lost.is_empty() {
        let is_known = !salvaged.lost.revisions.is_empty();
        let what = if is_known { "data is lost" } else { "data may be lost" };
        eprintln!(
            "kstore-server: {what}: restore the file with --bump-revision 1000000 --mark-compacted, so that \
             clients list again"
        );
    }
    Ok(if is_intact { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) })
}

/// Disarms alarms. Opens the store as a server does, so that the change is as durable as any write.
fn disarm(dir: &Path, output: Output) -> anyhow::Result<ExitCode> {
    let mut meter = ProgressMeter::new("checked");
    let status = maintenance::verify(dir, &mut |done, total| meter.at(done, total))?.status;
    drop(meter);
    if !status.alarms.is_empty() {
        let engine = if status.engine == "sled" { EngineKind::Sled } else { EngineKind::Segments };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(disarm_all(Config { engine, ..Config::durable(dir) }, &status.alarms))?;
    }
    let disarmed: Vec<_> = status.alarms.into_iter().map(print::alarm).collect();
    print::answer(output, &json!({"directory": dir.display().to_string(), "disarmed": disarmed}));
    Ok(ExitCode::SUCCESS)
}

async fn disarm_all(config: Config, alarms: &[Alarm]) -> anyhow::Result<()> {
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
    data_dir::refuse_foreign(&dir)?;
    let (mut meter, mut unreadable) = (ProgressMeter::new("restored"), UnreadableValues::default());
    let mut kubernetes = None;
    let restored = maintenance::restore_visiting(
        &request,
        &Nondet::real().rng,
        &mut |version, is_deletion| {
            if version.key() == DATA_VERSION.as_bytes() {
                let text = String::from_utf8_lossy(version.value());
                kubernetes = DataVersion::parse(&text).filter(|_| !is_deletion);
            }
            unreadable.visit(version, is_deletion);
        },
        &mut |done, total| meter.at(done, total),
    )?;
    drop(meter);
    if let Some(kubernetes) = &kubernetes {
        kubernetes.write(&dir)?;
    }
    let answer = json!({
        "directory": dir.display().to_string(),
        "revision": restored.revision.0,
        "compacted": restored.compacted.0,
        "records": restored.records,
        "leases": restored.leases,
    });
    print::answer(output, &answer);
    if let Some(text) = unreadable.text() {
        eprintln!("kstore-server: {text}");
    }
    if restored.users_left_out {
        eprintln!(
            "kstore-server: users and roles of the snapshot were left out: kstore's etcd API authenticates by \
             client certificate, not by password"
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
