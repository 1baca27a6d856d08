//! The encoding of a version: etcd's `mvccpb.KeyValue`. It is written by hand because the positions of key and value in
//! the bytes are needed. Fields are in ascending order; default fields are omitted.

use crate::types::kv::Stamp;
use crate::{LeaseId, Revision};
use bytes::Bytes;
use prost::encoding::{decode_varint, encode_varint, encoded_len_varint};
use std::ops::{Range, RangeTo};

/// The decoded numbers of a version, and the positions of its key and value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) key: Range<usize>,
    pub(crate) value: Range<usize>,
    pub(crate) stamp: Stamp,
}

const KEY: u8 = 0x0a;
const CREATE: u8 = 0x10;
const MOD: u8 = 0x18;
const VERSION: u8 = 0x20;
const VALUE: u8 = 0x2a;
const LEASE: u8 = 0x30;

pub(crate) fn encode(key: &[u8], value: &[u8], stamp: &Stamp) -> Bytes {
    let numbers = [
        (CREATE, stamp.create_revision.0),
        (MOD, stamp.mod_revision.0),
        (VERSION, stamp.version),
        (LEASE, stamp.lease.0),
    ];
    let number_len = |n: i64| if n == 0 { 0 } else { 1 + encoded_len_varint(n as u64) };
    let bytes_len =
        |b: &[u8]| if b.is_empty() { 0 } else { 1 + encoded_len_varint(b.len() as u64) + b.len() };
    let len = bytes_len(key) + bytes_len(value) + numbers.iter().map(|(_, n)| number_len(*n)).sum::<usize>();
    let mut out = Vec::with_capacity(len);
    put_bytes(&mut out, KEY, key);
    for (tag, number) in &numbers[..3] {
        put_number(&mut out, *tag, *number);
    }
    put_bytes(&mut out, VALUE, value);
    put_number(&mut out, LEASE, stamp.lease.0);
    debug_assert_eq!(out.len(), len, "the length was computed from the same fields");
    out.into()
}

fn put_bytes(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    if !bytes.is_empty() {
        out.push(tag);
        encode_varint(bytes.len() as u64, out);
        out.extend_from_slice(bytes);
    }
}

fn put_number(out: &mut Vec<u8>, tag: u8, number: i64) {
    if number != 0 {
        out.push(tag);
        encode_varint(number as u64, out);
    }
}

/// Decodes what [`encode`] writes; none for any other bytes.
pub(crate) fn decode(encoded: &[u8]) -> Option<Fields> {
    let mut fields = Fields::default();
    let (mut rest, mut before) = (encoded, 0);
    while let Some((tag, tail)) = rest.split_first() {
        rest = tail;
        let number = decode_varint(&mut rest).ok()?;
        match *tag {
            tag if tag <= before => return None,
            KEY => fields.key = take(encoded, &mut rest, number)?,
            VALUE => fields.value = take(encoded, &mut rest, number)?,
            CREATE => fields.stamp.create_revision = Revision(number as i64),
            MOD => fields.stamp.mod_revision = Revision(number as i64),
            VERSION => fields.stamp.version = number as i64,
            LEASE => fields.stamp.lease = LeaseId(number as i64),
            _ => return None,
        }
        before = *tag;
    }
    Some(fields)
}

fn take(whole: &[u8], rest: &mut &[u8], len: u64) -> Option<Range<usize>> {
    let len = usize::try_from(len).ok().filter(|len| *len <= rest.len())?;
    let start = whole.len() - rest.len();
    *rest = &rest[len..];
    Some(start..start + len)
}

/// Position of the key in an encoded version. The key is the first field, so finding it is cheap: the index compares
/// keys all the time.
pub(crate) fn key(encoded: &[u8]) -> Range<usize> {
    match *encoded {
        [KEY, len, ..] if len < 0x80 => 2..2 + usize::from(len),
        [KEY, low, high, ..] if high < 0x80 => {
            let len = usize::from(low & 0x7f) | usize::from(high) << 7;
            3..3 + len
        }
        _ => decode(encoded).map(|fields| fields.key).unwrap_or_default(),
    }
}

