//! Counts of fields in an encoded message. Pure.

/// The number of length-delimited fields with this number at the top level of an encoded message; counting ends above `most`, and where
/// the bytes are no message. An empty field takes two bytes, and a decoded one some hundred, so servers count before they decode.
///
/// ```
/// let message = [0x0a, 0, 0x12, 1, b'x', 0x0a, 2, 0x0a, 0];
/// assert_eq!(kstore_proto::count_fields(&message, 1, 10), 2);
/// assert_eq!(kstore_proto::count_fields(&[0x0a, 0].repeat(100), 1, 10), 11);
/// ```
pub fn count_fields(mut message: &[u8], field: u64, most: usize) -> usize {
    let mut count = 0;
    while let Some(tag) = varint(&mut message) {
        let skipped = match tag & 7 {
            0 => varint(&mut message).map(|_| 0),
            1 => Some(8),
            2 => varint(&mut message),
            5 => Some(4),
            _ => None,
        };
        let rest = skipped.and_then(|bytes| message.get(usize::try_from(bytes).ok()?..));
        count += usize::from(tag == field << 3 | 2);
        match rest {
            Some(rest) if count <= most => message = rest,
            _ => break,
        }
    }
    count
}

/// Takes a varint off the front.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kstore::v1 as pb;
    use prost::Message as _;

    #[test]
    fn operations_are_counted_among_other_fields_and_in_damaged_messages() {
        let operations = vec![pb::Operation::default(); 5];
        let message = pb::TransactRequest { operations, dry_run: true }.encode_to_vec();
        assert_eq!((count_fields(&message, 1, 10), count_fields(&message, 1, 3)), (5, 4));
        for end in 0..message.len() {
            assert!(count_fields(&message[..end], 1, 10) <= 5);
        }
        assert_eq!(count_fields(&[0xff; 20], 1, 10), 0);
        assert_eq!(count_fields(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f], 1, 10), 1);
    }
}
