//! [`LineSplitter`]: splits network chunks into lines. A line within one chunk is a slice of it; the parts of a line
//! that spans chunks are copied together.

use bytes::{Bytes, BytesMut};

/// Splitter that turns network chunks into lines and buffers an incomplete last line.
#[derive(Debug, Default)]
pub(super) struct LineSplitter {
    begun: BytesMut,
}

/// The line exceeds the size limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl LineSplitter {
    /// The complete lines up to the end of `chunk`, without line ends and empty lines. Buffers an incomplete
    /// last line.
    pub(super) fn cut(&mut self, mut chunk: Bytes, longest: usize) -> Result<Vec<Bytes>, TooLong> {
        let mut lines = Vec::new();
        while let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
            let head = chunk.split_to(end + 1).slice(..end);
            let line = match self.begun.is_empty() {
                true => head,
                false => {
                    self.begun.extend_from_slice(&head);
                    self.begun.split().freeze()
                }
            };
            if !line.trim_ascii().is_empty() {
                lines.push(line);
            }
        }
        if self.begun.len() + chunk.len() > longest {
            return Err(TooLong);
        }
        self.begun.extend_from_slice(&chunk);
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// R1 depends on this: the chunking of a stream does not change its lines.
    #[test]
    fn lines_are_independent_of_network_chunks() {
        let text = "{\"a\":1}\n\n{\"b\":\"ü\"}\r\n{}\nrest";
        let whole = ["{\"a\":1}", "{\"b\":\"ü\"}\r", "{}"];
        for size in 1..text.len() {
            let mut lines = LineSplitter::default();
            let mut got = Vec::new();
            for chunk in text.as_bytes().chunks(size) {
                got.extend(lines.cut(Bytes::copy_from_slice(chunk), 100).unwrap());
            }
            assert_eq!(got, whole, "chunks of {size}");
            assert_eq!(lines.begun, "rest");
        }
    }

    #[test]
    fn an_unterminated_line_is_bounded() {
        let mut lines = LineSplitter::default();
        assert_eq!(lines.cut(Bytes::from_static(b"12345"), 8), Ok(Vec::new()));
        assert_eq!(lines.cut(Bytes::from_static(b"6789"), 8), Err(TooLong));
    }
}
