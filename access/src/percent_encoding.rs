//! Decoding of percent-encoded texts in URLs and headers.

/// Percent-decodes one path segment; invalid escapes are kept.
pub fn decode(segment: &str) -> String {
    decode_with(segment, false)
}

/// Percent-decodes one component of a query, in which `+` is a space.
pub fn decode_query(component: &str) -> String {
    decode_with(component, true)
}

fn decode_with(text: &str, plus_is_space: bool) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let escape = (bytes[i] == b'%').then(|| bytes.get(i + 1..i + 3)).flatten();
        let value = escape
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match value {
            Some(byte) => {
                out.push(byte);
                i += 3;
            }
            None => {
                out.push(if plus_is_space && bytes[i] == b'+' { b' ' } else { bytes[i] });
                i += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_decoded_and_invalid_ones_kept() {
        assert_eq!(decode("a%2Fb%zz%4"), "a/b%zz%4");
        assert_eq!(decode_query("a+b%3Dc"), "a b=c");
    }
}
