//! The manifest: a small file that defines which state on disk is current.
//!
//! Version 2 adds the alarms and the progress of physical compaction. Version 1 is still read: no alarm, no compaction
//! finished.

use super::{DecodeError, VERSION};
use crate::types::alarm::Alarms;
use crate::types::state::DurableState;
use crate::{LeaseId, Revision};
use bincode::{Decode, Encode};

/// The checkpointed state, and the engine's token that reopens its history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The random id of the data, constant for the life of the directory. Every log segment carries it.
    pub(crate) cluster: u64,
    /// Number of checkpoints.
    pub(crate) generation: u64,
    /// The state after the newest commit up to which the engine has every one.
    pub(crate) state: DurableState,
    /// The engine's name, as [`crate::EngineKind`] prints it.
    pub(crate) engine: String,
    /// The engine's token, with which it reopens this state.
    pub(crate) token: Vec<u8>,
    /// The revision up to which superseded records are removed from the engine.
    pub(crate) swept: i64,
}

/// The version that is written.
const CURRENT: u8 = 2;

/// The fields of version 1, which are the first fields of version 2.
#[derive(Encode, Decode)]
struct ManifestV1 {
    cluster: u64,
    generation: u64,
    seq: u64,
    revision: i64,
    compacted: i64,
    leases: Vec<(i64, i64)>,
    engine: String,
    token: Vec<u8>,
}

impl ManifestV1 {
    fn with(self, alarms: Alarms, swept: i64) -> Manifest {
        let Self { cluster, generation, seq, revision, compacted, leases, engine, token } = self;
        let leases = leases.into_iter().map(|(id, ttl)| (LeaseId(id), ttl)).collect();
        let (revision, compacted) = (Revision(revision), Revision(compacted));
        let state = DurableState { seq, revision, compacted, alarms, leases };
        Manifest { cluster, generation, state, engine, token, swept }
    }
}

/// First bytes of a manifest file.
const MAGIC: &[u8; 8] = b"kstoreMF";

/// Encodes a manifest file.
pub(crate) fn encode(manifest: &Manifest) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    let Manifest { cluster, generation, state, engine, token, swept } = manifest.clone();
    let DurableState { seq, revision, compacted, alarms, leases } = state;
    let leases = leases.into_iter().map(|(id, ttl)| (id.0, ttl)).collect();
    let (revision, compacted) = (revision.0, compacted.0);
    let v1 = ManifestV1 { cluster, generation, seq, revision, compacted, leases, engine, token };
    super::put_as(&mut out, CURRENT, &(v1, alarms.bits(), swept));
    seal(out)
}

/// Appends the checksum.
fn seal(mut out: Vec<u8>) -> Vec<u8> {
    let crc = crc32fast::hash(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// Whether the bytes start as those of a manifest file, which may be damaged.
pub(crate) fn is_manifest(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Decodes a manifest file; none if it is incomplete or damaged.
pub(crate) fn decode(bytes: &[u8]) -> Option<Result<Manifest, DecodeError>> {
    let (body, crc) = bytes.split_last_chunk::<4>()?;
    let rest = body.strip_prefix(MAGIC)?;
    if crc32fast::hash(body) != u32::from_le_bytes(*crc) {
        return None;
    }
    Some(decode_body(rest))
}

fn decode_body(bytes: &[u8]) -> Result<Manifest, DecodeError> {
    match super::version(bytes)? {
        (VERSION, body) => {
            let (v1, _) = super::take_body::<ManifestV1>(body)?;
            Ok(v1.with(Alarms::default(), Revision::NEVER_COMPACTED.0))
        }
        (CURRENT, body) => {
            let ((v1, bits, swept), _) = super::take_body::<(ManifestV1, u8, i64)>(body)?;
            let alarms = Alarms::from_bits(bits).ok_or(DecodeError::Malformed)?;
            Ok(v1.with(alarms, swept))
        }
        (other, _) => Err(DecodeError::Version(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Alarm;
    use crate::types::alarm::AlarmChange;

    fn v1() -> ManifestV1 {
        ManifestV1 {
            cluster: 7,
            generation: 3,
            seq: 1 << 33,
            revision: 12,
            compacted: -1,
            leases: vec![(5, 60), (-5, 2)],
            engine: "segments".to_owned(),
            token: vec![1, 2, 3],
        }
    }

    #[test]
    fn manifest_version_1_decodes() {
        let mut bytes = MAGIC.to_vec();
        super::super::put(&mut bytes, &v1());
        let expected = v1().with(Alarms::default(), -1);
        assert_eq!(decode(&seal(bytes)), Some(Ok(expected)));
    }

    #[test]
    fn a_manifest_of_a_later_version_is_refused_as_unknown() {
        let mut bytes = MAGIC.to_vec();
        super::super::put_as(&mut bytes, CURRENT + 1, &0u8);
        assert_eq!(decode(&seal(bytes)), Some(Err(DecodeError::Version(CURRENT + 1))));
    }

    #[test]
    fn a_manifest_decodes_and_any_flipped_bit_is_detected() {
        let alarms = Alarms::default().after(AlarmChange::Raise(Alarm::Corrupt)).after(AlarmChange::LowDisk);
        let manifest = v1().with(alarms, 9);
        let bytes = encode(&manifest);
        assert_eq!(decode(&bytes), Some(Ok(manifest)));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert_eq!(decode(&damaged), None, "byte {at}");
            assert_eq!(decode(&bytes[..at]), None, "cut at {at}");
        }
    }
}
