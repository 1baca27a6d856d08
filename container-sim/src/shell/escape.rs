//! Backslashes in texts: of `echo -e`, `printf`, `$'…'` and awk; and quoting for a shell.

/// Which escapes a text has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Escapes {
    /// `echo -e` and `%b`: `\0` begins an octal number, and `\c` ends the output.
    Echo,
    /// The format of `printf`, and `$'…'`.
    Format,
}

/// The text after its escapes are replaced, and whether `\c` ended it.
pub(super) fn replaced(text: &str, escapes: Escapes) -> (Vec<u8>, bool) {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&byte, behind)) = rest.split_first() {
        if byte != b'\\' {
            out.push(byte);
            rest = behind;
            continue;
        }
        let Some((value, length)) = escape(behind, escapes) else {
            if escapes == Escapes::Echo && behind.first() == Some(&b'c') {
                return (out, true);
            }
            out.push(b'\\');
            rest = behind;
            continue;
        };
        out.extend(value);
        rest = &behind[length..];
    }
    (out, false)
}

/// The text of `$'…'`.
pub(super) fn c_string(text: &str) -> Vec<u8> {
    let mut quoted = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            // Quotes need no backslash in the end, and other escapes keep theirs.
            ('\\', Some('\'' | '"' | '?')) => quoted.extend(chars.next()),
            ('\\', Some('\\')) => {
                chars.next();
                quoted.push_str("\\\\");
            }
            (c, _) => quoted.push(c),
        }
    }
    replaced(&quoted, Escapes::Format).0
}

/// The bytes of the escape behind a backslash, and its length. `None` if it is none.
pub(super) fn escape(behind: &[u8], escapes: Escapes) -> Option<(Vec<u8>, usize)> {
    let single = |byte: u8| Some((vec![byte], 1));
    let digits = |from: usize, most: usize, radix: u32| {
        let all = behind[from..].iter().take(most).take_while(|byte| char::from(**byte).is_digit(radix));
        let text: String = all.map(|byte| char::from(*byte)).collect();
        (u32::from_str_radix(&text, radix).ok(), from + text.len())
    };
    match *behind.first()? {
        b'n' => single(b'\n'),
        b't' => single(b'\t'),
        b'r' => single(b'\r'),
        b'a' => single(7),
        b'b' => single(8),
        b'v' => single(11),
        b'f' => single(12),
        b'e' | b'E' => single(27),
        b'\\' => single(b'\\'),
        b'x' => {
            let (value, length) = digits(1, 2, 16);
            value.map(|value| (vec![value.to_le_bytes()[0]], length))
        }
        b'0' if escapes == Escapes::Echo => {
            let (value, length) = digits(1, 3, 8);
            Some((vec![value.unwrap_or(0).to_le_bytes()[0]], length))
        }
        b'0'..=b'7' if escapes == Escapes::Format => {
            let (value, length) = digits(0, 3, 8);
            value.map(|value| (vec![value.to_le_bytes()[0]], length))
        }
        letter @ (b'u' | b'U') if escapes == Escapes::Format => {
            let (value, length) = digits(1, if letter == b'u' { 4 } else { 8 }, 16);
            let c = value.and_then(char::from_u32)?;
            Some((c.to_string().into_bytes(), length))
        }
        _ => None,
    }
}

/// A word as a shell reads it back: in single quotes if it must be.
pub(super) fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "+,-./:@]^_".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) { text.to_owned() } else { always_quoted(text) }
}

/// A word in single quotes.
pub(super) fn always_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}
