//! The store's state from a survey: its newest state, and how far it is complete. Pure; it reads no file.
//!
//! The log is applied on top of the checkpoint, and the log's copy replaces a damaged record of the engine. Above the
//! compacted revision every revision has records, so a missing one is detected.

use super::engine_files::RecordSource;
use super::losses::RevisionRange;
use super::survey::{LogCommit, RecordMap, Survey};
use crate::Revision;
use crate::types::record::RecordKey;
use crate::types::state::DurableState;
use bytes::Bytes;
use std::collections::BTreeMap;

/// The newest state of a surveyed store.
pub(super) struct SurveyedState {
    pub(super) durable: DurableState,
    pub(super) records: RecordMap<RecordSource>,
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
        let mut state = Self {
            durable: manifest.map(|manifest| manifest.state.clone()).unwrap_or_default(),
            records: std::mem::take(&mut survey.found.current.records),
            lost: std::mem::take(&mut survey.found.current.damaged),
            unlogged: Vec::new(),
            unknown: survey.found.current.unknown,
        };
        let seq = state.durable.seq;
        let newer = survey.logged.partition_point(|logged| logged.commit.seq <= seq);
        let logged = std::mem::take(&mut survey.logged);
        // Without a manifest, nothing shows what was before the log.
        let mut next_seq = if manifest.is_some() { seq + 1 } else { survey.log.first };
        for newer in &logged[newer..] {
            if newer.commit.seq > next_seq {
                state.record_unlogged(newer);
            }
            state.follow(newer);
            next_seq = newer.commit.seq + 1;
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
                state.records.entry(record.key).or_insert_with(|| RecordSource::Memory(record.clone()));
            }
        }
        for (key, source) in std::mem::take(&mut survey.found.spare) {
            if state.replaces_lost(key) {
                state.records.entry(key).or_insert(source);
            }
        }
        // A log from its first record on, without a gap, has every record that the engine lost.
        let seqs = logged.iter().map(|logged| logged.commit.seq);
        if survey.log.first == 1 && seqs.eq(1..=survey.log.last) && survey.log.last >= seq {
            state.unknown = 0;
        }
        // The engine has more than the log if the log lost its end.
        let newest = state.records.last_key_value().map(|(key, _)| key.main);
        state.durable.revision = state.durable.revision.max(newest.unwrap_or(state.durable.revision));
        state.lost.retain(|key, _| !state.records.contains_key(key) && key.main <= state.durable.revision);
        state
    }

    /// Whether a copy of this record may replace a lost one. Records that compaction removed must not come back. If
    /// nothing shows which records are lost, every copy counts: the compaction of the new store removes superseded ones.
    fn replaces_lost(&self, key: RecordKey) -> bool {
        let is_unlogged = || self.unlogged.iter().any(|range| range.contains(key.main));
        key.main > self.durable.compacted || self.unknown > 0 || self.lost.contains_key(&key) || is_unlogged()
    }

    /// Records the revisions between the last applied commit and this one, whose predecessors are missing.
    fn record_unlogged(&mut self, logged: &LogCommit) {
        let revision = logged.commit.revision;
        let last = if logged.records.is_empty() { revision } else { revision.previous() };
        if last > self.durable.revision {
            self.unlogged.push(RevisionRange { first: self.durable.revision.next(), last });
        }
    }

    /// Applies a logged change that is newer than the checkpoint.
    fn follow(&mut self, logged: &LogCommit) {
        let before = self.durable.revision;
        self.durable.apply(&logged.commit);
        self.durable.revision = self.durable.revision.max(before);
        let records = logged.records.iter();
        self.records.extend(records.map(|record| (record.key, RecordSource::Memory(record.clone()))));
    }

    /// Without a manifest: uses the newest revision found, and assumes compaction up to the first gap below it.
    fn guess(&mut self) {
        if let Some((key, _)) = self.records.last_key_value() {
            self.durable.revision = self.durable.revision.max(key.main);
        }
        let mut whole = self.durable.revision.next();
        for key in self.records.keys().rev().filter(|key| !key.is_note()) {
            if key.main < whole.previous() {
                break;
            }
            whole = key.main;
        }
        if whole > Revision::FIRST.next() {
            self.durable.compacted = self.durable.compacted.max(whole);
        }
    }

    /// The last revision up to which no record is missing, as far as detectable.
    pub(super) fn whole_upto(&self) -> Revision {
        let mut whole = self.durable.compacted.max(Revision::FIRST);
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
        let first = self.lost.range(RecordKey::new(self.durable.compacted.next(), 0)..).next();
        first.map_or(self.durable.revision, |(key, _)| key.main.previous())
    }
}
