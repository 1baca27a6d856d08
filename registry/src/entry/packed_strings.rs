//! Strings packed into two allocations. The cache keeps some twenty short strings for each of a hundred
//! thousand objects, which must not cost two million allocations.

use std::sync::Arc;

/// Strings in a fixed order. Immutable; copies share them.
#[derive(Clone, Debug)]
pub(super) struct PackedStrings {
    text: Arc<str>,
    /// The end of each string in `text`; a string begins where the one before ends.
    ends: Arc<[u32]>,
}

impl PackedStrings {
    /// Packs the strings. Together they are shorter than the object they come from.
    ///
    /// # Panics
    /// If they are longer than 4 GiB together.
    pub(super) fn of<'a>(strings: impl Iterator<Item = &'a str>) -> Self {
        let (mut text, mut ends) = (String::new(), Vec::new());
        for string in strings {
            text.push_str(string);
            ends.push(u32::try_from(text.len()).expect("an object is far smaller than 4 GiB"));
        }
        Self { text: text.into(), ends: ends.into() }
    }

    /// Whether both are copies of the same strings.
    #[cfg(test)]
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.text, &other.text)
    }

    /// The number of strings.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The string at an index.
    ///
    /// # Panics
    /// If `at` is not less than [`PackedStrings::len`].
    pub(super) fn get(&self, at: usize) -> &str {
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.text[start..self.ends[at] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_returned_in_order_including_empty_ones() {
        let strings = ["", "a", "", "ünï", ""];
        let packed = PackedStrings::of(strings.into_iter());
        assert_eq!((0..packed.len()).map(|at| packed.get(at)).collect::<Vec<_>>(), strings);
        assert_eq!(PackedStrings::of(std::iter::empty()).len(), 0);
    }
}
