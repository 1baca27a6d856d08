//! Escapes names of fields for expressions: reserved words, and characters that CEL identifiers cannot have.

use std::borrow::Cow;

/// Reserved words, which expressions cannot use as identifiers.
const RESERVED: [&str; 21] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

/// Character sequences and their escapes, in the order in which escaping tries them.
const ESCAPES: [(&str, &str); 4] =
    [("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")];

/// Whether a name is a reserved word. Expressions may select a field of such a name by the name itself too.
pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// The name that expressions use for a field; none if no expression can name the field.
pub(crate) fn escape(name: &str) -> Option<Cow<'_, str>> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if is_reserved(name) {
        return Some(Cow::Owned(format!("__{name}__")));
    }
    if !name.contains("__") && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Some(Cow::Borrowed(name));
    }
    let mut out = String::with_capacity(name.len() + 16);
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        match ESCAPES.iter().find(|(plain, _)| rest.starts_with(plain)) {
            Some((plain, escaped)) => {
                out.push_str(escaped);
                rest = &rest[plain.len()..];
            }
            None if first.is_ascii_alphanumeric() || first == '_' => {
                out.push(first);
                rest = &rest[1..];
            }
            None => return None,
        }
    }
    Some(Cow::Owned(out))
}

/// The field that expressions call by an escaped name; none if [`escape`] makes no such name.
pub(crate) fn unescape(escaped: &str) -> Option<String> {
    let inner = escaped.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"));
    if let Some(word) = inner.filter(|word| is_reserved(word)) {
        return Some(word.to_owned());
    }
    let mut out = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(first) = rest.chars().next() {
        match ESCAPES.iter().find(|(_, escape)| rest.starts_with(escape)) {
            Some((plain, escape)) => {
                out.push_str(plain);
                rest = &rest[escape.len()..];
            }
            None => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    (escape(&out).as_deref() == Some(escaped)).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_escaped_as_in_kubernetes() {
        let cases = [
            ("plain_1", Some("plain_1")),
            ("a-b.c/d", Some("a__dash__b__dot__c__slash__d")),
            ("__x", Some("__underscores__x")),
            ("a___b", Some("a__underscores___b")),
            ("namespace", Some("__namespace__")),
            ("while", Some("__while__")),
            ("self", Some("self")),
            ("1a", None),
            ("", None),
            ("a b", None),
            ("größe", None),
        ];
        for (name, escaped) in cases {
            assert_eq!(escape(name).as_deref(), escaped, "{name}");
        }
        assert_eq!(unescape("a__dash__b"), Some("a-b".to_owned()));
        assert_eq!(unescape("a__b"), None);
    }

    proptest! {
        #[test]
        fn unescaping_undoes_escaping(name in "[a_./-]{1,8}|__[a-z]{2,5}__") {
            if let Some(escaped) = escape(&name) {
                prop_assert_eq!(unescape(&escaped), Some(name));
            }
        }
    }
}
