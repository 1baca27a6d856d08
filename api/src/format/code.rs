//! Formats of numbers and codes: identifiers, colors, card numbers and base64.

/// 24 hexadecimal digits.
pub(super) fn bson_object_id(text: &str) -> bool {
    text.len() == 24 && is_hex(text)
}

/// A UUID: hexadecimal digits in groups of 8, 4, 4, 4 and 12 with optional dashes. Some versions fix the
/// first digit of the third and fourth group.
pub(super) fn uuid(text: &str, version: Option<u8>, has_variant: bool) -> bool {
    let mut rest = text;
    for (group, length) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if group > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((digits, after)) = rest.split_at_checked(length) else { return false };
        let first = digits.bytes().next().unwrap_or_default().to_ascii_lowercase();
        let fits = match group {
            2 => version.is_none_or(|version| first == version),
            3 => !has_variant || matches!(first, b'8' | b'9' | b'a' | b'b'),
            _ => true,
        };
        if !fits || !is_hex(digits) {
            return false;
        }
        rest = after;
    }
    rest.is_empty()
}

/// An ISBN-10: ten digits, the last one a check digit or X; spaces and dashes are ignored.
pub(super) fn isbn10(text: &str) -> bool {
    let code = without_spaces_and_dashes(text);
    let [digits @ .., last] = code.as_bytes() else { return false };
    if digits.len() != 9 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let last = match last {
        b'X' => 10,
        digit if digit.is_ascii_digit() => u32::from(digit - b'0'),
        _ => return false,
    };
    let sum: u32 = (1..).zip(digits).map(|(weight, digit)| weight * u32::from(digit - b'0')).sum();
    (sum + 10 * last).is_multiple_of(11)
}

/// An ISBN-13: thirteen digits with a check digit; spaces and dashes are ignored.
pub(super) fn isbn13(text: &str) -> bool {
    let code = without_spaces_and_dashes(text);
    if code.len() != 13 || !code.bytes().all(|digit| digit.is_ascii_digit()) {
        return false;
    }
    let weights = [1, 3].into_iter().cycle();
    let sum: u32 = weights.zip(code.bytes()).map(|(weight, digit)| weight * u32::from(digit - b'0')).sum();
    sum.is_multiple_of(10)
}

fn without_spaces_and_dashes(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '\t' | '\n' | '\u{c}' | '\r' | ' ' | '-')).collect()
}

/// A card number of a known issuer with a Luhn check digit; other characters are ignored.
pub(super) fn credit_card(text: &str) -> bool {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).map(|digit| digit - b'0').collect();
    let luhn = |(at, digit): (usize, &u8)| match at % 2 {
        0 => u32::from(*digit),
        _ => u32::from(digit * 2 / 10 + digit * 2 % 10),
    };
    is_issued(&digits) && digits.iter().rev().enumerate().map(luhn).sum::<u32>().is_multiple_of(10)
}

/// Whether a card number has the length and prefix of a known issuer.
fn is_issued(digits: &[u8]) -> bool {
    matches!(
        (digits, digits.len()),
        ([4, ..], 13 | 16)
            | ([5, 1..=5, ..] | [6, 5, ..] | [6, 0, 1, 1, ..] | [3, 5, ..], 16)
            | ([3, 4 | 7, ..] | [2, 1, 3, 1, ..] | [1, 8, 0, 0, ..], 15)
            | ([3, 0, 0..=5, ..] | [3, 6 | 8, ..], 14)
    )
}

/// A social security number: three, two and four digits with separators.
pub(super) fn ssn(text: &str) -> bool {
    let is_separator = |at: usize| at == 3 || at == 6;
    text.len() == 11
        && text.bytes().enumerate().all(|(at, byte)| {
            if is_separator(at) { matches!(byte, b'-' | b' ') } else { byte.is_ascii_digit() }
        })
}

/// A hexadecimal color: three or six digits, with or without a number sign.
pub(super) fn hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && is_hex(digits)
}

/// A color `rgb(1, 2, 3)` with numbers up to 255.
pub(super) fn rgb_color(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')')) else { return false };
    let is_space = |c| matches!(c, '\t' | '\n' | '\u{c}' | '\r' | ' ');
    let parts: Vec<&str> = inner.split(',').map(|part| part.trim_matches(is_space)).collect();
    let is_part = |part: &&str| {
        let is_plain =
            part.bytes().all(|digit| digit.is_ascii_digit()) && (*part == "0" || !part.starts_with('0'));
        is_plain && part.parse::<u8>().is_ok()
    };
    parts.len() == 3 && parts.iter().all(is_part)
}

/// Base64 with padding, of at least four characters.
pub(super) fn base64(text: &str) -> bool {
    let padding = text.len() - text.trim_end_matches('=').len();
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && padding <= 2
        && text.bytes().take(text.len() - padding).all(is_digit)
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}
