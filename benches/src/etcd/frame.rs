//! HTTP/2 frames and the few header blocks that a gRPC client sends, as bytes. Pure; not the connection that carries them.
//!
//! A client library costs more per call than the servers that are measured, and would share their cores. A load needs
//! little of the protocol: requests are alike, and of an answer only its data counts, so that headers are never decoded.

/// What a connection begins with.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of a frame's head.
pub(super) const HEAD: usize = 9;

/// The largest frame that may be sent unless a peer says otherwise.
pub(super) const FRAME_BYTES: usize = 16_384;

/// The largest window there is, in both directions what we grant.
pub(super) const WINDOW_MAX: u32 = (1 << 31) - 1;

/// The window that a peer grants before it says otherwise.
pub(super) const WINDOW_INITIAL: i64 = 65_535;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// The kinds of frame that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Data,
    Headers,
    Reset,
    Settings,
    Ping,
    GoAway,
    WindowUpdate,
    Other,
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) len: usize,
    pub(super) kind: Kind,
    flags: u8,
    pub(super) stream: u32,
}

impl Head {
    /// Reads the head at the beginning of `bytes`, if it is all there.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let head: &[u8; HEAD] = bytes.first_chunk()?;
        let [a, b, c, kind, flags, s0, s1, s2, s3] = *head;
        let kind = match kind {
            0 => Kind::Data,
            1 => Kind::Headers,
            3 => Kind::Reset,
            4 => Kind::Settings,
            6 => Kind::Ping,
            7 => Kind::GoAway,
            8 => Kind::WindowUpdate,
            _ => Kind::Other,
        };
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        let stream = u32::from_be_bytes([s0, s1, s2, s3]) & WINDOW_MAX;
        Some(Self { len, kind, flags, stream })
    }

    /// Whether the stream ends with this frame.
    pub(super) fn ends(self) -> bool {
        matches!(self.kind, Kind::Data | Kind::Headers) && self.flags & END_STREAM != 0
    }

    /// Whether a frame of settings or a ping answers one of ours.
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

/// Our settings: no server push, and windows that never hold a server back.
pub(super) fn settings(out: &mut Vec<u8>) {
    head(out, 12, 4, 0, 0);
    out.extend_from_slice(&[0, 2, 0, 0, 0, 0]);
    out.extend_from_slice(&[0, 4]);
    out.extend_from_slice(&WINDOW_MAX.to_be_bytes());
}

/// Says that the peer's settings hold.
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

/// Header blocks of one connection: a field is spelled out once and afterwards named by its place in the table, as every
/// client does it.
#[derive(Debug, Default)]
pub(super) struct Headers {
    known: Vec<(u8, String)>,
}

impl Headers {
    /// The headers of a call of `path`.
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
        let place = self.known.iter().rev().position(|known| known.0 == name && known.1 == value);
        if let Some(age) = place {
            // The newest entry has the place behind the fixed table of 61.
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
// Literals that join the table, with a name of the fixed table.
const AUTHORITY: u8 = 0x41;
const PATH: u8 = 0x44;
const CONTENT_TYPE: u8 = 0x5f;
const USER_AGENT: u8 = 0x7a;
/// The same with a name of its own; only `te` has one.
const NEW_NAME: u8 = 0x40;

fn string(block: &mut Vec<u8>, text: &str) {
    block.push(u8::try_from(text.len()).ok().filter(|len| *len < 127).expect("header values are short"));
    block.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let mut out = Vec::new();
        data(&mut out, 7, b"abc", true);
        let head = Head::read(&out).unwrap();
        assert_eq!((head.len, head.kind, head.stream, head.ends()), (3, Kind::Data, 7, true));
        assert_eq!(&out[HEAD..], b"abc");
        assert_eq!(Head::read(&out[..HEAD - 1]), None);
    }

    #[test]
    fn a_second_call_of_the_same_method_names_its_fields_by_place() {
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
