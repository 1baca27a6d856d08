//! Ranges of keys: one key, a half-open interval, or every key from a start on.

use bytes::Bytes;

/// The end of an interval of keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// The range is the start key only.
    Single,
    /// Keys strictly below this one. If it is at or below the start, the range is empty.
    Before(Bytes),
    /// No end: every key from the start on.
    Unbounded,
}

/// A contiguous range of keys in byte order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyRange {
    /// The first key.
    pub start: Bytes,
    /// The end of the range.
    pub end: End,
}

impl KeyRange {
    /// The range of exactly this key.
    pub fn single(key: impl Into<Bytes>) -> Self {
        Self { start: key.into(), end: End::Single }
    }

    /// All keys that begin with `prefix`; the empty prefix is [`KeyRange::all`].
    pub fn prefix(prefix: impl Into<Bytes>) -> Self {
        let start = prefix.into();
        match prefix_end(&start) {
            Some(end) => Self { start, end: End::Before(end) },
            None => Self { start, end: End::Unbounded },
        }
    }

    /// The range `start <= key < end`.
    pub fn between(start: impl Into<Bytes>, end: impl Into<Bytes>) -> Self {
        Self { start: start.into(), end: End::Before(end.into()) }
    }

    /// The range of every key from `start` on.
    pub fn from_key(start: impl Into<Bytes>) -> Self {
        Self { start: start.into(), end: End::Unbounded }
    }

    /// The range of every key.
    pub fn all() -> Self {
        Self { start: Bytes::new(), end: End::Unbounded }
    }

    /// Converts etcd's form: an empty `range_end` means the single key, one zero byte means no end, and any other value
    /// is the exclusive end. One zero byte is the smallest key.
    pub fn from_etcd(key: Bytes, range_end: Bytes) -> Self {
        match range_end.as_ref() {
            [] => Self { start: key, end: End::Single },
            [0] => Self { start: key, end: End::Unbounded },
            _ => Self { start: key, end: End::Before(range_end) },
        }
    }

    /// Whether `key` is in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        match &self.end {
            End::Single => key == self.start,
            End::Before(end) => key >= self.start.as_ref() && key < end.as_ref(),
            End::Unbounded => key >= self.start.as_ref(),
        }
    }

    /// Whether `key` is at or after the end, so that no later key can be in the range.
    pub fn is_past(&self, key: &[u8]) -> bool {
        match &self.end {
            End::Single => key > self.start.as_ref(),
            End::Before(end) => key >= end.as_ref(),
            End::Unbounded => false,
        }
    }

    /// Whether no key can be in the range.
    pub fn is_empty(&self) -> bool {
        matches!(&self.end, End::Before(end) if *end <= self.start)
    }

    /// The prefix, if the range is exactly the keys of a prefix that has an end.
    pub(crate) fn as_prefix(&self) -> Option<&Bytes> {
        match &self.end {
            End::Before(end) if prefix_end(&self.start).as_ref() == Some(end) => Some(&self.start),
            End::Before(_) | End::Single | End::Unbounded => None,
        }
    }
}

/// The smallest key above every key with this prefix; none if the prefix is empty or all 0xff.
fn prefix_end(prefix: &[u8]) -> Option<Bytes> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_holds_its_keys_and_no_others() {
        let range = KeyRange::prefix("/a/");
        for (key, inside) in [("/a/", true), ("/a/b", true), ("/a", false), ("/a0", false), ("/b/", false)] {
            assert_eq!(range.contains(key.as_bytes()), inside, "{key}");
        }
        assert_eq!(range.as_prefix(), Some(&Bytes::from("/a/")));
    }

    #[test]
    fn a_prefix_ending_in_0xff_carries_and_one_of_only_0xff_has_no_end() {
        let carried = KeyRange::prefix(vec![b'a', 0xff]);
        assert_eq!(carried.end, End::Before("b".into()));
        assert!(carried.contains(&[b'a', 0xff, 7]) && !carried.contains(b"b"));
        assert_eq!(KeyRange::prefix(vec![0xff, 0xff]).end, End::Unbounded);
        assert_eq!(KeyRange::prefix(""), KeyRange::all());
    }

    #[test]
    fn etcds_range_end_convention_is_converted() {
        let read = |key: &'static str, end: &'static str| KeyRange::from_etcd(key.into(), end.into());
        assert_eq!(read("a", ""), KeyRange::single("a"));
        assert_eq!(read("a", "\0"), KeyRange::from_key("a"));
        assert!(read("\0", "\0").contains(b"anything"));
        assert!(read("b", "a").is_empty() && !read("b", "a").contains(b"b"));
    }
}
