//! The manifest: the one small file that says which state on disk counts.

use bincode::{Decode, Encode};

use super::DecodeError;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Manifest {
    /// Random, for the life of the directory: every file of ours carries it.
    pub(crate) cluster: u64,
    /// Counts checkpoints.
    pub(crate) generation: u64,
    /// The engine has every commit up to this place in the log.
    pub(crate) seq: u64,
    /// The revision then.
    pub(crate) revision: i64,
    /// The compacted revision then.
    pub(crate) compacted: i64,
    /// The leases then, with their times to live.
    pub(crate) leases: Vec<(i64, i64)>,
    /// The name of the engine, as on the command line.
    pub(crate) engine: String,
    /// What the engine needs to find that state.
    pub(crate) token: Vec<u8>,
}

/// What a manifest begins with.
const MAGIC: &[u8; 8] = b"kstoreMF";

/// A manifest's file.
pub(crate) fn encode(manifest: &Manifest) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    super::put(&mut out, manifest);
    let crc = crc32fast::hash(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// Reads a manifest's file; none if it is not a whole one.
pub(crate) fn decode(bytes: &[u8]) -> Option<Result<Manifest, DecodeError>> {
    let (body, crc) = bytes.split_last_chunk::<4>()?;
    let rest = body.strip_prefix(MAGIC)?;
    if crc32fast::hash(body) != u32::from_le_bytes(*crc) {
        return None;
    }
    Some(super::take(rest).map(|(manifest, _)| manifest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_reads_back_and_any_flipped_bit_is_noticed() {
        let manifest = Manifest {
            cluster: 7,
            generation: 3,
            seq: 1 << 33,
            revision: 12,
            compacted: -1,
            leases: vec![(5, 60), (-5, 2)],
            engine: "segments".to_owned(),
            token: vec![1, 2, 3],
        };
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
