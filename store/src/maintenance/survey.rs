//! Survey of a data directory: reads manifests, engine records and log without changing them. Damage is recorded and
//! skipped, so that later content is found too. `state` decides what is current.

use super::data_dir;
use super::engine_files::{self, EngineRecords, read_around};
use crate::codec::frame::SegmentHeader;
use crate::codec::manifest::{Manifest, decode};
use crate::codec::record::LogRecord;
use crate::disk::real::{DirLock, RealDisk};
use crate::disk::{Disk, read_all};
use crate::types::commit::Commit;
use crate::types::error::OpenError;
use crate::types::record::{Record, RecordKey};
use crate::wal::{self, SegmentBytes, WalSegments, read_around_damage};
use crate::{EngineKind, manifest};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A problem found in a data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// The offset of the problem, if it has one.
    pub offset: Option<u64>,
    /// Description of the problem.
    pub detail: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(offset) = self.offset {
            write!(f, ", byte {offset}")?;
        }
        write!(f, ": {}", self.detail)
    }
}

/// Why a data directory cannot be surveyed.
#[derive(Debug, thiserror::Error)]
pub enum SurveyError {
    /// The directory contains no store.
    #[error("{} contains no store", dir.display())]
    NoStore {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory is in use or cannot be read.
    #[error(transparent)]
    Directory(#[from] OpenError),
}

/// Most problems that are listed.
const PROBLEMS: usize = 1_000;

/// A bounded list of problems.
#[derive(Debug, Default)]
pub(super) struct Problems {
    pub(super) list: Vec<Problem>,
}

impl Problems {
    pub(super) fn add(&mut self, file: &Path, offset: Option<u64>, detail: impl Into<String>) {
        if self.list.len() < PROBLEMS {
            self.list.push(Problem { file: file.to_owned(), offset, detail: detail.into() });
        }
    }
}

/// A commit of the log with its records.
#[derive(Debug)]
pub(super) struct LogCommit {
    /// The commit, without events: a record of it may be damaged.
    pub(super) commit: Commit,
    pub(super) records: Vec<Record>,
}

impl LogCommit {
    fn of(record: LogRecord<'_>) -> Self {
        Self { commit: record.effects(), records: record.records().collect() }
    }
}

/// The range of records in a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogRange {
    /// Sequence number of the first record; zero if there is no log.
    pub first: u64,
    /// Sequence number of the last record.
    pub last: u64,
    /// Number of files.
    pub files: u64,
    /// Total size of the files in bytes.
    pub bytes: u64,
}

/// The content of a data directory, with its problems.
pub(super) struct Survey {
    pub(super) dir: PathBuf,
    /// The newest intact manifest.
    pub(super) manifest: Option<Manifest>,
    pub(super) engine: EngineKind,
    pub(super) found: EngineRecords,
    pub(super) log: LogRange,
    /// The random id of the data.
    pub(super) cluster: u64,
    /// The commits of the log, in order, as far as they are readable.
    pub(super) logged: Vec<LogCommit>,
    pub(super) problems: Problems,
    _lock: Option<DirLock>,
}

impl Survey {
    /// Surveys a directory and locks it meanwhile.
    pub(super) fn take(dir: &Path) -> Result<Self, SurveyError> {
        let none = || SurveyError::NoStore { dir: dir.to_owned() };
        if !dir.is_dir() {
            return Err(none());
        }
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let names = disk.list(dir).map_err(|source| OpenError::Io { path: dir.to_owned(), source })?;
        if !names.iter().any(|name| manifest::is_manifest(name)) && !dir.join("wal").is_dir() {
            return Err(none());
        }
        let lock = DirLock::take(dir)?;
        Ok(Self { _lock: Some(lock), ..Self::on(&disk, dir)? })
    }

