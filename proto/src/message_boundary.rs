//! Where the messages of a gRPC call begin and end among its bytes. Pure.

/// Bytes before each message of a call: a flag and the length.
const PREFIX: usize = 5;

/// Finds the ends of messages among the bytes of a call, which arrive in pieces of any size. Servers bound with it what they
/// hold of a message that is not complete.
///
/// ```
/// let mut boundary = kstore_proto::MessageBoundary::default();
/// assert_eq!(boundary.pass(&[0, 0, 0, 0, 3, b'a']), 3);
/// assert_eq!(boundary.partial(), 6);
/// boundary.pass(b"bc");
/// assert!(boundary.is_between());
/// ```
#[derive(Clone, Debug, Default)]
pub struct MessageBoundary {
    /// Bytes of the present message's prefix, as far as they have arrived.
    prefix: [u8; PREFIX],
    arrived: usize,
    /// Bytes of the present message that are still to come after its prefix.
    left: usize,
    /// Bytes of the present message that have arrived, with its prefix.
    partial: usize,
}

impl MessageBoundary {
    /// Whether all messages so far are complete.
    pub fn is_between(&self) -> bool {
        self.arrived == 0
    }

    /// Bytes that have arrived of the message that is not complete.
    pub fn partial(&self) -> usize {
        self.partial
    }

    /// Takes bytes. Returns the length of the longest message that begins in them.
    pub fn pass(&mut self, mut bytes: &[u8]) -> usize {
        let mut longest = 0;
        while !bytes.is_empty() {
            if self.arrived < PREFIX {
                let taken = bytes.len().min(PREFIX - self.arrived);
                self.prefix[self.arrived..self.arrived + taken].copy_from_slice(&bytes[..taken]);
                self.arrived += taken;
                self.partial += taken;
                bytes = &bytes[taken..];
                if self.arrived < PREFIX {
                    break;
                }
                let [_, length @ ..] = self.prefix;
                self.left = u32::from_be_bytes(length) as usize;
                longest = longest.max(self.left);
            }
            let taken = bytes.len().min(self.left);
            self.left -= taken;
            self.partial += taken;
            bytes = &bytes[taken..];
            if self.left == 0 {
                (self.arrived, self.partial) = (0, 0);
            }
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_end_where_their_prefixes_say_however_their_bytes_arrive() {
        let message = |bytes: usize| {
            let length = u32::try_from(bytes).unwrap().to_be_bytes();
            [&[0], &length[..], &vec![7; bytes]].concat()
        };
        let whole = [message(0), message(3), message(300), message(1)].concat();
        for size in 1..whole.len() {
            let (mut boundary, mut longest, mut ends) = (MessageBoundary::default(), 0, 0);
            for piece in whole.chunks(size) {
                longest = longest.max(boundary.pass(piece));
                ends += usize::from(boundary.is_between());
                assert_eq!(boundary.is_between(), boundary.partial() == 0);
            }
            assert_eq!((longest, boundary.is_between()), (300, true), "{size}");
            assert!(size > 1 || ends == 4);
        }
        let mut boundary = MessageBoundary::default();
        assert_eq!(boundary.pass(&[0, 255, 255, 255, 255, 1, 2]), u32::MAX as usize);
        assert_eq!((boundary.partial(), boundary.is_between()), (7, false));
    }
}
