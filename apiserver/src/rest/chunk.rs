//! [`Chunk`]: a part of a document that is compressed and hashed once, however often its neighbours change;
//! and [`Joined`], a document of chunks. Compressed chunks are concatenated into one gzip stream: each ends
//! at a byte boundary and refers to no earlier data.

use bytes::Bytes;
use flate2::{Compress, Compression, Crc, FlushCompress};
use parking_lot::Mutex;
use sha2::{Digest, Sha512};
use std::sync::{Arc, OnceLock, Weak};

/// A gzip header with the compression method only.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// The last DEFLATE block of a stream; it is empty.
const LAST_BLOCK: [u8; 2] = [3, 0];

/// A part of a document, in plain and in compressed form.
#[derive(Debug)]
pub(super) struct Chunk {
    plain: Bytes,
    deflated: Deflated,
    digest: [u8; 64],
}

/// A compressed text.
#[derive(Debug)]
struct Deflated {
    /// DEFLATE blocks up to a byte boundary, without the last-block flag: who reads them has the whole text.
    blocks: Vec<u8>,
    sum: Crc,
}

impl Deflated {
    /// Compresses at the fastest level, as Kubernetes does.
    fn of(plain: &[u8]) -> Self {
        /// Room for each step: more than the marker of a flush, which zlib writes again if it has just room for it.
        const ROOM: usize = 32 * 1024;
        let mut deflater = Compress::new(Compression::fast(), false);
        let mut blocks = Vec::with_capacity(plain.len() / 8);
        loop {
            blocks.reserve(ROOM);
            let read = usize::try_from(deflater.total_in()).expect("no more than there is");
            deflater
                .compress_vec(&plain[read..], &mut blocks, FlushCompress::Sync)
                .expect("compressing into memory does not fail");
            // A flush has ended when it leaves room. Writers of flate2 ask for it once, so that they lose the end of a text whose blocks
            // are larger than their buffer.
            if blocks.len() < blocks.capacity() {
                break;
            }
        }
        let mut sum = Crc::new();
        sum.update(plain);
        Self { blocks, sum }
    }
}

/// One gzip member of compressed texts.
fn member<'d>(parts: impl Iterator<Item = &'d Deflated> + Clone) -> Vec<u8> {
    let size: usize = parts.clone().map(|part| part.blocks.len()).sum();
    let mut all = Vec::with_capacity(size + HEADER.len() + LAST_BLOCK.len() + 8);
    all.extend_from_slice(&HEADER);
    let mut sum = Crc::new();
    for part in parts {
        all.extend_from_slice(&part.blocks);
        sum.combine(&part.sum);
    }
    all.extend_from_slice(&LAST_BLOCK);
    all.extend_from_slice(&sum.sum().to_le_bytes());
    all.extend_from_slice(&sum.amount().to_le_bytes());
    all
}

/// Compresses a text as one gzip member. Readers of gzip take several members as one text. The text ends with a flush, before the end of
/// the member: Go's reader returns what comes with a member's end only when the next member begins.
pub(super) fn gzip_member(plain: &[u8]) -> Bytes {
    member(std::iter::once(&Deflated::of(plain))).into()
}

impl Chunk {
    /// A chunk with this content.
    pub(super) fn new(plain: Vec<u8>) -> Arc<Self> {
        let deflated = Deflated::of(&plain);
        let digest = Sha512::digest(&plain).into();
        Arc::new(Self { plain: plain.into(), deflated, digest })
    }

    /// The content.
    pub(super) fn plain(&self) -> &[u8] {
        &self.plain
    }

    /// The SHA-512 of its content.
    pub(super) fn digest(&self) -> &[u8; 64] {
        &self.digest
    }
}

/// A document's content in chunks.
#[derive(Debug)]
pub(super) struct Joined {
    chunks: Vec<Arc<Chunk>>,
    gzip: OnceLock<Bytes>,
    whole: SharedBytes,
}

/// Large bytes that are made when they are needed: all that need them at the same time share them, and nothing keeps
/// them afterwards.
#[derive(Debug, Default)]
pub(super) struct SharedBytes(Mutex<Weak<Vec<u8>>>);

impl SharedBytes {
    /// The bytes that somebody still uses, or new ones.
    pub(super) fn get(&self, make: impl FnOnce() -> Vec<u8>) -> Bytes {
        struct Shared(Arc<Vec<u8>>);
        impl AsRef<[u8]> for Shared {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        // Held while the bytes are made, so that they are made once.
        let mut last = self.0.lock();
        let bytes = last.upgrade().unwrap_or_else(|| {
            let made = Arc::new(make());
            *last = Arc::downgrade(&made);
            made
        });
        Bytes::from_owner(Shared(bytes))
    }
}

impl Joined {
    /// Concatenates chunks.
    pub(super) fn new(chunks: Vec<Arc<Chunk>>) -> Self {
        Self { chunks, gzip: OnceLock::new(), whole: SharedBytes::default() }
    }

    /// The whole content.
    pub(super) fn plain(&self) -> Bytes {
        self.whole.get(|| {
            let mut all = Vec::with_capacity(self.chunks.iter().map(|chunk| chunk.plain.len()).sum());
            self.chunks.iter().for_each(|chunk| all.extend_from_slice(&chunk.plain));
            all
        })
    }

    /// The whole content, compressed with gzip.
    pub(super) fn gzip(&self) -> Bytes {
        self.gzip.get_or_init(|| member(self.chunks.iter().map(|chunk| &chunk.deflated)).into()).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use flate2::{Decompress, FlushDecompress};
    use std::io::Read as _;

    /// A text whose blocks are larger than the buffer of any writer.
    fn large() -> String {
        let digests = (0..2_000_u32).flat_map(|number| Sha512::digest(number.to_le_bytes()));
        digests.map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_text_of_a_member_can_be_read_before_its_end() {
        for text in [String::new(), "{}\n".to_owned(), large()] {
            let member = gzip_member(text.as_bytes());
            let mut read = String::new();
            GzDecoder::new(member.as_ref()).read_to_string(&mut read).unwrap();
            assert_eq!(read, text);
            let blocks = &member[HEADER.len()..member.len() - LAST_BLOCK.len() - 8];
            let (mut inflate, mut found) = (Decompress::new(false), vec![0; text.len() + 1]);
            inflate.decompress(blocks, &mut found, FlushDecompress::Sync).unwrap();
            assert_eq!(inflate.total_out(), text.len() as u64, "all of it is flushed");
        }
    }

    #[test]
    fn concatenated_chunks_are_one_gzip_stream() {
        let texts = [
            String::new(),
            "{\"a\":".to_owned(),
            "word ".repeat(50_000),
            large(),
            String::new(),
            "}".to_owned(),
        ];
        for count in 0..=texts.len() {
            let chunks = texts[..count].iter().map(|text| Chunk::new(text.clone().into_bytes()));
            let joined = Joined::new(chunks.collect());
            assert_eq!(joined.plain(), texts[..count].concat());
            let mut text = String::new();
            GzDecoder::new(joined.gzip().as_ref()).read_to_string(&mut text).unwrap();
            assert_eq!(text, texts[..count].concat());
        }
    }
}
