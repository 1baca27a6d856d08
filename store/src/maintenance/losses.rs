//! What a salvage could not read: the lost revisions, and the keys of lost versions as far as they are known.

use super::state::SurveyedState;
use crate::Revision;
use crate::types::record::{Record, RecordKey, RecordKind};
use crate::types::{kv_encoding, limits};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What a salvage could not read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// The revisions of which a change is lost, ascending. Below the compacted revision, gaps are normal, so only
    /// revisions that the damaged bytes name, or that are missing in the log, are listed; of the latter, the engine may
    /// have had all that is still of use.
    pub revisions: Vec<RevisionRange>,
    /// The lost versions whose keys are known, by revision; at most ten thousand.
    pub versions: Vec<LostVersion>,
    /// Number of damaged or missing places that do not show which records they had. If there are any, more may be lost
    /// than is listed.
    pub unknown: u64,
}

impl Losses {
    /// Whether nothing is lost.
    pub fn is_empty(&self) -> bool {
        self.revisions.is_empty() && self.versions.is_empty() && self.unknown == 0
    }

    /// The newest revision of which a change is lost.
    pub(super) fn newest(&self) -> Option<Revision> {
        self.revisions.last().map(|range| range.last)
    }

    /// The lost revisions as text, such as `80, 83 to 90`; `none` if there are none.
    pub fn revisions_text(&self) -> String {
        /// Ranges that are spelled out.
        const NAMED: usize = 100;
        let named: Vec<_> = self.revisions.iter().take(NAMED).map(ToString::to_string).collect();
        let more = self.revisions.len().saturating_sub(NAMED);
        match (named.is_empty(), more) {
            (true, _) => "none".to_owned(),
            (false, 0) => named.join(", "),
            (false, more) => format!("{} and {more} more ranges", named.join(", ")),
        }
    }
}

/// Consecutive revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RevisionRange {
    /// The first revision.
    pub first: Revision,
    /// The last revision; it belongs to the range.
    pub last: Revision,
}

impl RevisionRange {
    /// Whether the revision is one of the range.
    pub fn contains(self, revision: Revision) -> bool {
        self.first <= revision && revision <= self.last
    }
}

impl fmt::Display for RevisionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last { self.first.fmt(f) } else { write!(f, "{} to {}", self.first, self.last) }
    }
}

/// A version that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostVersion {
    /// The key, as the damaged bytes show it: if they are damaged there too, it has wrong characters.
    pub key: Bytes,
    /// The revision that wrote the version.
    pub revision: Revision,
    /// The newest version of the key that was kept; none if no version was.
    pub kept: Option<Revision>,
}

impl fmt::Display for LostVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {}: the version of revision {} is lost", self.key.escape_ascii(), self.revision)?;
        match self.kept {
            Some(kept) if kept > self.revision => {
                write!(f, "; its newest version, of revision {kept}, is kept")
            }
            Some(kept) => write!(f, "; it has its version of revision {kept} again"),
            None => f.write_str(", and with it the key"),
        }
    }
}

/// Collects the losses while the readable records are written.
pub(super) struct LossFinder {
    /// The lost records, with their keys as far as known.
    lost: BTreeMap<RecordKey, Option<Bytes>>,
    /// The keys of lost versions, each with its newest readable version.
    keys: BTreeMap<Bytes, Option<Revision>>,
}

impl LossFinder {
    pub(super) fn new(state: &SurveyedState) -> Self {
        let keys = state.lost.values().flatten().map(|key| (key.clone(), None)).collect();
        Self { lost: state.lost.clone(), keys }
    }

    /// Notes a readable record. Records must come in order.
    pub(super) fn readable(&mut self, record: &Record) {
        if self.keys.is_empty() || record.kind == RecordKind::Note {
            return;
        }
        let key = record.bytes.get(kv_encoding::key(&record.bytes)).unwrap_or_default();
        if let Some(kept) = self.keys.get_mut(key) {
            *kept = Some(record.key.main);
        }
    }

    /// Notes a record that was found, but cannot be read again.
    pub(super) fn unreadable(&mut self, key: RecordKey) {
        self.lost.entry(key).or_insert(None);
    }

    pub(super) fn finish(self, state: &SurveyedState) -> Losses {
        let known = self.lost.iter().filter_map(|(record, key)| Some((record, key.as_ref()?)));
        let versions = known.filter(|(record, _)| !record.is_note()).take(limits::LOST_VERSIONS);
        let versions = versions.map(|(record, key)| LostVersion {
            key: key.clone(),
            revision: record.main,
            kept: self.keys.get(key).copied().flatten(),
        });
        let versions = versions.collect();
        Losses { revisions: lost_revisions(state, &self.lost), versions, unknown: state.unknown }
    }
}

/// The revisions with a lost change: those of the lost records, and above the compacted revision also those without a
/// record or with a gap in their records. Of a commit that is missing in the log, compaction may have removed the deletion
/// of a key whose previous version the log still has, so up to the compacted revision its records in the engine prove
/// nothing.
fn lost_revisions(state: &SurveyedState, lost: &BTreeMap<RecordKey, Option<Bytes>>) -> Vec<RevisionRange> {
    let changes = |key: &&RecordKey| !key.is_note();
    let mut incomplete: BTreeSet<_> = lost.keys().filter(changes).map(|key| key.main).collect();
    for range in &state.unlogged {
        let mut at = range.first;
        while at <= range.last {
            let mut found = state.records.range(RecordKey::new(at, 0)..RecordKey::note(at));
            if at <= state.durable.compacted || found.next().is_none() {
                incomplete.insert(at);
            }
            at = at.next();
        }
    }
    let mut gaps = Vec::new();
    let start = state.durable.compacted.max(Revision::FIRST).next();
    let (mut next, mut next_sub) = (start, 0);
    for key in state.records.range(RecordKey::new(start, 0)..).map(|(key, _)| key).filter(changes) {
        if key.main >= next {
            if key.main > next {
                gaps.push(RevisionRange { first: next, last: key.main.previous() });
            }
            (next, next_sub) = (key.main.next(), 0);
        }
        if key.sub != next_sub {
            incomplete.insert(key.main);
        }
        next_sub = key.sub + 1;
    }
    if next <= state.durable.revision {
        gaps.push(RevisionRange { first: next, last: state.durable.revision });
    }
    gaps.extend(incomplete.into_iter().map(|at| RevisionRange { first: at, last: at }));
    joined(gaps)
}

/// Sorts ranges and joins those that touch.
fn joined(mut ranges: Vec<RevisionRange>) -> Vec<RevisionRange> {
    ranges.sort_unstable_by_key(|range| (range.first, range.last));
    let mut joined: Vec<RevisionRange> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.first <= last.last.next() => last.last = last.last.max(range.last),
            Some(_) | None => joined.push(range),
        }
    }
    joined
}
