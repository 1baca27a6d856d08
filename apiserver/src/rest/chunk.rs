//! [`Chunk`]: a part of a document that is compressed and hashed once, however often its neighbours change;
//! and [`Joined`], a document of chunks. Compressed chunks are concatenated into one gzip stream: each ends
//! at a byte boundary and refers to no earlier data.

use bytes::Bytes;
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use parking_lot::Mutex;
use sha2::{Digest, Sha512};
use std::io::Write as _;
use std::sync::{Arc, OnceLock, Weak};

/// A gzip header with the compression method only.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
/// The last DEFLATE block of a stream; it is empty.
const LAST_BLOCK: [u8; 2] = [3, 0];

/// A part of a document, in plain and in compressed form.
#[derive(Debug)]
pub(super) struct Chunk {
    plain: Bytes,
    /// DEFLATE blocks, without the last-block flag.
    deflated: Vec<u8>,
    sum: Crc,
    digest: [u8; 64],
}

impl Chunk {
    /// A chunk with this content.
    pub(super) fn new(plain: Vec<u8>) -> Arc<Self> {
        let mut encoder = DeflateEncoder::new(Vec::with_capacity(plain.len() / 8), Compression::fast());
        encoder
            .write_all(&plain)
            .and_then(|()| encoder.flush())
            .expect("compressing into memory does not fail");
        let deflated = std::mem::take(encoder.get_mut());
        let mut sum = Crc::new();
        sum.update(&plain);
        let digest = Sha512::digest(&plain).into();
        Arc::new(Self { plain: plain.into(), deflated, sum, digest })
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
        self.gzip.get_or_init(|| self.compressed().into()).clone()
    }

    fn compressed(&self) -> Vec<u8> {
        let size: usize = self.chunks.iter().map(|chunk| chunk.deflated.len()).sum();
        let mut all = Vec::with_capacity(size + HEADER.len() + LAST_BLOCK.len() + 8);
        all.extend_from_slice(&HEADER);
        let mut sum = Crc::new();
        for chunk in &self.chunks {
            all.extend_from_slice(&chunk.deflated);
            sum.combine(&chunk.sum);
        }
        all.extend_from_slice(&LAST_BLOCK);
        all.extend_from_slice(&sum.sum().to_le_bytes());
        all.extend_from_slice(&sum.amount().to_le_bytes());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read as _;

    #[test]
    fn concatenated_chunks_are_one_gzip_stream() {
        let texts =
            [String::new(), "{\"a\":".to_owned(), "word ".repeat(50_000), String::new(), "}".to_owned()];
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
