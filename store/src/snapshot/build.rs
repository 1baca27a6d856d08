//! Building a snapshot from records in ascending order, with one open page per tree level in memory.

use super::layout::{self, EMPTY};
use super::{SnapshotError, SnapshotInfo};
use crate::Revision;
use crate::codec::etcd::{EtcdRecord, revision_bytes};
use crate::engine::EngineError;
use crate::snapshot::bbolt::tree::{Pages, Tree};
use crate::types::record::{Record, RecordKey, RecordKind};
use crate::types::state::DurableState;
use std::io::{self, Seek, SeekFrom, Write};

/// Bytes written at once.
const PIECE: usize = 1 << 20;

/// Writes a snapshot database.
pub(crate) struct Builder<'w, W> {
    to: &'w mut W,
    /// Position in `to` at which the image starts.
    start: u64,
    pages: Pages,
    keys: Tree,
    notes: Tree,
    info: SnapshotInfo,
}

impl<'w, W: Write + Seek> Builder<'w, W> {
    /// Starts a snapshot at the current position of `to`. It is no valid database until [`Builder::finish`].
    pub(crate) fn begin(to: &'w mut W) -> io::Result<Self> {
        let start = to.stream_position()?;
        let (revision, compacted) = (Revision(0), Revision(0));
        let info = SnapshotInfo { revision, records: 0, bytes: 0, compacted, left_out: 0 };
        let (keys, notes) = (Tree::default(), Tree::default());
        Ok(Self { to, start, pages: Pages::new(), keys, notes, info })
    }

    /// Adds the next record.
    pub(crate) fn record(&mut self, record: &Record) -> Result<(), SnapshotError> {
        if record.kind == RecordKind::Note {
            self.notes.push(&mut self.pages, &layout::note_key(record.key.main), &record.bytes);
        } else if let Some(stored) = EtcdRecord::of(record).map_err(|_| EngineError::Damaged(record.key))? {
            self.keys.push(&mut self.pages, stored.key(), &stored.value);
            self.info.records += 1;
        }
        self.drain(PIECE)?;
        Ok(())
    }

    /// Writes the finished pages if they have more than `least` bytes.
    fn drain(&mut self, least: usize) -> io::Result<()> {
        if self.pages.waiting() > least {
            self.to.write_all(self.pages.out())?;
            self.info.bytes += self.pages.waiting() as u64;
            self.pages.out().clear();
        }
        Ok(())
    }

    /// Writes a bucket with few entries, which must be ascending.
    fn small(&mut self, name: &'static str, entries: &[(&[u8], Vec<u8>)]) -> (&'static str, u64) {
        let mut tree = Tree::default();
        entries.iter().for_each(|(key, value)| tree.push(&mut self.pages, key, value));
        (name, tree.finish(&mut self.pages))
    }

    /// Completes the image. `to` is positioned after it and flushed; the caller makes it durable.
    pub(crate) fn finish(
        mut self,
        cluster: u64,
        state: &DurableState,
    ) -> Result<SnapshotInfo, SnapshotError> {
        let keys = std::mem::take(&mut self.keys).finish(&mut self.pages);
        let notes = std::mem::take(&mut self.notes).finish(&mut self.pages);
        let mut buckets = vec![(layout::KEY, keys), (layout::NOTES, notes), self.leases(state)?];
        buckets.extend(EMPTY.map(|name| self.small(name, &[])));
        // Low free space concerns this file system, not the data.
        let alarms = state.alarms.iter().filter(|alarm| state.alarms.is_kept(*alarm));
        let alarms = alarms.map(|alarm| layout::encode_alarm(cluster, alarm));
        let alarms: Vec<_> = alarms.collect();
        let alarms: Vec<_> = alarms.iter().map(|key| (key.as_slice(), Vec::new())).collect();
        buckets.push(self.small(layout::ALARM, &alarms));
        buckets.push(self.small(layout::META, &meta(cluster, state)));
        buckets.push(self.small(layout::AUTH, &[(layout::AUTH_REVISION, 1_u64.to_be_bytes().to_vec())]));
        buckets.push(self.small(layout::CLUSTER, &[(layout::CLUSTER_VERSION, layout::VERSION.to_vec())]));
        buckets.sort_unstable();
        let metas = self.pages.finish(&buckets);
        self.drain(0)?;
        self.to.seek(SeekFrom::Start(self.start))?;
        self.to.write_all(&metas)?;
        self.to.seek(SeekFrom::Start(self.start + self.info.bytes))?;
        self.to.flush()?;
        Ok(SnapshotInfo { revision: state.revision, compacted: state.compacted, ..self.info })
    }

    fn leases(&mut self, state: &DurableState) -> io::Result<(&'static str, u64)> {
        // etcd orders leases by unsigned bytes.
        let mut leases: Vec<_> = state.leases.iter().map(|(id, ttl)| (*id, *ttl)).collect();
        leases.sort_unstable_by_key(|(id, _)| id.0 as u64);
        let mut tree = Tree::default();
        for (id, ttl) in leases {
            tree.push(&mut self.pages, &layout::lease_key(id), &layout::encode_lease(id, ttl));
            self.drain(PIECE)?;
        }
        Ok((layout::LEASE, tree.finish(&mut self.pages)))
    }
}

/// The entries of the meta bucket.
///
/// Compaction is written as scheduled, not as finished. etcd compacts again when it opens the file, and so removes
/// versions that this store keeps a little longer.
fn meta(cluster: u64, state: &DurableState) -> Vec<(&'static [u8], Vec<u8>)> {
    let mut entries: Vec<(&[u8], Vec<u8>)> = vec![
        (layout::CONF_STATE, format!(r#"{{"voters":[{cluster}],"auto_leave":false}}"#).into()),
        (layout::CONSISTENT_INDEX, (state.revision.0 as u64).to_be_bytes().to_vec()),
    ];
    if state.compacted > Revision::NEVER_COMPACTED {
        let compacted = revision_bytes(RecordKey::new(state.compacted, 0)).to_vec();
        entries.push((layout::SCHEDULED_COMPACTION, compacted));
    }
    entries.push((layout::TERM, layout::FIRST_TERM.to_be_bytes().to_vec()));
    entries
}
