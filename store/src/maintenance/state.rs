//! The store's state from a survey: its newest state, and how far it is complete. Pure; it reads no file.
//!
//! The log is applied on top of the checkpoint, and the log's copy replaces a damaged record of the engine. Above the
//! compacted revision every revision has records, so a missing one is detected.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::engine_files::RecordSource;
use super::losses::RevisionRange;
use super::survey::{LogCommit, RecordMap, Survey};
use crate::codec::record::LogLease;
use crate::snapshot::SnapshotMeta;
use crate::types::alarm::Alarms;
use crate::types::record::RecordKey;
use crate::{LeaseId, Revision};

/// The newest state of a surveyed store.
pub(super) struct SurveyedState {
    pub(super) revision: Revision,
    pub(super) compacted: Revision,
    pub(super) alarms: Alarms,
    pub(super) records: RecordMap<RecordSource>,
    leases: BTreeMap<LeaseId, i64>,
    cluster: u64,
    /// Records that are known to be missing, with their keys as far as known.
    pub(super) lost: BTreeMap<RecordKey, Option<Bytes>>,
    /// Revisions of commits that are missing in the log and newer than the checkpoint.
    pub(super) unlogged: Vec<RevisionRange>,
    /// Number of places that are damaged or missing and do not show which records they had.
    pub(super) unknown: u64,
}

impl SurveyedState {
    /// Builds the state; moves the records out of the survey.
    pub(super) fn of(survey: &mut Survey) -> Self {
        let manifest = survey.manifest.as_ref();
        let leases = manifest.map_or(&[][..], |manifest| &manifest.leases);
        let mut state = Self {
            revision: Revision(manifest.map_or(Revision::FIRST.0, |manifest| manifest.revision)),
            compacted: Revision(manifest.map_or(Revision::NEVER_COMPACTED.0, |manifest| manifest.compacted)),
            alarms: manifest.map_or(Alarms::default(), |manifest| manifest.alarms),
            records: std::mem::take(&mut survey.found.current.records),
            leases: leases.iter().map(|(id, ttl)| (LeaseId(*id), *ttl)).collect(),
            cluster: survey.cluster,
            lost: std::mem::take(&mut survey.found.current.damaged),
            unlogged: Vec::new(),
            unknown: survey.found.current.unknown,
        };
        let seq = manifest.map_or(0, |manifest| manifest.seq);
        let newer = survey.logged.partition_point(|logged| logged.seq <= seq);
        let logged = std::mem::take(&mut survey.logged);
        // Without a manifest, nothing shows what was before the log.
        let mut next_seq = if manifest.is_some() { seq + 1 } else { survey.log.first };
        for commit in &logged[newer..] {
            if commit.seq > next_seq {
                state.note_unlogged(commit);
            }
            state.follow(commit);
            next_seq = commit.seq + 1;
        }
        // A log from its first record on has every compaction.
        if survey.manifest.is_none() && survey.log.first != 1 {
            state.guess();
            state.unknown += 1;
        }
        let older = logged[..newer].iter().flat_map(|logged| &logged.records);
        for record in older {
            if survey.found.current.corrected.contains(&record.key) {
                state.records.remove(&record.key);
            }
            if state.replaces_lost(record.key) {
                state.records.entry(record.key).or_insert_with(|| RecordSource::Held(record.clone()));
            }
        }
        for (key, source) in std::mem::take(&mut survey.found.spare) {
            if state.replaces_lost(key) {
                state.records.entry(key).or_insert(source);
            }
        }
        // A log from its first record on, without a gap, has every record that the engine lost.
        let seqs = logged.iter().map(|commit| commit.seq);
        if survey.log.first == 1 && seqs.eq(1..=survey.log.last) && survey.log.last >= seq {
            state.unknown = 0;
        }
        // The engine has more than the log if the log lost its end.
        let newest = state.records.last_key_value().map(|(key, _)| key.main);
        state.revision = state.revision.max(newest.unwrap_or(state.revision));
        state.lost.retain(|key, _| !state.records.contains_key(key) && key.main <= state.revision);
        state
    }

    /// Whether a copy of this record may replace a lost one. Records that compaction removed must not come back. If
    /// nothing shows which records are lost, every copy counts: the compaction of the new store removes superseded ones.
    fn replaces_lost(&self, key: RecordKey) -> bool {
        let is_unlogged = || self.unlogged.iter().any(|range| range.contains(key.main));
        key.main > self.compacted || self.unknown > 0 || self.lost.contains_key(&key) || is_unlogged()
    }

    /// Notes the revisions between the last applied commit and this one, whose predecessors are missing.
    fn note_unlogged(&mut self, commit: &LogCommit) {
        let last = if commit.records.is_empty() { commit.revision } else { commit.revision.previous() };
        if last > self.revision {
            self.unlogged.push(RevisionRange { first: self.revision.next(), last });
        }
    }

    /// Applies a logged change that is newer than the checkpoint.
    fn follow(&mut self, logged: &LogCommit) {
        self.revision = self.revision.max(logged.revision);
        self.compacted = logged.compacted.unwrap_or(self.compacted);
        self.alarms = logged.alarms.unwrap_or(self.alarms);
        for lease in &logged.leases {
            match *lease {
                LogLease::Granted { id, ttl } => self.leases.insert(LeaseId(id), ttl),
                LogLease::Gone { id } => self.leases.remove(&LeaseId(id)),
            };
        }
        let records = logged.records.iter();
        self.records.extend(records.map(|record| (record.key, RecordSource::Held(record.clone()))));
    }

    /// Without a manifest: uses the newest revision found, and assumes compaction up to the first gap below it.
    fn guess(&mut self) {
        if let Some((key, _)) = self.records.last_key_value() {
            self.revision = self.revision.max(key.main);
        }
        let mut whole = self.revision.next();
        for key in self.records.keys().rev().filter(|key| !key.is_note()) {
            if key.main < whole.previous() {
                break;
            }
            whole = key.main;
        }
        if whole > Revision::FIRST.next() {
            self.compacted = self.compacted.max(whole);
        }
    }

    /// The last revision up to which no record is missing, as far as detectable.
    pub(super) fn whole_upto(&self) -> Revision {
        let mut whole = self.compacted.max(Revision::FIRST);
        let mut sub = 0;
        let above = RecordKey::new(whole.next(), 0)..;
        for key in self.records.range(above).map(|(key, _)| key).filter(|key| !key.is_note()) {
            if key.main > whole {
                if key.main > whole.next() || key.sub > 0 {
                    break;
                }
                (whole, sub) = (key.main, 0);
            } else if key.sub != sub + 1 {
                return whole.previous().min(self.first_loss());
            } else {
                sub = key.sub;
            }
        }
        whole.min(self.first_loss())
    }

    /// The revision before the first lost record above the compacted revision.
    fn first_loss(&self) -> Revision {
        let first = self.lost.range(RecordKey::new(self.compacted.next(), 0)..).next();
        first.map_or(self.revision, |(key, _)| key.main.previous())
    }

    pub(super) fn leases(&self) -> usize {
        self.leases.len()
    }

    /// The part of a snapshot that is not history.
    pub(super) fn closing(&self) -> SnapshotMeta {
        SnapshotMeta {
            cluster: self.cluster,
            revision: self.revision,
            compacted: self.compacted.min(self.revision),
            leases: self.leases.iter().map(|(id, ttl)| (*id, *ttl)).collect(),
            alarms: self.alarms,
        }
    }
}
