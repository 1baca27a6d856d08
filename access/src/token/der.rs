//! The subset of DER (X.690) that keys need: reading elements in sequence, and encoding them. x509-parser
//! parses certificates.

use super::keys::KeyError;

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const NULL: u8 = 0x05;
pub(super) const OID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
pub(super) const CONTEXT_0: u8 = 0xa0;
pub(super) const CONTEXT_1: u8 = 0xa1;

/// A DER element: its tag and content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element<'a> {
    pub(super) tag: u8,
    pub(super) content: &'a [u8],
}

/// Reads elements from the front of a byte slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next element; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Element<'a>>, KeyError> {
        let Some((&tag, rest)) = self.0.split_first() else { return Ok(None) };
        let (&first, mut rest) = rest.split_first().ok_or(KeyError::Malformed)?;
        let length = if first < 0x80 {
            usize::from(first)
        } else {
            // The number of length bytes; the lengths of keys fit into four.
            let count = usize::from(first & 0x7f);
            if count == 0 || count > 4 || rest.len() < count {
                return Err(KeyError::Malformed);
            }
            let (bytes, after) = rest.split_at(count);
            rest = after;
            bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte))
        };
        if rest.len() < length {
            return Err(KeyError::Malformed);
        }
        let (content, rest) = rest.split_at(length);
        self.0 = rest;
        Ok(Some(Element { tag, content }))
    }

    /// The content of the next element, which must have this tag.
    pub(super) fn take(&mut self, tag: u8) -> Result<&'a [u8], KeyError> {
        let next = self.next()?.filter(|element| element.tag == tag);
        next.map(|element| element.content).ok_or(KeyError::Malformed)
    }

    pub(super) fn sequence(&mut self) -> Result<Reader<'a>, KeyError> {
        self.take(SEQUENCE).map(Reader)
    }

    /// The bytes of a non-negative integer, without leading zeros.
    pub(super) fn unsigned(&mut self) -> Result<&'a [u8], KeyError> {
        let bytes = self.take(INTEGER)?;
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        Ok(&bytes[zeros..])
    }
}

pub(super) fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    let length = content.len().to_be_bytes();
    match content.len() {
        short @ 0..0x80 => bytes.push(u8::try_from(short).expect("the range says so")),
        _ => {
            let zeros = length.iter().take_while(|byte| **byte == 0).count();
            bytes.push(0x80 | u8::try_from(length.len() - zeros).expect("a length has few bytes"));
            bytes.extend(&length[zeros..]);
        }
    }
    bytes.extend(content);
    bytes
}

pub(super) fn sequence(content: &[u8]) -> Vec<u8> {
    element(SEQUENCE, content)
}

pub(super) fn oid(content: &[u8]) -> Vec<u8> {
    element(OID, content)
}

pub(super) fn octets(content: &[u8]) -> Vec<u8> {
    element(OCTET_STRING, content)
}

/// Encodes a bit string of whole bytes.
pub(super) fn bits(content: &[u8]) -> Vec<u8> {
    element(BIT_STRING, &[&[0], content].concat())
}

pub(super) fn integer(value: u8) -> Vec<u8> {
    element(INTEGER, &[value])
}
