//! Verification: reads every record of a state and checks it against its neighbours. It checks everything that opening
//! the directory does, and more.

use super::restore::Progress;
use super::state::SurveyedState;
use super::survey::{LogRange, Problem, Problems, Survey, SurveyError};
use crate::codec::etcd::EtcdRecord;
use crate::types::record::{Record, RecordKind};
use crate::{Alarm, KeyValue, Revision};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Status of a data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryStatus {
    /// The engine's name, as [`crate::EngineKind`] prints it.
    pub engine: &'static str,
    /// The random id of the data.
    pub identity: u64,
    /// The newest revision.
    pub revision: Revision,
    /// The oldest revision that can be read.
    pub compacted: Revision,
    /// Number of existing keys.
    pub keys: u64,
    /// Number of history records, without notes.
    pub records: u64,
    /// Bytes of the history records.
    pub record_bytes: u64,
    /// Number of leases.
    pub leases: u64,
    /// The raised alarms, ascending.
    pub alarms: Vec<Alarm>,
    /// The log's sequence number at the last checkpoint.
    pub checkpoint: u64,
    /// Size of the engine's files in bytes.
    pub engine_bytes: u64,
    /// The range of the log.
    pub log: LogRange,
}

/// Result of verifying a data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyReport {
    /// The directory's status, as far as it is readable.
    pub status: DirectoryStatus,
    /// The problems found; empty if there are none. At most a thousand.
    pub problems: Vec<Problem>,
}

/// Verifies a data directory: reads every record of log, manifests and engine, and checks the checksums and the chain
/// of the log. Also checks that each version is a valid successor of the previous one. Changes nothing.
pub fn verify(dir: &Path, progress: &mut Progress<'_>) -> Result<VerifyReport, SurveyError> {
    Ok(examine(Survey::take(dir)?, progress))
}

/// Verifies like [`verify`], and passes each existing key to `visit`, in ascending order.
pub fn verify_keys(
    dir: &Path,
    visit: &mut dyn FnMut(&[u8]),
    progress: &mut Progress<'_>,
) -> Result<VerifyReport, SurveyError> {
    Ok(examine_keys(Survey::take(dir)?, visit, progress))
}

pub(super) fn examine(survey: Survey, progress: &mut Progress<'_>) -> VerifyReport {
    examine_keys(survey, &mut |_| {}, progress)
}

fn examine_keys(
    mut survey: Survey,
    visit: &mut dyn FnMut(&[u8]),
    progress: &mut Progress<'_>,
) -> VerifyReport {
    let state = SurveyedState::of(&mut survey);
    let mut check = Verifier {
        compacted: state.durable.compacted,
        engine: survey.dir.join("engine"),
        keys: BTreeMap::new(),
        records: 0,
        bytes: 0,
        problems: std::mem::take(&mut survey.problems),
    };
    let whole = state.whole_upto();
    if whole < state.durable.revision {
        let detail = format!("records of revision {} are missing", whole.next());
        check.problems.add(&check.engine, None, detail);
    }
    let total = state.records.len() as u64;
    for (done, (key, located)) in (0..).zip(&state.records) {
        if done % 4_096 == 0 {
            progress(done, total);
        }
        match survey.found.read(*key, located) {
            Ok(Some(record)) => check.record(&record),
            Ok(None) => check.wrong(key.main, "is damaged when read again"),
            Err(error) => check.wrong(key.main, &error.to_string()),
        }
    }
    progress(total, total);
    let existing = check.keys.iter().filter(|(_, known)| !known.dead);
    existing.for_each(|(key, _)| visit(key));
    let status = DirectoryStatus {
        engine: survey.engine.name(),
        identity: survey.cluster,
        revision: state.durable.revision,
        compacted: state.durable.compacted,
        keys: check.keys.values().filter(|known| !known.dead).count() as u64,
        records: check.records,
        record_bytes: check.bytes,
        leases: state.durable.leases.len() as u64,
        alarms: state.durable.alarms.iter().collect(),
        checkpoint: survey.manifest.as_ref().map_or(0, |manifest| manifest.state.seq),
        engine_bytes: survey.found.bytes,
        log: survey.log,
    };
    VerifyReport { status, problems: check.problems.list }
}

/// The newest version of a key so far.
struct LastVersion {
    create: Revision,
    version: i64,
    dead: bool,
}

struct Verifier {
    compacted: Revision,
    engine: PathBuf,
    keys: BTreeMap<Box<[u8]>, LastVersion>,
    records: u64,
    bytes: u64,
    problems: Problems,
}

impl Verifier {
    fn wrong(&mut self, revision: Revision, what: &str) {
        self.problems.add(&self.engine, None, format!("a record of revision {revision} {what}"));
    }

    fn record(&mut self, record: &Record) {
        self.bytes += record.bytes.len() as u64;
        let main = record.key.main;
        let dead = match record.kind {
            RecordKind::Put => false,
            RecordKind::Delete => true,
            RecordKind::Note => return,
        };
        self.records += 1;
        let decoded = EtcdRecord::of(record).ok().and_then(|_| KeyValue::decode(record.bytes.clone()));
        let Some(kv) = decoded.filter(|kv| kv.mod_revision() == main && !kv.key().is_empty()) else {
            return self.wrong(main, "is not a version of that revision");
        };
        let known = self.keys.get(kv.key());
        // Below the compacted revision, the previous version may be gone.
        if main > self.compacted && !follows(known, &kv, dead) {
            let key = kv.key().escape_ascii().to_string();
            self.wrong(main, &format!("is no valid successor of the previous version of key {key}"));
        }
        let known = LastVersion { create: kv.create_revision(), version: kv.version(), dead };
        self.keys.insert(kv.key().into(), known);
    }
}

/// Whether a version is a valid successor of the last known version of its key.
fn follows(known: Option<&LastVersion>, kv: &KeyValue, dead: bool) -> bool {
    match known.filter(|known| !known.dead) {
        _ if dead && known.is_none_or(|known| known.dead) => false,
        _ if dead => true,
        None => kv.version() == 1 && kv.create_revision() == kv.mod_revision(),
        Some(known) => kv.version() == known.version + 1 && kv.create_revision() == known.create,
    }
}
