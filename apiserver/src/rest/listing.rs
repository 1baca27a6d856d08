//! [`Listing`]: a long answer that is encoded while it is sent, in chunks: a head, items, a tail. One chunk
//! is in memory at a time, however long the list is, because the next chunk is requested only after
//! the client has taken the last. No lock is held.

use bytes::{Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body::{Frame, SizeHint};
use std::convert::Infallible;
use std::io::Write as _;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Bytes at which a chunk ends after the present item. Large enough that frames, TLS records and system calls
/// cost little per byte; small enough that a slow client occupies little memory.
pub(super) const CHUNK_BYTES: usize = 64 * 1024;

/// A function that appends one item to a chunk.
type Put<T> = Box<dyn Fn(&T, &mut BytesMut) + Send>;

/// An iterator over the chunks of a list.
pub(super) struct Listing<T> {
    /// The text before the items; empty after it was sent.
    head: Bytes,
    items: std::vec::IntoIter<T>,
    put: Put<T>,
    separator: &'static str,
    /// The text after the items; `None` after it was sent.
    tail: Option<Bytes>,
    first: bool,
}

impl<T> Listing<T> {
    /// A list of items between a head and a tail.
    pub(super) fn new(
        head: impl Into<Bytes>,
        items: Vec<T>,
        put: impl Fn(&T, &mut BytesMut) + Send + 'static,
        separator: &'static str,
        tail: impl Into<Bytes>,
    ) -> Self {
        let (head, tail) = (head.into(), Some(tail.into()));
        Self { head, items: items.into_iter(), put: Box::new(put), separator, tail, first: true }
    }
}

impl<T> Iterator for Listing<T> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        self.tail.as_ref()?;
        let mut chunk =
            BytesMut::with_capacity(if self.items.len() > 16 { CHUNK_BYTES + 8192 } else { 4096 });
        chunk.extend_from_slice(&std::mem::take(&mut self.head));
        while chunk.len() < CHUNK_BYTES {
            let Some(item) = self.items.next() else {
                chunk.extend_from_slice(&self.tail.take().unwrap_or_default());
                break;
            };
            if !std::mem::take(&mut self.first) {
                chunk.extend_from_slice(self.separator.as_bytes());
            }
            (self.put)(&item, &mut chunk);
        }
        Some(chunk.freeze())
    }
}

/// An iterator that compresses chunks with gzip as they arrive.
pub(super) struct Gzipped<I> {
    chunks: I,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl<I> Gzipped<I> {
    /// Compresses at the fastest level, as Kubernetes does.
    pub(super) fn new(chunks: I) -> Self {
        Self { chunks, encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())) }
    }
}

impl<I: Iterator<Item = Bytes>> Iterator for Gzipped<I> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        const MEMORY: &str = "compressing into memory does not fail";
        loop {
            let encoder = self.encoder.as_mut()?;
            let Some(chunk) = self.chunks.next() else {
                return self.encoder.take().map(|encoder| encoder.finish().expect(MEMORY).into());
            };
            encoder.write_all(&chunk).expect(MEMORY);
            if !encoder.get_ref().is_empty() {
                return Some(std::mem::take(encoder.get_mut()).into());
            }
        }
    }
}

/// A response body of chunks.
pub(super) struct Chunks<I> {
    chunks: I,
    /// Bytes of all chunks that are left, if known.
    left: Option<u64>,
}

impl<I> Chunks<I> {
    /// A body of chunks; `length` is their total size, if known.
    pub(super) fn new(chunks: I, length: Option<usize>) -> Self {
        Self { chunks, left: length.map(|length| length as u64) }
    }
}

impl<I: Iterator<Item = Bytes> + Unpin> http_body::Body for Chunks<I> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let chunk = self.chunks.next();
        if let (Some(left), Some(chunk)) = (&mut self.left, &chunk) {
            *left -= chunk.len() as u64;
        }
        Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    fn listing(count: usize) -> Listing<usize> {
        let put = |n: &usize, out: &mut BytesMut| out.extend_from_slice(format!("{n:01000}").as_bytes());
        Listing::new("[", (0..count).collect(), put, ",", "]")
    }

    #[test]
    fn lists_are_sent_in_chunks() {
        for (count, chunks) in [(0, 1), (1, 1), (65, 1), (500, 8)] {
            let made: Vec<Bytes> = listing(count).collect();
            assert_eq!(made.len(), chunks, "{count}");
            let items: Vec<String> = (0..count).map(|n| format!("{n:01000}")).collect();
            assert_eq!(made.concat(), format!("[{}]", items.join(",")).into_bytes());
            assert!(made.iter().all(|chunk| chunk.len() < CHUNK_BYTES + 1002));
        }
    }

    #[test]
    fn compressed_chunks_are_one_stream() {
        let packed: Vec<u8> = Gzipped::new(listing(500)).flatten().collect();
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut text).unwrap();
        assert_eq!(text, listing(500).collect::<Vec<_>>().concat());
    }
}
