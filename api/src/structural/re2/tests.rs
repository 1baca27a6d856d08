//! Tests of patterns: texts that match, texts that do not, and patterns that Go refuses.

use super::compile;
use proptest::prelude::*;

#[test]
fn patterns_match_like_go() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("^[a-z]+$", &["abc"], &["", "aB", "a\n"]),
        (r"^\d+$", &["019"], &["\u{661}", "a"]),
        (r"^\w\W$", &["a\u{e4}", "_ "], &["\u{e4} ", "ab"]),
        (r"^\s$", &[" ", "\t", "\u{c}"], &["\u{b}", "\u{a0}"]),
        (r"^[^\S]$", &[" "], &["x"]),
        (r"^[\d-z]$", &["1", "-", "z"], &["y"]),
        (r"^[\w.-]+$", &["a.b-c_1"], &["a b"]),
        (r"\bx\b", &["x", "\u{e4}x"], &["ax"]),
        (r"^a\Bb$", &["ab"], &["a b"]),
        ("^a{$", &["a{"], &["a"]),
        ("^a{,2}$", &["a{,2}"], &["aa"]),
        ("^a{2,3}$", &["aa", "aaa"], &["a", "aaaa"]),
        ("^a{2}?$", &["aa"], &["a"]),
        (r"^\Qa.b*\E+$", &["a.b**"], &["aab*"]),
        (r"^\Qa.b", &["a.b"], &["axb"]),
        ("^[]a]+$", &["]a"], &["b"]),
        ("^[^]a]+$", &["b"], &["]"]),
        ("^[[a]+$", &["[a"], &["]"]),
        ("^[a&&b]+$", &["a&b"], &["c"]),
        ("^[a~~b]+$", &["~a"], &["!"]),
        ("^[[:alpha:][:digit:]]+$", &["a1"], &["-"]),
        ("^[[:^alpha:]]+$", &["1-"], &["a"]),
        (r"^\<a\>$", &["<a>"], &["a"]),
        (r"^\x41\x{1F600}\101$", &["A\u{1F600}A"], &["A"]),
        ("(?i)^abc$", &["ABC"], &["ab"]),
        ("(?i:a)b", &["Ab"], &["AB"]),
        ("(?s)^a.b$", &["a\nb"], &["ab"]),
        ("^a.b$", &["a-b"], &["a\nb"]),
        ("(?m)^b$", &["a\nb"], &["ab"]),
        (r"^\pL\p{Greek}\P{L}$", &["a\u{3b1}1"], &["1\u{3b1}1"]),
        (r"^\p{^Greek}$", &["a"], &["\u{3b1}"]),
        ("^(?P<n>a)(?<m>b)(?:c)$", &["abc"], &["ab"]),
        ("^(a|b|)$", &["a", "b", ""], &["c"]),
        (" # x", &[" # x"], &["#x"]),
        ("\u{e4}", &["\u{e4}"], &["a"]),
        ("^[\u{e4}-\u{f6}]$", &["\u{f6}"], &["a"]),
        ("", &["", "x"], &[]),
    ];
    for (pattern, good, bad) in cases {
        let regex = compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
        good.iter().for_each(|text| assert!(regex.is_match(text), "{pattern} on {text:?}"));
        bad.iter().for_each(|text| assert!(!regex.is_match(text), "{pattern} on {text:?}"));
    }
}

#[test]
fn patterns_that_go_refuses_are_refused_with_its_messages() {
    let cases = [
        ("(", "missing closing ): `(`"),
        ("a)", "unexpected ): `a)`"),
        ("[a", "missing closing ]: `[a`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("a|+?", "missing argument to repetition operator: `+?`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{3,2}", "invalid repeat count: `{3,2}`"),
        ("((a{100}){100})", "invalid repeat count: `{100}`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        (r"\pX", "invalid character class range: `\\pX`"),
        (r"\p{Nope}", "invalid character class range: `\\p{Nope}`"),
        (r"\q", "invalid escape sequence: `\\q`"),
        (r"\1", "invalid escape sequence: `\\1`"),
        (r"\u0041", "invalid escape sequence: `\\u`"),
        ("\\", "trailing backslash at end of expression: ``"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
        ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
        ("(?i-)a", "invalid or unsupported Perl syntax: `(?i-)`"),
        ("(?P<n>a)(?P<n>b)", "invalid named capture: `(?P<n>`"),
        ("(?P<n", "invalid named capture: `(?P<n`"),
    ];
    for (pattern, text) in cases {
        let error = compile(pattern).err().unwrap_or_else(|| panic!("{pattern} is accepted"));
        assert_eq!(error, format!("error parsing regexp: {text}"), "{pattern}");
    }
}

proptest! {
    #[test]
    fn arbitrary_patterns_never_panic_and_valid_ones_compile(pattern in r"[a-c\\dDwWpQExsbB\[\]\(\)\|*+?\{\}0-9,\^$.:<>P=!imsU&~-]{0,12}") {
        if let Err(error) = compile(&pattern) {
            prop_assert!(!error.contains("invalid regexp"), "{pattern}: {:?}", super::translate(&pattern));
        }
    }

    #[test]
    fn arbitrary_texts_never_panic(pattern in ".{0,20}") {
        let _ = compile(&pattern);
    }

    #[test]
    fn escaped_texts_match_themselves(text in ".{0,12}") {
        let pattern = format!("^\\Q{text}\\E$");
        prop_assume!(!text.contains("\\E") && !text.ends_with('\\'));
        prop_assert!(compile(&pattern).unwrap().is_match(&text));
    }
}

#[test]
fn checks_are_remembered_within_a_bound() {
    let mut checked = super::Checked { results: Default::default(), bytes: 0 };
    for number in 0..5000 {
        checked.remember(&format!("{number:01000}"), &Ok(()));
        checked.remember(&format!("{number:01000}"), &Ok(()));
        assert!(checked.bytes <= super::CHECKED_PATTERNS_BYTES_MAX);
        assert_eq!(checked.bytes, checked.results.len() * 1000);
    }
    for (pattern, is_legal) in [("^[a-z]+$", true), ("(", false), ("^[a-z]+$", true), ("(", false)] {
        assert_eq!(super::check(pattern), super::compile(pattern).map(drop));
        assert_eq!(super::check(pattern).is_ok(), is_legal);
    }
}