/// The part of the encoding of a version without a lease that remains when the value is removed. The value must not be empty.
pub(crate) fn end_before_value(value: &Range<usize>) -> RangeTo<usize> {
    ..value.start - 1 - encoded_len_varint(value.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyValue;
    use prost::Message;

    /// The message as prost encodes it: the reference for the hand-written form.
    #[derive(Clone, PartialEq, Message)]
    struct Reference {
        #[prost(bytes = "vec", tag = "1")]
        key: Vec<u8>,
        #[prost(int64, tag = "2")]
        create_revision: i64,
        #[prost(int64, tag = "3")]
        mod_revision: i64,
        #[prost(int64, tag = "4")]
        version: i64,
        #[prost(bytes = "vec", tag = "5")]
        value: Vec<u8>,
        #[prost(int64, tag = "6")]
        lease: i64,
    }

    fn samples() -> Vec<(Vec<u8>, Vec<u8>, Stamp)> {
        let stamp = |c, m, v, l| Stamp {
            create_revision: Revision(c),
            mod_revision: Revision(m),
            version: v,
            lease: LeaseId(l),
        };
        vec![
            (b"a".to_vec(), b"1".to_vec(), stamp(2, 2, 1, 0)),
            (b"a".to_vec(), vec![], stamp(2, 300, 7, 0)),
            (b"long".repeat(50), b"x".repeat(70_000), stamp(1 << 40, i64::MAX, 3, -5)),
            (b"gone".to_vec(), vec![], stamp(0, 9, 0, 0)),
            (b"k".repeat(127), b"1".to_vec(), stamp(2, 2, 1, 3)),
            (b"k".repeat(128), b"1".to_vec(), stamp(2, 2, 1, 3)),
            (b"k".repeat(20_000), b"1".to_vec(), stamp(2, 2, 1, 3)),
            (vec![], vec![], Stamp::default()),
        ]
    }

    #[test]
    fn versions_are_encoded_as_protobuf_and_decode() {
        for (key, value, stamp) in samples() {
            let kv = KeyValue::new(&key, &value, stamp);
            let reference = Reference {
                key: key.clone(),
                create_revision: stamp.create_revision.0,
                mod_revision: stamp.mod_revision.0,
                version: stamp.version,
                value: value.clone(),
                lease: stamp.lease.0,
            };
            assert_eq!(kv.encoded().as_ref(), reference.encode_to_vec());
            let read = KeyValue::decode(kv.encoded().clone()).unwrap();
            assert_eq!((read.key(), read.value(), read.stamp()), (&key[..], &value[..], stamp));
        }
    }

    #[test]
    fn a_version_without_its_value_decodes() {
        for (key, value, stamp) in samples() {
            let bare = KeyValue::new(&key, &value, stamp).without_value();
            let read = KeyValue::decode(bare.encoded().clone()).unwrap();
            assert_eq!((read.key(), read.value(), read.stamp()), (&key[..], &b""[..], stamp));
        }
    }

    #[test]
    fn only_the_canonical_encoding_of_a_version_decodes() {
        let fields: [&[u8]; 4] = [&[KEY, 1, b'a'], &[MOD, 7], &[VERSION, 1], &[VALUE, 1, b'x']];
        assert!(decode(&fields.concat()).is_some());
        for (a, b) in [(0, 1), (0, 3), (1, 2), (2, 3)] {
            let mut swapped = fields;
            swapped.swap(a, b);
            assert_eq!(decode(&swapped.concat()), None, "{swapped:?}");
        }
        assert_eq!(decode(&[KEY, 1, b'a', KEY, 1, b'b']), None, "a field twice");
    }

    #[test]
    fn truncated_versions_are_refused_or_shorter_and_never_panic() {
        for (key, value, stamp) in samples() {
            let kv = KeyValue::new(&key, &value, stamp);
            (0..kv.encoded().len().min(100)).for_each(|cut| {
                let _ = KeyValue::decode(kv.encoded().slice(..cut));
            });
        }
    }
}
