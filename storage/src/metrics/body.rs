//! Splitting the body of a watch into its events, so that each can be counted as it is sent.

use http::HeaderMap;
use http::header::CONTENT_TYPE;

/// How events are delimited in a body. A chunk of a body holds whole events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// Each event is a line.
    Lines,
    /// Each event is preceded by its length in four bytes.
    Lengths,
}

impl Framing {
    /// The framing of a response, by its content type.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let media = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if media.contains("protobuf") { Self::Lengths } else { Self::Lines }
    }

    /// Calls `tell` with the size of each event in a chunk.
    pub(super) fn each(self, chunk: &[u8], mut tell: impl FnMut(usize)) {
        match self {
            Self::Lines => {
                let mut begin = 0;
                for end in memchr::memchr_iter(b'\n', chunk).map(|at| at + 1).chain([chunk.len()]) {
                    if end > begin {
                        tell(end - begin);
                        begin = end;
                    }
                }
            }
            Self::Lengths => {
                let mut rest = chunk;
                while let Some((length, body)) = rest.split_first_chunk::<4>() {
                    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
                    tell(length.min(body.len()));
                    rest = body.get(length..).unwrap_or_default();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(framing: Framing, chunk: &[u8]) -> Vec<usize> {
        let mut out = Vec::new();
        framing.each(chunk, |size| out.push(size));
        out
    }

    #[test]
    fn watch_events_are_split_by_lines_or_length_prefixes() {
        assert_eq!(sizes(Framing::Lines, b"{}\n{\"a\":1}\n"), [3, 8]);
        assert_eq!(sizes(Framing::Lines, b""), [0; 0]);
        assert_eq!(sizes(Framing::Lengths, b"\0\0\0\x02ab\0\0\0\x01c"), [2, 1]);
        assert_eq!(sizes(Framing::Lengths, b"\0\0\0\x09ab"), [2], "a chunk that lies does no harm");
    }
}
