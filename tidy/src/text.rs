//! Positions in texts.

/// Number of the line, from 1, on which `part` begins. `part` is a slice of `text`.
pub(crate) fn line_of(text: &str, part: &str) -> usize {
    let offset = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize).min(text.len());
    1 + text.as_bytes()[..offset].iter().filter(|byte| **byte == b'\n').count()
}

/// The parts of a text between backquotes.
pub(crate) fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_slice_is_where_it_begins() {
        let text = "one\ntwo `three`\nfour `five`";
        let lines: Vec<_> = quoted(text).map(|word| (word, line_of(text, word))).collect();
        assert_eq!(lines, [("three", 2), ("five", 3)]);
        assert_eq!(line_of(text, text), 1);
    }
}
