//! Encoding of header blocks: those of gRPC responses, which are nearly always the same, and any others. Pure.

use http::{HeaderMap, StatusCode};
use tonic::Status;

/// Encodes the header blocks of one connection. Two fields are put into the client's dynamic table and then sent as
/// their index; all others are sent literally.
#[derive(Debug)]
pub(super) struct Encoder {
    /// Our fields in the client's dynamic table, newest first.
    table: Vec<Field>,
    /// Whether the client's table has space for them.
    room: bool,
    /// The client reduced its table, which the next block must acknowledge.
    resized: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    ContentType,
    StatusOk,
}

const STATUS_200: u8 = 0x88;
/// The first index after the static table.
const DYNAMIC: u8 = 62;
/// Table size without another setting; our fields need far less.
const TABLE_BYTES: u32 = 4_096;

impl Default for Encoder {
    fn default() -> Self {
        Self { table: Vec::new(), room: true, resized: false }
    }
}

impl Encoder {
    /// Sets the size of the client's table.
    pub(super) fn resize(&mut self, bytes: u32) {
        if bytes < TABLE_BYTES {
            self.table.clear();
            (self.room, self.resized) = (false, true);
        }
    }

    fn begin(&mut self, block: &mut Vec<u8>) {
        if std::mem::take(&mut self.resized) {
            block.push(0x20);
        }
    }

    /// Encodes the headers before the messages of a call.
    pub(super) fn accepted(&mut self, block: &mut Vec<u8>) {
        self.begin(block);
        block.push(STATUS_200);
        self.field(block, Field::ContentType);
    }

    /// Encodes the trailers of a successful call.
    pub(super) fn ended(&mut self, block: &mut Vec<u8>) {
        self.begin(block);
        self.field(block, Field::StatusOk);
    }

    /// Encodes the whole response to a refused call.
    pub(super) fn refused(&mut self, block: &mut Vec<u8>, status: &Status) {
        self.accepted(block);
        self.failed(block, status);
    }

    /// Encodes the trailers of a failed call.
    pub(super) fn failed(&mut self, block: &mut Vec<u8>, status: &Status) {
        let mut map = HeaderMap::new();
        if status.add_header(&mut map).is_err() {
            map.clear();
            map.insert("grpc-status", http::HeaderValue::from_static("13"));
        }
        map.remove(http::header::CONTENT_TYPE);
        self.map(block, &map);
    }

    /// Encodes a status and any headers.
    pub(super) fn answer(&mut self, block: &mut Vec<u8>, status: StatusCode, headers: &HeaderMap) {
        self.begin(block);
        if status == StatusCode::OK {
            block.push(STATUS_200);
        } else {
            // Index 8 has the name; the value is literal.
            block.push(0x08);
            string(block, status.as_str().as_bytes());
        }
        self.map(block, headers);
    }

    /// Encodes any headers.
    pub(super) fn map(&mut self, block: &mut Vec<u8>, headers: &HeaderMap) {
        self.begin(block);
        for (name, value) in headers {
            block.push(0);
            string(block, name.as_str().as_bytes());
            string(block, value.as_bytes());
        }
    }

    fn field(&mut self, block: &mut Vec<u8>, field: Field) {
        if let Some(index) = self.table.iter().position(|known| *known == field) {
            block.push(0x80 | (DYNAMIC + index as u8));
            return;
        }
        let joins = if self.room { 0x40 } else { 0 };
        let (name, value) = match field {
            Field::ContentType => ("content-type", "application/grpc"),
            Field::StatusOk => ("grpc-status", "0"),
        };
        block.push(joins);
        string(block, name.as_bytes());
        string(block, value.as_bytes());
        if self.room {
            self.table.insert(0, field);
        }
    }
}

/// Encodes a string without Huffman coding, after its length.
fn string(block: &mut Vec<u8>, text: &[u8]) {
    let mut len = text.len();
    if len < 0x7f {
        block.push(len as u8);
    } else {
        block.push(0x7f);
        len -= 0x7f;
        while len >= 0x80 {
            block.push(len as u8 | 0x80);
            len >>= 7;
        }
        block.push(len as u8);
    }
    block.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::super::hpack::Decoder;
    use super::*;

    fn read(decoder: &mut Decoder, block: &[u8]) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        decoder.decode(block, 10_000, |name, value| fields.push((text(name), text(value)))).unwrap();
        fields
    }

    fn pairs(fields: &[(&str, &str)]) -> Vec<(String, String)> {
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn encoded_header_blocks_decode_with_any_table_size() {
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
        for round in 0..6 {
            if round == 3 {
                encoder.resize(0);
            }
            let (mut head, mut tail) = (Vec::new(), Vec::new());
            encoder.accepted(&mut head);
            encoder.ended(&mut tail);
            let accepted = pairs(&[(":status", "200"), ("content-type", "application/grpc")]);
            assert_eq!(read(&mut decoder, &head), accepted, "round {round}");
            assert_eq!(read(&mut decoder, &tail), pairs(&[("grpc-status", "0")]));
            assert!(round == 0 || round >= 3 || head.len() + tail.len() == 3);
        }
    }

    #[test]
    fn a_refused_call_has_code_and_text() {
        let (mut encoder, mut block) = (Encoder::default(), Vec::new());
        encoder.refused(&mut block, &Status::not_found(format!("a lease: {}", "x".repeat(300))));
        let fields = read(&mut Decoder::default(), &block);
        assert_eq!(fields[2], ("grpc-status".to_owned(), "5".to_owned()));
        assert_eq!(fields[3].0, "grpc-message");
        assert!(fields[3].1.len() > 300);
    }

    #[test]
    fn other_responses_keep_their_headers() {
        let (mut encoder, mut block) = (Encoder::default(), Vec::new());
        let mut headers = HeaderMap::new();
        headers.insert("x-thing", "1".parse().unwrap());
        encoder.answer(&mut block, StatusCode::NOT_FOUND, &headers);
        let fields = read(&mut Decoder::default(), &block);
        assert_eq!(fields, pairs(&[(":status", "404"), ("x-thing", "1")]));
    }
}