    /// Surveys a directory on any disk, without locking it.
    pub(super) fn on(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Self, SurveyError> {
        let mut problems = Problems::default();
        let manifest = manifests(&**disk, dir, &mut problems)?;
        let io = |path: PathBuf| move |source| OpenError::Io { path, source };
        let wal = dir.join("wal");
        let segments = WalSegments::list(disk.clone(), &wal).map_err(io(wal))?;
        if manifest.is_none() && segments.first_seqs().is_empty() {
            return Err(SurveyError::NoStore { dir: dir.to_owned() });
        }
        let engine_dir = dir.join("engine");
        let engine = engine_of(manifest.as_ref(), &engine_dir);
        let token =
            manifest.as_ref().filter(|manifest| manifest.state.seq > 0).map(|manifest| &manifest.token[..]);
        let found =
            engine_files::find(&**disk, &engine_dir, engine, token, &mut problems).map_err(io(engine_dir))?;
        let mut survey = Self {
            dir: dir.to_owned(),
            cluster: manifest.as_ref().map_or(0, |manifest| manifest.cluster),
            manifest,
            engine,
            found,
            log: LogRange::default(),
            logged: Vec::new(),
            problems,
            _lock: None,
        };
        survey.read_log(&segments);
        Ok(survey)
    }

    fn read_log(&mut self, segments: &WalSegments) {
        let firsts = segments.first_seqs();
        let Some(first) = firsts.first().copied() else {
            self.problems.add(&self.dir.join("wal"), None, "the log is missing");
            return;
        };
        self.log = LogRange { first, last: first - 1, files: firsts.len() as u64, bytes: segments.bytes() };
        if self.cluster == 0 {
            self.cluster = owner(segments, first).unwrap_or(0);
        }
        let logged = &mut self.logged;
        let read = wal::replay(segments, self.cluster, first - 1, &mut |record| {
            logged.push(LogCommit::of(record));
            Ok(())
        });
        match read {
            Ok(_) => {}
            Err(OpenError::Damaged { file, detail }) => {
                self.problems.add(&file, None, detail);
                self.read_around_damage(segments);
            }
            Err(error) => {
                self.problems.add(&self.dir.join("wal"), None, error.to_string());
                self.read_around_damage(segments);
            }
        }
        self.log.last = self.logged.last().map_or(first - 1, |logged| logged.commit.seq);
        if let Some(manifest) = &self.manifest {
            let seq = manifest.state.seq;
            if first > seq + 1 || self.log.last < seq {
                let detail = format!(
                    "the log has records {first} to {}, but record {seq} was checkpointed",
                    self.log.last
                );
                self.problems.add(&self.dir.join("wal"), None, detail);
            }
        }
    }
}

impl Survey {
    /// Reads all that is intact of a damaged log.
    fn read_around_damage(&mut self, segments: &WalSegments) {
        let problems = &mut self.problems;
        let readable = segments.first_seqs().into_iter().filter_map(|first_seq| {
            let path = segments.path(first_seq);
            let read = segments.open(first_seq).and_then(|file| read_around(&path, &*file, problems));
            let bytes = read.inspect_err(|error| problems.add(&path, None, error.to_string())).ok()?;
            Some(SegmentBytes { first_seq, bytes })
        });
        let (found, missing) = read_around_damage(readable, self.cluster, &mut LogCommit::of);
        self.logged = found.into_values().collect();
        for (first, last) in missing {
            let detail = format!("records {first} to {last} of the log are missing or damaged");
            self.problems.add(&self.dir.join("wal"), None, detail);
        }
    }
}

/// The id of the data that the log belongs to.
fn owner(segments: &WalSegments, first: u64) -> Option<u64> {
    let bytes = read_all(&*segments.open(first).ok()?).ok()?;
    SegmentHeader::decode(&bytes).map(|header| header.cluster)
}

/// The newest intact manifest. Changes nothing, unlike opening a store.
fn manifests(disk: &dyn Disk, dir: &Path, problems: &mut Problems) -> Result<Option<Manifest>, SurveyError> {
    let mut newest: Option<Manifest> = None;
    for name in disk.list(dir).map_err(|source| OpenError::Io { path: dir.to_owned(), source })? {
        if !manifest::is_manifest(&name) {
            continue;
        }
        let path = dir.join(name);
        let bytes = disk.open(&path).and_then(|file| read_all(&*file));
        match bytes.map(|bytes| decode(&bytes)) {
            Err(error) => problems.add(&path, None, error.to_string()),
            Ok(None) => problems.add(&path, None, "the manifest is damaged"),
            Ok(Some(Err(error))) => problems.add(&path, None, error.to_string()),
            Ok(Some(Ok(found))) => {
                if newest.as_ref().is_none_or(|newest| newest.generation < found.generation) {
                    newest = Some(found);
                }
            }
        }
    }
    Ok(newest)
}

fn engine_of(manifest: Option<&Manifest>, dir: &Path) -> EngineKind {
    let named = manifest.and_then(|manifest| EngineKind::of_name(&manifest.engine));
    let guess = || if data_dir::sled_dir(dir).exists() { EngineKind::Sled } else { EngineKind::Segments };
    named.unwrap_or_else(guess)
}

/// Records by key.
pub(super) type RecordMap<T> = BTreeMap<RecordKey, T>;
