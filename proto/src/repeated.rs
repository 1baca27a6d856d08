//! Counts of fields in an encoded message. Pure.

/// The number of length-delimited fields with this number at the top level of an encoded message; counting ends above `most`, and where
/// the bytes are no message. An empty field takes two bytes, and a decoded one some hundred, so servers count before they decode.
///
/// ```
/// let message = [0x0a, 0, 0x12, 1, b'x', 0x0a, 2, 0x0a, 0];
/// assert_eq!(kstore_proto::count_fields(&message, 1, 10), 2);
/// assert_eq!(kstore_proto::count_fields(&[0x0a, 0].repeat(100), 1, 10), 11);
/// ```
pub fn count_fields(message: &[u8], field: u64, most: usize) -> usize {
    MessageFields::of(message).filter(|(number, _)| *number == field).take(most.saturating_add(1)).count()
}

/// The length-delimited fields at the top level of an encoded message, with their numbers, until where the bytes are no message. A last
/// field that is cut off has the bytes that there are.
///
/// ```
/// let message = [0x08, 7, 0x12, 1, b'x'];
/// assert!(kstore_proto::MessageFields::of(&message).eq([(2, &b"x"[..])]));
/// ```
#[derive(Clone, Debug)]
pub struct MessageFields<'m> {
    rest: &'m [u8],
}

impl<'m> MessageFields<'m> {
    /// The fields of an encoded message.
    pub fn of(message: &'m [u8]) -> Self {
        Self { rest: message }
    }

    /// Takes `bytes` off the front, or all that there are.
    fn take(&mut self, bytes: u64) -> &'m [u8] {
        let bytes = usize::try_from(bytes).map_or(self.rest.len(), |bytes| bytes.min(self.rest.len()));
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        taken
    }
}

impl<'m> Iterator for MessageFields<'m> {
    type Item = (u64, &'m [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let tag = varint(&mut self.rest)?;
            match tag & 7 {
                0 => {
                    varint(&mut self.rest)?;
                }
                1 => {
                    self.take(8);
                }
                2 => {
                    let length = varint(&mut self.rest)?;
                    return Some((tag >> 3, self.take(length)));
                }
                5 => {
                    self.take(4);
                }
                _ => {
                    self.rest = &[];
                    return None;
                }
            }
        }
    }
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
