//! Rust source text as tokens: words, texts and signs with their lines. Comments are left out.

use std::collections::BTreeSet;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An identifier or a keyword.
    Word,
    /// A text; [`Token::text`] is what stands between its quotes.
    Text,
    /// One character of punctuation.
    Sign,
    /// A number, a character, a lifetime, or a text of bytes.
    Other,
}

/// A token of source text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'t> {
    pub(super) kind: Kind,
    pub(super) text: &'t str,
    pub(super) line: usize,
}

impl Token<'_> {
    pub(super) fn is_sign(&self, sign: &str) -> bool {
        self.kind == Kind::Sign && self.text == sign
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text == word
    }

    fn opens(&self) -> bool {
        self.kind == Kind::Sign && matches!(self.text, "(" | "[" | "{")
    }

    fn closes(&self) -> bool {
        self.kind == Kind::Sign && matches!(self.text, ")" | "]" | "}")
    }
}

/// The tokens of source text.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < text.len() {
        let rest = &text[at..];
        let (kind, length, inner) = next(rest);
        if let Some(kind) = kind {
            found.push(Token { kind, text: &rest[inner.0..inner.1], line });
        }
        line += rest[..length].matches('\n').count();
        at += length;
    }
    found
}

/// The kind of the token at the start of `rest`, its length, and where its text is in it; no kind for blanks and comments.
fn next(rest: &str) -> (Option<Kind>, usize, (usize, usize)) {
    let whole = |kind, length| (kind, length, (0, length));
    let first = rest.chars().next().unwrap_or(' ');
    if first.is_whitespace() {
        return whole(None, first.len_utf8());
    }
    if rest.starts_with("//") {
        return whole(None, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return whole(None, rest.find("*/").map_or(rest.len(), |end| end + 2));
    }
    if let Some((length, inner)) = raw_text(rest) {
        return (Some(Kind::Text), length, inner);
    }
    if first == '"' {
        let length = quoted_length(rest, '"');
        return (Some(Kind::Text), length, (1, length - 1));
    }
    if rest.starts_with("b\"") {
        return whole(Some(Kind::Other), 1 + quoted_length(&rest[1..], '"'));
    }
    if first == '\'' {
        return whole(Some(Kind::Other), quote_length(rest));
    }
    let word = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
    match (word, first.is_ascii_digit()) {
        (0, _) => whole(Some(Kind::Sign), first.len_utf8()),
        (_, true) => whole(Some(Kind::Other), word),
        (_, false) => whole(Some(Kind::Word), word),
    }
}

/// Length of the text at the start of `rest`, with its quotes.
fn quoted_length(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Length of the character or lifetime at the start of `rest`.
fn quote_length(rest: &str) -> usize {
    let mut after = rest.char_indices().skip(1);
    let first = after.next().map_or('\'', |(_, c)| c);
    let is_character = first == '\\' || after.next().is_some_and(|(_, c)| c == '\'');
    match is_character {
        true => quoted_length(rest, '\''),
        false => 1 + rest[1..].find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len() - 1),
    }
}

/// Length of the raw text at the start of `rest`, and where its inner text is.
fn raw_text(rest: &str) -> Option<(usize, (usize, usize))> {
    let after = rest.strip_prefix('r')?;
    let marks = after.len() - after.trim_start_matches('#').len();
    let inner = after[marks..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(marks));
    let start = 1 + marks + 1;
    let length = inner.find(&end).unwrap_or(inner.len());
    Some(((start + length + end.len()).min(rest.len()), (start, start + length)))
}

/// The index after the bracket that closes the one at `open`.
pub(super) fn after_brackets(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        if token.opens() {
            depth += 1;
        } else if token.closes() {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                return at + 1;
            }
        }
    }
    tokens.len()
}

/// The indices of the tokens inside attributes.
pub(super) fn attributes(tokens: &[Token<'_>]) -> BTreeSet<usize> {
    let is_start =
        |at: &usize| tokens[*at].is_sign("#") && tokens.get(at + 1).is_some_and(|open| open.is_sign("["));
    (0..tokens.len()).filter(is_start).flat_map(|at| at..after_brackets(tokens, at + 1)).collect()
}

/// The index of the comma outside brackets, or of the bracket that closes them, from `start` on.
pub(super) fn end_of_part(tokens: &[Token<'_>], start: usize) -> usize {
    let mut at = start;
    while at < tokens.len() {
        let token = &tokens[at];
        if token.is_sign(",") || token.closes() {
            return at;
        }
        at = if token.opens() { after_brackets(tokens, at) } else { at + 1 };
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_comments_characters_and_lifetimes_are_told_apart() {
        let text = "fn f<'a>(x: &'a str) { // \"no\"\n    x[\"a\\\"b\"] != '\"' && r#\"c\"d\"# /* \"e\" */ b\"f\"\n}";
        let found = tokens(text);
        let texts: Vec<_> = found.iter().filter(|token| token.kind == Kind::Text).collect();
        assert_eq!(
            texts.iter().map(|token| (token.text, token.line)).collect::<Vec<_>>(),
            [("a\\\"b", 2), ("c\"d", 2)]
        );
        assert!(found.last().unwrap().is_sign("}"));
    }

    #[test]
    fn brackets_end_where_they_close() {
        let found = tokens("f([a, (b)], c)");
        assert_eq!(after_brackets(&found, 1), found.len());
        assert_eq!(after_brackets(&found, 2), 9);
        assert_eq!(end_of_part(&found, 2), 9);
        assert_eq!(end_of_part(&found, 10), 11);
    }
}
