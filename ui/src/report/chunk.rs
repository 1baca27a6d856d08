//! The container of a report's data: a first line with the version of the format, and chunks, each with its type, its length, and its
//! content, deflated. Readers skip chunks of types that they do not know.

use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::Write as _;

/// The first line. A reader that knows an older number says that it needs a newer page.
pub(super) const FIRST_LINE: &str = "KSTORE-REPORT 1\n";

/// Bytes of a chunk's type, in ASCII and filled with spaces.
const TYPE_BYTES: usize = 8;

/// Lines of JSON on their way into a chunk. Writing stops when there are too many of them.
pub(super) struct ChunkWriter {
    encoder: ZlibEncoder<Vec<u8>>,
    /// Bytes that the chunk may have, and what it may have inflated.
    bounds: (usize, usize),
    inflated: usize,
}

/// The content would exceed its bound.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl ChunkWriter {
    pub(super) fn new(most: usize, most_inflated: usize) -> Self {
        let encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        Self { encoder, bounds: (most, most_inflated), inflated: 0 }
    }

    /// Adds a line.
    pub(super) fn line(&mut self, value: &serde_json::Value) -> Result<(), TooLong> {
        let mut text = value.to_string();
        text.push('\n');
        self.inflated += text.len();
        self.encoder.write_all(text.as_bytes()).expect("memory takes every write");
        let is_too_long = self.encoder.get_ref().len() > self.bounds.0 || self.inflated > self.bounds.1;
        if is_too_long { Err(TooLong) } else { Ok(()) }
    }

    /// The content, deflated, and its length inflated.
    pub(super) fn finish(self) -> Result<(Vec<u8>, usize), TooLong> {
        let content = self.encoder.finish().expect("memory takes every write");
        if content.len() > self.bounds.0 { Err(TooLong) } else { Ok((content, self.inflated)) }
    }
}

/// Appends a chunk.
pub(super) fn append(out: &mut Vec<u8>, kind: &str, content: &[u8]) {
    let length = u32::try_from(content.len()).expect("a chunk is smaller than a report");
    out.extend_from_slice(format!("{kind:TYPE_BYTES$}").as_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(content);
}

/// The chunks of a container, inflated.
#[cfg(test)]
pub(super) fn read(data: &[u8]) -> Vec<(String, Vec<serde_json::Value>)> {
    use std::io::Read as _;
    let mut rest = data.strip_prefix(FIRST_LINE.as_bytes()).unwrap();
    let mut found = Vec::new();
    while !rest.is_empty() {
        let (head, tail) = rest.split_at(TYPE_BYTES + 4);
        let kind = String::from_utf8_lossy(&head[..TYPE_BYTES]).trim_end().to_owned();
        let length = u32::from_le_bytes(head[TYPE_BYTES..].try_into().unwrap()) as usize;
        let mut text = String::new();
        flate2::read::ZlibDecoder::new(&tail[..length]).read_to_string(&mut text).unwrap();
        found.push((kind, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()));
        rest = &tail[length..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn chunks_come_back_as_they_were_written() {
        let mut chunk = ChunkWriter::new(1_000, 1_000);
        chunk.line(&json!({"a": 1})).unwrap();
        chunk.line(&json!([2])).unwrap();
        let (content, inflated) = chunk.finish().unwrap();
        assert_eq!(inflated, 12);
        let mut data = FIRST_LINE.as_bytes().to_vec();
        append(&mut data, "changes", &content);
        append(&mut data, "later", &ChunkWriter::new(100, 100).finish().unwrap().0);
        assert_eq!(
            read(&data),
            [("changes".to_owned(), vec![json!({"a": 1}), json!([2])]), ("later".to_owned(), vec![])]
        );
    }

    #[test]
    fn a_chunk_ends_at_its_bounds() {
        let mut inflated = ChunkWriter::new(1_000, 20);
        assert_eq!(inflated.line(&json!("0123456789")), Ok(()));
        assert_eq!(inflated.line(&json!("0123456789")), Err(TooLong));
        let mut chunk = ChunkWriter::new(4, 1_000);
        let _ = chunk.line(&json!("0123456789"));
        assert_eq!(chunk.finish(), Err(TooLong));
    }
}
