//! HTTP/2 frames as bytes (RFC 9113). Pure; `connection` interprets them.

/// The client's connection preface.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Size of a frame's header.
pub(super) const HEAD: usize = 9;

/// The largest payload without another setting. This server does not raise it.
pub(super) const PAYLOAD_BYTES: usize = 16_384;

/// The initial window without another setting.
pub(super) const WINDOW: i64 = 65_535;

/// The largest payload that a setting may permit.
pub(super) const PAYLOAD_MAX: u32 = (1 << 24) - 1;

/// The largest window that flow control permits.
pub(super) const WINDOW_MAX: i64 = (1 << 31) - 1;

/// Error code of a reset stream or closed connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Reason {
    NoError = 0,
    Protocol = 1,
    FlowControl = 3,
    StreamClosed = 5,
    FrameSize = 6,
    RefusedStream = 7,
    Cancel = 8,
    Compression = 9,
    EnhanceYourCalm = 11,
}

/// The type of a frame. Frames of unknown types are skipped, as the standard demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Data,
    Headers,
    Priority,
    Reset,
    Settings,
    PushPromise,
    Ping,
    GoAway,
    WindowUpdate,
    Continuation,
    Unknown,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) len: usize,
    pub(super) kind: Kind,
    flags: u8,
    pub(super) stream: u32,
}

const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

impl Head {
    /// Decodes the frame header at the start of `bytes`, if it is complete.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let &[a, b, c, kind, flags, s0, s1, s2, s3] = bytes.first_chunk::<HEAD>()?;
        let kind = match kind {
            0 => Kind::Data,
            1 => Kind::Headers,
            2 => Kind::Priority,
            3 => Kind::Reset,
            4 => Kind::Settings,
            5 => Kind::PushPromise,
            6 => Kind::Ping,
            7 => Kind::GoAway,
            8 => Kind::WindowUpdate,
            9 => Kind::Continuation,
            _ => Kind::Unknown,
        };
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        Some(Self { len, kind, flags, stream: u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]) })
    }

    /// Whether the frame is the client's last one on the stream.
    pub(super) fn ends_stream(self) -> bool {
        self.flags & END_STREAM != 0
    }

    /// Whether the header block is complete.
    pub(super) fn ends_headers(self) -> bool {
        self.flags & END_HEADERS != 0
    }

    /// Whether a SETTINGS or PING frame acknowledges one of ours.
    pub(super) fn is_ack(self) -> bool {
        self.flags & ACK != 0
    }

    /// Checks that the length and the stream are valid for the frame's type, as far as its header shows.
    pub(super) fn check(self) -> Result<(), Reason> {
        let on_connection = matches!(self.kind, Kind::Settings | Kind::Ping | Kind::GoAway);
        let on_any = matches!(self.kind, Kind::WindowUpdate | Kind::Unknown);
        if !on_any && on_connection != (self.stream == 0) {
            return Err(Reason::Protocol);
        }
        let fits = match self.kind {
            Kind::Ping => self.len == 8,
            Kind::Reset | Kind::WindowUpdate => self.len == 4,
            Kind::Priority => self.len == 5,
            Kind::Settings if self.is_ack() => self.len == 0,
            Kind::Settings => self.len.is_multiple_of(6),
            Kind::GoAway => self.len >= 8,
            Kind::Data | Kind::Headers | Kind::PushPromise | Kind::Continuation | Kind::Unknown => true,
        };
        if fits { Ok(()) } else { Err(Reason::FrameSize) }
    }

    /// The range of the payload without padding and priority; none if they exceed the payload.
    pub(super) fn content(self, payload: &[u8]) -> Option<std::ops::Range<usize>> {
        let (mut start, mut end) = (0, payload.len());
        if self.flags & PADDED != 0 {
            end = end.checked_sub(usize::from(*payload.first()?))?;
            start = 1;
        }
        if self.kind == Kind::Headers && self.flags & PRIORITY != 0 {
            start += 5;
        }
        (start <= end).then_some(start..end)
    }
}

fn head(out: &mut Vec<u8>, len: usize, kind: u8, flags: u8, stream: u32) {
    let [_, a, b, c] = (len as u32).to_be_bytes();
    let [s0, s1, s2, s3] = stream.to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind, flags, s0, s1, s2, s3]);
}

/// Writes the header of a DATA frame; the caller appends `len` bytes.
pub(super) fn data(out: &mut Vec<u8>, stream: u32, len: usize) {
    head(out, len, 0, 0, stream);
}

/// Writes an empty DATA frame that ends a stream.
pub(super) fn end(out: &mut Vec<u8>, stream: u32) {
    head(out, 0, 0, END_STREAM, stream);
}

