//! HTTP/2 frames, and the few header blocks that a gRPC client sends, as bytes. Pure; `link` is the
//! connection.
//!
//! A client library costs more per call than the measured servers and would compete for their CPUs. A load
//! needs little of the protocol: its requests are alike, and only the data of an answer matters, so response
//! headers are never decoded.

/// The connection preface.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Size of a frame header in bytes.
pub(super) const HEAD: usize = 9;

/// Largest frame payload before a peer sends other settings.
pub(super) const FRAME_BYTES: usize = 16_384;

/// Largest window, granted to the peer in both directions.
pub(super) const WINDOW_MAX: u32 = (1 << 31) - 1;

/// The window that a peer grants before it sends other settings.
pub(super) const WINDOW_INITIAL: i64 = 65_535;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// The relevant frame types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameType {
    Data,
    Headers,
    Reset,
    Settings,
    Ping,
    GoAway,
    WindowUpdate,
    Other,
}

/// A frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) len: usize,
    pub(super) kind: FrameType,
    flags: u8,
    pub(super) stream: u32,
}

impl FrameHeader {
    /// Reads the frame header at the start of `bytes`, if it is complete.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let head: &[u8; HEAD] = bytes.first_chunk()?;
        let [a, b, c, kind, flags, s0, s1, s2, s3] = *head;
        let kind = match kind {
            0 => FrameType::Data,
            1 => FrameType::Headers,
            3 => FrameType::Reset,
            4 => FrameType::Settings,
            6 => FrameType::Ping,
            7 => FrameType::GoAway,
            8 => FrameType::WindowUpdate,
            _ => FrameType::Other,
        };
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        let stream = u32::from_be_bytes([s0, s1, s2, s3]) & WINDOW_MAX;
        Some(Self { len, kind, flags, stream })
    }

    /// Whether the stream ends with this frame.
    pub(super) fn ends(self) -> bool {
        matches!(self.kind, FrameType::Data | FrameType::Headers) && self.flags & END_STREAM != 0
    }

    /// Whether a SETTINGS or PING frame acknowledges one sent before.
    pub(super) fn is_ack(self) -> bool {
        self.flags & ACK != 0
    }
}

fn head(out: &mut Vec<u8>, len: usize, kind: u8, flags: u8, stream: u32) {
    let len = u32::try_from(len).expect("a frame is far below 4 GiB").to_be_bytes();
    out.extend_from_slice(&len[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
}

/// The client's settings: no server push, and windows that never block a server.
pub(super) fn settings(out: &mut Vec<u8>) {
    head(out, 12, 4, 0, 0);
    out.extend_from_slice(&[0, 2, 0, 0, 0, 0]);
    out.extend_from_slice(&[0, 4]);
    out.extend_from_slice(&WINDOW_MAX.to_be_bytes());
}

/// Acknowledges the peer's settings.
pub(super) fn settings_ack(out: &mut Vec<u8>) {
    head(out, 0, 4, ACK, 0);
}

/// Answers a ping.
pub(super) fn ping_ack(out: &mut Vec<u8>, payload: &[u8]) {
    head(out, payload.len(), 6, ACK, 0);
    out.extend_from_slice(payload);
}

/// Grants `bytes` more for the connection.
pub(super) fn window_update(out: &mut Vec<u8>, bytes: u32) {
    head(out, 4, 8, 0, 0);
    out.extend_from_slice(&bytes.to_be_bytes());
}

/// A part of a request's body.
pub(super) fn data(out: &mut Vec<u8>, stream: u32, bytes: &[u8], end: bool) {
    head(out, bytes.len(), 0, if end { END_STREAM } else { 0 }, stream);
    out.extend_from_slice(bytes);
}

/// The bytes granted by a window update.
pub(super) fn granted(payload: &[u8]) -> i64 {
    let bytes = payload.first_chunk().copied().unwrap_or_default();
    i64::from(u32::from_be_bytes(bytes) & WINDOW_MAX)
}

/// The header encoder of one connection: a field is sent literally once, and later by its index in the
/// dynamic table.
#[derive(Debug, Default)]
pub(super) struct Headers {
    known: Vec<(u8, String)>,
}

impl Headers {
    /// Encodes the headers of a call of `path`.
    pub(super) fn call(&mut self, out: &mut Vec<u8>, stream: u32, authority: &str, path: &str) {
        let mut block = vec![METHOD_POST, SCHEME_HTTP];
        let fields = [
            (PATH, path),
            (AUTHORITY, authority),
            (CONTENT_TYPE, "application/grpc"),
            (USER_AGENT, "kstore-benches"),
            (NEW_NAME, "trailers"),
        ];
        for (name, value) in fields {
            self.field(&mut block, name, value);
        }
        head(out, block.len(), 1, END_HEADERS, stream);
        out.extend_from_slice(&block);
    }

    fn field(&mut self, block: &mut Vec<u8>, name: u8, value: &str) {
        let index = self.known.iter().rev().position(|known| known.0 == name && known.1 == value);
        if let Some(age) = index {
            // The newest entry follows the static table of 61 entries.
            block.push(0x80 | u8::try_from(62 + age).expect("few fields are known"));
            return;
        }
        block.push(name);
        if name == NEW_NAME {
            string(block, "te");
        }
        string(block, value);
        self.known.push((name, value.to_owned()));
    }
}

const METHOD_POST: u8 = 0x83;
const SCHEME_HTTP: u8 = 0x86;
// Literal representations with incremental indexing and a name from the static table.
const AUTHORITY: u8 = 0x41;
const PATH: u8 = 0x44;
const CONTENT_TYPE: u8 = 0x5f;
const USER_AGENT: u8 = 0x7a;
/// Literal representation with incremental indexing and a literal name, used for `te` only.
const NEW_NAME: u8 = 0x40;

fn string(block: &mut Vec<u8>, text: &str) {
    block.push(u8::try_from(text.len()).ok().filter(|len| *len < 127).expect("header values are short"));
    block.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_header_decodes_to_what_was_encoded() {
        let mut out = Vec::new();
        data(&mut out, 7, b"abc", true);
        let head = FrameHeader::read(&out).unwrap();
        assert_eq!((head.len, head.kind, head.stream, head.ends()), (3, FrameType::Data, 7, true));
        assert_eq!(&out[HEAD..], b"abc");
        assert_eq!(FrameHeader::read(&out[..HEAD - 1]), None);
    }

    #[test]
    fn a_second_call_of_the_same_method_sends_indexed_headers() {
        let mut headers = Headers::default();
        let (mut first, mut second) = (Vec::new(), Vec::new());
        headers.call(&mut first, 1, "localhost:1", "/a/B");
        headers.call(&mut second, 3, "localhost:1", "/a/B");
        assert!(first.len() > 60);
        assert_eq!(
            second[HEAD..],
            [METHOD_POST, SCHEME_HTTP, 0x80 | 66, 0x80 | 65, 0x80 | 64, 0x80 | 63, 0x80 | 62]
        );
    }
}
