//! Decoding of header blocks (HPACK, RFC 7541). A block can refer to fields of earlier blocks by their index in a
//! table, so every block must be decoded, even for refused streams. Pure.

use super::huffman;
use std::collections::VecDeque;

/// Size of the dynamic table, as the standard counts it, without another setting.
const TABLE_BYTES: usize = 4_096;

/// Overhead per field in the standard's size of the table.
const FIELD_BYTES: usize = 32;

/// A malformed or oversized header block. The connection must end, because the tables of both sides differ from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the headers cannot be read")]
pub(super) struct BadHeaders;

/// A header field: name and value.
type Field = (Box<[u8]>, Box<[u8]>);

/// Decodes the header blocks of one connection.
#[derive(Debug)]
pub(super) struct Decoder {
    /// The dynamic table, newest field first.
    table: VecDeque<Field>,
    size: usize,
    max: usize,
    /// Name and value of the current field.
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { table: VecDeque::new(), size: 0, max: TABLE_BYTES, name: Vec::new(), value: Vec::new() }
    }
}

impl Decoder {
    /// Decodes a block and passes name and value of each field to `take`, in order. Fails above `limit` bytes of
    /// fields.
    pub(super) fn decode(
        &mut self,
        mut block: &[u8],
        mut limit: usize,
        mut take: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), BadHeaders> {
        let mut begun = false;
        while let Some(&first) = block.first() {
            if first & 0x80 != 0 {
                let (name, value) = self.at(integer(&mut block, 7)?)?;
                spend(&mut limit, name, value)?;
                take(name, value);
            } else if first & 0x60 == 0x20 {
                // A table size update is only valid before all fields.
                let max = if begun { Err(BadHeaders) } else { integer(&mut block, 5) }?;
                self.resize(max)?;
                continue;
            } else {
                let joins = first & 0x40 != 0;
                self.literal(&mut block, if joins { 6 } else { 4 })?;
                spend(&mut limit, &self.name, &self.value)?;
                take(&self.name, &self.value);
                if joins {
                    self.insert();
                }
            }
            begun = true;
        }
        // The capacity that a long field needed is released.
        self.name.shrink_to(TABLE_BYTES);
        self.value.shrink_to(TABLE_BYTES);
        Ok(())
    }

    /// Decodes a field with a literal value, and a literal or indexed name.
    fn literal(&mut self, block: &mut &[u8], bits: u32) -> Result<(), BadHeaders> {
        let index = integer(block, bits)?;
        let mut name = std::mem::take(&mut self.name);
        name.clear();
        if index == 0 {
            string(block, &mut name)?;
        } else {
            name.extend_from_slice(self.at(index)?.0);
        }
        self.name = name;
        self.value.clear();
        string(block, &mut self.value)
    }

    fn at(&self, index: usize) -> Result<(&[u8], &[u8]), BadHeaders> {
        let fixed = index.checked_sub(1).ok_or(BadHeaders)?;
        if let Some((name, value)) = FIXED.get(fixed) {
            return Ok((name.as_bytes(), value.as_bytes()));
        }
        let (name, value) = self.table.get(fixed - FIXED.len()).ok_or(BadHeaders)?;
        Ok((name, value))
    }

    fn insert(&mut self) {
        let size = self.name.len() + self.value.len() + FIELD_BYTES;
        self.evict(self.max.saturating_sub(size));
        if size <= self.max {
            self.size += size;
            self.table.push_front((self.name.as_slice().into(), self.value.as_slice().into()));
        }
    }

    fn evict(&mut self, max: usize) {
        while self.size > max
            && let Some((name, value)) = self.table.pop_back()
        {
            self.size -= name.len() + value.len() + FIELD_BYTES;
        }
    }

    fn resize(&mut self, max: usize) -> Result<(), BadHeaders> {
        if max > TABLE_BYTES {
            return Err(BadHeaders);
        }
        self.max = max;
        self.evict(max);
        Ok(())
    }
}

fn spend(limit: &mut usize, name: &[u8], value: &[u8]) -> Result<(), BadHeaders> {
    *limit = limit.checked_sub(name.len() + value.len() + FIELD_BYTES).ok_or(BadHeaders)?;
    Ok(())
}