/// Writes a header block that `block` encodes; splits it into CONTINUATION frames if it is long.
pub(super) fn headers(out: &mut Vec<u8>, stream: u32, end: bool, block: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    head(out, 0, 1, END_HEADERS | if end { END_STREAM } else { 0 }, stream);
    block(out);
    let len = out.len() - start - HEAD;
    if len <= PAYLOAD_BYTES {
        let [_, a, b, c] = (len as u32).to_be_bytes();
        out[start..start + 3].copy_from_slice(&[a, b, c]);
        return;
    }
    let block = out.split_off(start + HEAD);
    out.truncate(start);
    let mut parts = block.chunks(PAYLOAD_BYTES).peekable();
    let (mut kind, mut flags) = (1, if end { END_STREAM } else { 0 });
    while let Some(part) = parts.next() {
        flags |= if parts.peek().is_none() { END_HEADERS } else { 0 };
        head(out, part.len(), kind, flags, stream);
        out.extend_from_slice(part);
        (kind, flags) = (9, 0);
    }
}

/// Writes RST_STREAM.
pub(super) fn reset(out: &mut Vec<u8>, stream: u32, reason: Reason) {
    head(out, 4, 3, 0, stream);
    out.extend_from_slice(&(reason as u32).to_be_bytes());
}

/// Writes GOAWAY: no stream above `last` will be served.
pub(super) fn go_away(out: &mut Vec<u8>, last: u32, reason: Reason) {
    head(out, 8, 7, 0, 0);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&(reason as u32).to_be_bytes());
}

/// Writes WINDOW_UPDATE for a stream, or for the connection if `stream` is zero.
pub(super) fn window_update(out: &mut Vec<u8>, stream: u32, bytes: u32) {
    head(out, 4, 8, 0, stream);
    out.extend_from_slice(&bytes.to_be_bytes());
}

/// Writes a PING or its acknowledgement.
pub(super) fn ping(out: &mut Vec<u8>, payload: &[u8], ack: bool) {
    head(out, payload.len(), 6, u8::from(ack), 0);
    out.extend_from_slice(payload);
}

/// Writes SETTINGS.
pub(super) fn settings(out: &mut Vec<u8>, settings: &[(Setting, u32)]) {
    head(out, settings.len() * 6, 4, 0, 0);
    for (setting, value) in settings {
        out.extend_from_slice(&(*setting as u16).to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Writes the acknowledgement of the client's settings.
pub(super) fn settings_ack(out: &mut Vec<u8>) {
    head(out, 0, 4, ACK, 0);
}

/// The settings that this server uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum Setting {
    HeaderTable = 1,
    Push = 2,
    MaxStreams = 3,
    InitialWindow = 4,
    MaxFrame = 5,
    MaxHeaderList = 6,
}

/// Decodes a SETTINGS payload; skips settings that this server does not use.
pub(super) fn read_settings(payload: &[u8]) -> impl Iterator<Item = (Setting, u32)> {
    let (settings, _) = payload.as_chunks::<6>();
    settings.iter().filter_map(|&[i0, i1, v0, v1, v2, v3]| {
        let setting = match u16::from_be_bytes([i0, i1]) {
            1 => Setting::HeaderTable,
            2 => Setting::Push,
            4 => Setting::InitialWindow,
            5 => Setting::MaxFrame,
            6 => Setting::MaxHeaderList,
            _ => return None,
        };
        Some((setting, u32::from_be_bytes([v0, v1, v2, v3])))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_header_decodes() {
        let mut out = Vec::new();
        data(&mut out, 7, 3);
        let read = Head::read(&out).unwrap();
        assert_eq!((read.len, read.kind, read.stream, read.ends_stream()), (3, Kind::Data, 7, false));
        assert_eq!(Head::read(&out[..HEAD - 1]), None);
    }

    #[test]
    fn long_header_blocks_continue_in_further_frames() {
        let mut out = Vec::new();
        headers(&mut out, 1, true, |block| block.resize(block.len() + 2 * PAYLOAD_BYTES + 1, 5));
        let (mut seen, mut rest) = (Vec::new(), &out[..]);
        while let Some(head) = Head::read(rest) {
            seen.push((head.kind, head.len, head.ends_headers()));
            rest = &rest[HEAD + head.len..];
        }
        let go_on = Kind::Continuation;
        assert_eq!(
            seen,
            [(Kind::Headers, PAYLOAD_BYTES, false), (go_on, PAYLOAD_BYTES, false), (go_on, 1, true)]
        );
        assert!(Head::read(&out).unwrap().ends_stream());
    }

    #[test]
    fn padding_and_priority_are_not_content() {
        let head = |kind, flags| Head { len: 0, kind, flags, stream: 1 };
        assert_eq!(head(Kind::Data, PADDED).content(&[2, 1, 1, 0, 0]), Some(1..3));
        assert_eq!(head(Kind::Data, PADDED).content(&[5, 1, 1, 0, 0]), None);
        assert_eq!(head(Kind::Headers, PRIORITY).content(&[0; 6]), Some(5..6));
        assert_eq!(head(Kind::Headers, PRIORITY).content(&[0; 4]), None);
        assert_eq!(head(Kind::Data, PADDED).content(&[]), None);
    }
}
