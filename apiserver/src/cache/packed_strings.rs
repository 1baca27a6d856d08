//! The few strings that lists and watches look at, of one object, in two allocations: a hundred thousand objects with twenty
//! small strings each must not cost two million boxes. What each string means is the caller's business.

/// Strings in a fixed order. Immutable.
#[derive(Debug)]
pub(super) struct Facts {
    text: Box<str>,
    /// Where each string ends in `text`; it begins where the one before ends.
    ends: Box<[u32]>,
}

impl Facts {
    /// Of these strings. Together they are shorter than the object they are from.
    ///
    /// # Panics
    /// If they are longer than 4 GiB.
    pub(super) fn of<'a>(strings: impl Iterator<Item = &'a str>) -> Self {
        let (mut text, mut ends) = (String::new(), Vec::new());
        for string in strings {
            text.push_str(string);
            ends.push(u32::try_from(text.len()).expect("an object is far smaller than 4 GiB"));
        }
        Self { text: text.into(), ends: ends.into() }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The string at a place.
    ///
    /// # Panics
    /// Beyond the last.
    pub(super) fn get(&self, at: usize) -> &str {
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.text[start..self.ends[at] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_come_back_in_order_and_empty_ones_too() {
        let strings = ["", "a", "", "ünï", ""];
        let facts = Facts::of(strings.into_iter());
        assert_eq!((0..facts.len()).map(|at| facts.get(at)).collect::<Vec<_>>(), strings);
        assert_eq!(Facts::of(std::iter::empty()).len(), 0);
    }
}
