//! Parsing of a snapshot's content into records and leases. The file is untrusted: the parser accepts only entries that a store
//! could have written.

use super::snapshot_file::{SnapshotFile, SnapshotFileError};
use crate::codec::etcd::parse_key;
use crate::snapshot::bbolt::read::ReadError;
use crate::snapshot::layout;
use crate::types::alarm::AlarmChange;
use crate::types::limits::LEASE_TTL_MAX_SECONDS;
use crate::types::record::{Record, RecordKey, RecordKind};
use crate::types::state::DurableState;
use crate::{KeyValue, LeaseId, Revision};
use bytes::Bytes;

/// The content of a snapshot apart from its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SnapshotContents {
    /// The state; a snapshot has no sequence number, so that is zero.
    pub(super) state: DurableState,
    /// Number of versions and tombstones.
    pub(super) records: u64,
    /// Whether the snapshot has users, because it comes from an etcd with authentication. kstore does not restore them.
    pub(super) has_users: bool,
}

/// Highest accepted revision, so that later revisions cannot overflow.
pub(super) const HIGHEST: Revision = Revision(1 << 62);

/// Callback that receives a record.
pub(super) type Sink<'a> = dyn FnMut(Record) -> Result<(), String> + 'a;

/// Callback that parses an entry's key and value.
type ParseEntry<'a> = dyn FnMut(&mut SnapshotContents, &[u8], &[u8]) -> Result<(), String> + 'a;

/// Reads a snapshot. Passes its history, in order, and then its notes to `sink`.
pub(super) fn read(file: &SnapshotFile, sink: &mut Sink<'_>) -> Result<SnapshotContents, SnapshotFileError> {
    let image = file.image()?;
    let wrong = |error| file.malformed(error);
    if !image.buckets().any(|name| name == layout::KEY.as_bytes()) {
        return Err(wrong(ReadError::Foreign("it has no history")));
    }
    let mut contents = SnapshotContents { state: DurableState::default(), records: 0, has_users: false };
    let mut visit = |name: &str, take: &mut ParseEntry<'_>| {
        let visited = image.visit(name.as_bytes(), &mut |key, value| take(&mut contents, key, value));
        visited.map_err(wrong)
    };
    visit(layout::KEY, &mut |contents, key, value| {
        let (revision, record) = parse_record(key, value)?;
        contents.state.revision = contents.state.revision.max(revision);
        match record {
            Some(record) => {
                contents.records += 1;
                sink(record)
            }
            None => Ok(()),
        }
    })?;
    visit(layout::NOTES, &mut |_, key, value| sink(parse_note(key, value)?))?;
    visit(layout::LEASE, &mut |contents, key, value| {
        let (id, ttl) = parse_lease(key, value)?;
        contents.state.leases.insert(id, ttl);
        Ok(())
    })?;
    visit(layout::ALARM, &mut |contents, key, _| {
        let alarm = layout::decode_alarm(key).ok_or("an alarm is malformed")?;
        contents.state.alarms = contents.state.alarms.after(AlarmChange::Raise(alarm));
        Ok(())
    })?;
    visit(layout::META, &mut |contents, key, value| parse_meta(contents, key, value))?;
    visit(layout::AUTH_USERS, &mut |contents, _, _| {
        contents.has_users = true;
        Ok(())
    })?;
    // Compaction may have removed the newest records.
    contents.state.revision = contents.state.revision.max(contents.state.compacted);
    Ok(contents)
}

/// Parses a record of the history. None for an entry that `etcdutl` writes only to raise the revision.
fn parse_record(key: &[u8], value: &[u8]) -> Result<(Revision, Option<Record>), String> {
    let (name, dead) = parse_key(key).ok_or("a record's key is malformed")?;
    let wrong = |what: &str| format!("the record of revision {} {what}", name.main);
    if name.main < Revision::FIRST || name.main > HIGHEST || name.is_note() {
        return Err(wrong("is not one that a store writes"));
    }
    if value.is_empty() && !dead {
        return Ok((name.main, None));
    }
    let kv = KeyValue::decode(Bytes::copy_from_slice(value)).ok_or_else(|| wrong("is malformed"))?;
    if kv.key().is_empty() {
        return Err(wrong("has no key"));
    }
    if dead {
        let bytes = KeyValue::tombstone(kv.key(), name.main).encoded().clone();
        return Ok((name.main, Some(Record { key: name, kind: RecordKind::Delete, bytes })));
    }
    if kv.mod_revision() != name.main {
        return Err(wrong("says that it is of another"));
    }
    // Only the canonical encoding is accepted, so that hashes stay equal.
    if KeyValue::new(kv.key(), kv.value(), kv.stamp()).encoded() != kv.encoded() {
        return Err(wrong("is not encoded as a store does"));
    }
    Ok((name.main, Some(Record { key: name, kind: RecordKind::Put, bytes: kv.encoded().clone() })))
}

fn parse_note(key: &[u8], value: &[u8]) -> Result<Record, String> {
    let revision = key.try_into().map(i64::from_be_bytes).map_err(|_| "a note's key is malformed")?;
    let revision = Revision(revision);
    if revision < Revision::FIRST || revision > HIGHEST {
        return Err("a note is of no revision".to_owned());
    }
    let bytes = Bytes::copy_from_slice(value);
    Ok(Record { key: RecordKey::note(revision), kind: RecordKind::Note, bytes })
}

fn parse_lease(key: &[u8], value: &[u8]) -> Result<(LeaseId, i64), String> {
    let (id, ttl) = layout::decode_lease(value).ok_or("a lease is malformed")?;
    if key != layout::lease_key(id) {
        return Err(format!("lease {id} is stored under another id"));
    }
    Ok((id, ttl.clamp(1, LEASE_TTL_MAX_SECONDS)))
}

fn parse_meta(contents: &mut SnapshotContents, key: &[u8], value: &[u8]) -> Result<(), String> {
    if key != layout::SCHEDULED_COMPACTION && key != layout::FINISHED_COMPACTION {
        return Ok(());
    }
    let compacted = match parse_key(value) {
        Some((key, false)) if key.main >= Revision(0) && key.main <= HIGHEST => key.main,
        Some(_) | None => return Err("the compacted revision is malformed".to_owned()),
    };
    contents.state.compacted = contents.state.compacted.max(compacted);
    Ok(())
}
