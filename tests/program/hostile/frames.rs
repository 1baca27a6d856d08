//! HTTP/2 frames that no client library writes.

/// The first bytes of a connection.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Kinds of frames.
pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const SETTINGS: u8 = 4;

/// Flags of frames.
pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[a, b, c, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

/// Settings with this window for the answers of each stream.
pub(super) fn initial_window(bytes: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[&[0, 4][..], &bytes.to_be_bytes()].concat())
}

/// The head of a request; `flags` may say that it is the whole request.
pub(super) fn head(stream: u32, flags: u8, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        // A literal that joins no table.
        block.push(0);
        text(&mut block, name);
        text(&mut block, value);
    }
    frame(HEADERS, END_HEADERS | flags, stream, &block)
}

/// A text without Huffman coding, after its length.
fn text(block: &mut Vec<u8>, text: &str) {
    let mut length = text.len();
    if length < 0x7f {
        block.push(u8::try_from(length).unwrap());
    } else {
        block.push(0x7f);
        length -= 0x7f;
        while length >= 0x80 {
            block.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
            length >>= 7;
        }
        block.push(u8::try_from(length).unwrap());
    }
    block.extend_from_slice(text.as_bytes());
}