/// Decodes an integer that starts in the last `bits` bits of the first byte.
fn integer(block: &mut &[u8], bits: u32) -> Result<usize, BadHeaders> {
    let (first, mut rest) = block.split_first().ok_or(BadHeaders)?;
    let mask = (1usize << bits) - 1;
    let mut value = usize::from(*first) & mask;
    if value == mask {
        // Four continuation bytes exceed every bound here.
        for shift in [0, 7, 14, 21] {
            let (byte, behind) = rest.split_first().ok_or(BadHeaders)?;
            rest = behind;
            value += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                *block = rest;
                return Ok(value);
            }
        }
        return Err(BadHeaders);
    }
    *block = rest;
    Ok(value)
}

fn string(block: &mut &[u8], out: &mut Vec<u8>) -> Result<(), BadHeaders> {
    let coded = block.first().is_some_and(|first| first & 0x80 != 0);
    let len = integer(block, 7)?;
    let (text, rest) = block.split_at_checked(len).ok_or(BadHeaders)?;
    *block = rest;
    if !coded {
        out.extend_from_slice(text);
        return Ok(());
    }
    huffman::decode(text, out).then_some(()).ok_or(BadHeaders)
}

/// The static table.
#[rustfmt::skip]
const FIXED: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
    ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""), ("etag", ""),
    ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""), ("if-modified-since", ""),
    ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""),
    ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""),
    ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<(String, String)>, BadHeaders> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        decoder.decode(block, 1_000, |name, value| fields.push((text(name), text(value))))?;
        Ok(fields)
    }

    fn fields(fields: &[(&str, &str)]) -> Vec<(String, String)> {
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_standards_request_examples_decode() {
        let first = fields(&[
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/"),
            (":authority", "www.example.com"),
        ]);
        let mut second = first.clone();
        second.push(("cache-control".to_owned(), "no-cache".to_owned()));
        let plain: [Vec<u8>; 2] = [
            [&[0x82, 0x86, 0x84, 0x41, 0x0f][..], b"www.example.com"].concat(),
            [&[0x82, 0x86, 0x84, 0xbe, 0x58, 0x08][..], b"no-cache"].concat(),
        ];
        let coded = [
            vec![
                0x82, 0x86, 0x84, 0x41, 0x8c, 0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90,
                0xf4, 0xff,
            ],
            vec![0x82, 0x86, 0x84, 0xbe, 0x58, 0x86, 0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf],
        ];
        for blocks in [plain, coded] {
            let mut decoder = Decoder::default();
            assert_eq!(read(&mut decoder, &blocks[0]), Ok(first.clone()));
            assert_eq!(decoder.size, 57);
            assert_eq!(read(&mut decoder, &blocks[1]), Ok(second.clone()));
            assert_eq!(decoder.size, 110);
        }
    }

    #[test]
    fn a_smaller_table_evicts_its_oldest_fields() {
        let mut decoder = Decoder::default();
        let block = [&[0x40, 1][..], b"a", &[1], b"b", &[0x40, 1], b"c", &[1], b"d"].concat();
        read(&mut decoder, &block).unwrap();
        assert_eq!(read(&mut decoder, &[0xbe, 0xbf]), Ok(fields(&[("c", "d"), ("a", "b")])));
        assert_eq!(read(&mut decoder, &[0x3f, 0x09, 0xbe]), Ok(fields(&[("c", "d")])), "40 bytes");
        assert_eq!(read(&mut decoder, &[0xbf]), Err(BadHeaders));
    }

    #[test]
    fn truncated_misplaced_and_oversized_fields_are_refused() {
        let long = [&[0x40, 1][..], b"a", &[0x7f, 0xe9, 0x07], &[b'x'; 1_000]].concat();
        for block in [
            &[0x80][..],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[0x40, 5, b'a'],
            &[0x41],
            &[0x3f, 0xe2, 0x1f],
            &[0x82, 0x20],
            &long,
        ] {
            assert_eq!(read(&mut Decoder::default(), block), Err(BadHeaders), "{block:x?}");
        }
    }
}
