//! etcd's stored form of a history record: the revision as key, the version as value. The hash and the snapshot use it.

use crate::types::kv::Stamp;
use crate::types::record::{Record, RecordKey, RecordKind};
use crate::{KeyValue, Revision};
use bytes::Bytes;

/// Suffix of a tombstone's key.
const DEAD: u8 = b't';

/// Length of a put's key.
pub(crate) const REVISION_BYTES: usize = 17;

/// A record in etcd's stored form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EtcdRecord {
    key: [u8; REVISION_BYTES + 1],
    dead: bool,
    /// The encoded version; a tombstone's has only the key.
    pub(crate) value: Bytes,
}

impl EtcdRecord {
    /// Converts a record. None if it is a note, which etcd does not have.
    ///
    /// # Errors
    /// [`Malformed`] if the record does not contain a version.
    pub(crate) fn of(record: &Record) -> Result<Option<Self>, Malformed> {
        let mut key = [DEAD; REVISION_BYTES + 1];
        key[..REVISION_BYTES].copy_from_slice(&revision_bytes(record.key));
        match record.kind {
            RecordKind::Put => Ok(Some(Self { key, dead: false, value: record.bytes.clone() })),
            RecordKind::Delete => {
                let kv = KeyValue::decode(record.bytes.clone()).ok_or(Malformed)?;
                let value = KeyValue::new(kv.key(), &[], Stamp::default()).encoded().clone();
                Ok(Some(Self { key, dead: true, value }))
            }
            RecordKind::Note => Ok(None),
        }
    }

    pub(crate) fn key(&self) -> &[u8] {
        if self.dead { &self.key } else { &self.key[..REVISION_BYTES] }
    }
}

/// Error: the record does not contain a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Encodes revision and sub-revision so that the bytes sort in the same order.
pub(crate) fn revision_bytes(key: RecordKey) -> [u8; REVISION_BYTES] {
    let mut bytes = [b'_'; REVISION_BYTES];
    bytes[..8].copy_from_slice(&key.main.0.to_be_bytes());
    bytes[9..].copy_from_slice(&u64::from(key.sub).to_be_bytes());
    bytes
}

/// Decodes a record's key: its revision, and whether it is a tombstone's.
pub(crate) fn parse_key(bytes: &[u8]) -> Option<(RecordKey, bool)> {
    let (main, rest) = bytes.split_first_chunk::<8>()?;
    let (sub, rest) = rest.strip_prefix(b"_")?.split_first_chunk::<8>()?;
    let (main, sub) = (i64::from_be_bytes(*main), u32::try_from(u64::from_be_bytes(*sub)).ok()?);
    let dead = match rest {
        [] => false,
        [DEAD] => true,
        _ => return None,
    };
    Some((RecordKey::new(Revision(main), sub), dead))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn records_are_encoded_as_etcd_does() {
        let stamp =
            Stamp { create_revision: Revision(2), mod_revision: Revision(2), version: 1, ..Stamp::default() };
        let put = Record {
            key: RecordKey::new(Revision(2), 0),
            kind: RecordKind::Put,
            bytes: KeyValue::new(b"a", b"1", stamp).encoded().clone(),
        };
        let stored = EtcdRecord::of(&put).unwrap().unwrap();
        assert_eq!(hex(stored.key()), "00000000000000025f0000000000000000");
        assert_eq!(hex(&stored.value), "0a01611002180220012a0131");
        let delete = Record {
            key: RecordKey::new(Revision(5), 1),
            kind: RecordKind::Delete,
            bytes: KeyValue::tombstone(b"a", Revision(5)).encoded().clone(),
        };
        let stored = EtcdRecord::of(&delete).unwrap().unwrap();
        assert_eq!(hex(stored.key()), "00000000000000055f000000000000000174");
        assert_eq!(hex(&stored.value), "0a0161");
    }

    #[test]
    fn record_keys_decode_and_other_keys_are_refused() {
        let key = RecordKey::new(Revision(1 << 40), 9);
        let mut bytes = revision_bytes(key).to_vec();
        assert_eq!(parse_key(&bytes), Some((key, false)));
        bytes.push(b't');
        assert_eq!(parse_key(&bytes), Some((key, true)));
        bytes.push(b't');
        assert_eq!(parse_key(&bytes), None);
        assert!((0..REVISION_BYTES).all(|cut| parse_key(&bytes[..cut]).is_none()));
    }
}
