//! Fields: how the parts of a word become words, by splitting unquoted values at `IFS`.

use super::literal_pattern;

/// A field with its text, and as a pattern.
#[derive(Debug, Default)]
pub(super) struct Field {
    pub(super) text: String,
    /// Empty unless it has characters of patterns that are not quoted.
    pub(super) pattern: String,
    pub(super) globs: bool,
}

/// Collects the fields of one word.
pub(super) struct Splitter<'a> {
    /// `IFS`; `None` if nothing is split.
    ifs: Option<&'a str>,
    fields: Vec<Field>,
    current: Option<Field>,
    /// Blanks have just ended a field, so that a following separator belongs to them.
    blanks_ended: bool,
    /// Whether the field is a pattern whatever it has.
    patterns: bool,
}

impl<'a> Splitter<'a> {
    pub(super) fn new(ifs: Option<&'a str>) -> Self {
        Self { ifs, fields: Vec::new(), current: None, blanks_ended: false, patterns: false }
    }

    /// Collects one field as a pattern.
    pub(super) fn pattern() -> Self {
        Self { patterns: true, ..Self::new(None) }
    }

    pub(super) fn finish(mut self) -> Vec<Field> {
        self.fields.extend(self.current);
        self.fields
    }

    /// The separators.
    pub(super) fn is_splitting(&self) -> bool {
        self.ifs.is_some()
    }

    /// About how many fields a value becomes.
    pub(super) fn count(&self, text: &str) -> usize {
        self.ifs.map_or(1, |ifs| text.chars().filter(|c| ifs.contains(*c)).count() + 1)
    }

    fn field(&mut self) -> &mut Field {
        self.blanks_ended = false;
        let globs = self.patterns;
        self.current.get_or_insert_with(|| Field { globs, ..Field::default() })
    }

    /// Adds text of the script, in which patterns count.
    pub(super) fn text(&mut self, text: &str) {
        let field = self.field();
        if !field.globs && text.contains(['*', '?', '[', '(']) {
            field.globs = true;
            field.pattern = literal_pattern(&field.text);
        }
        field.text.push_str(text);
        if field.globs {
            field.pattern.push_str(text);
        }
    }

    /// Adds quoted text.
    pub(super) fn quoted(&mut self, text: &str) {
        let field = self.field();
        field.text.push_str(text);
        if field.globs {
            field.pattern.push_str(&literal_pattern(text));
        }
    }

    /// Ends the field, as between the values of `"$@"`.
    pub(super) fn next_field(&mut self) {
        self.fields.extend(self.current.take());
        self.blanks_ended = false;
    }

    /// Adds a value that is split, and in which patterns count.
    pub(super) fn value(&mut self, text: &str) {
        let Some(ifs) = self.ifs else {
            if !text.is_empty() {
                self.text(text);
            }
            return;
        };
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let length = rest.find(|c: char| ifs.contains(c)).unwrap_or(rest.len());
            if length > 0 {
                self.text(&rest[..length]);
                rest = &rest[length..];
                continue;
            }
            rest = &rest[c.len_utf8()..];
            let is_blank = matches!(c, ' ' | '\t' | '\n');
            match self.current.take() {
                Some(field) => {
                    self.fields.push(field);
                    self.blanks_ended = is_blank;
                }
                None if is_blank => {}
                None if self.blanks_ended => self.blanks_ended = false,
                None => self.fields.push(Field::default()),
            }
        }
    }
}
