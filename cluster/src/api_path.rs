//! [`escape`]: names in paths and queries of the API.

/// Percent-encodes all bytes of a text with a meaning in a path or a query.
pub fn escape(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b':' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn bytes_with_a_meaning_are_escaped() {
        assert_eq!(escape("system:node-1.x_y"), "system:node-1.x_y");
        assert_eq!(escape("a/b?c=d&é"), "a%2Fb%3Fc%3Dd%26%C3%A9");
    }
}
