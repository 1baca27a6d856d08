//! Tests of whole documents.

use super::*;
use proptest::prelude::*;
use serde_json::json;

/// The size limit of request bodies.
const MAX_BYTES: usize = 3 * 1024 * 1024;

fn parse(text: &[u8]) -> Result<Document, String> {
    super::parse(text, MAX_BYTES)
}

fn read(text: &str) -> Result<Value, String> {
    parse(text.as_bytes()).map(|document| document.value)
}

#[test]
fn documents_are_converted_to_json() {
    let text = "a: 1\nb: [x, 1.5, true, null, '1', -7]\nc: {d: |\n  two\n  lines\n}\n1: number\n";
    assert!(read(text).is_err(), "a block inside a flow map");
    let text = "a: 1\nb: [x, 1.5, true, null, '1', -7]\nc:\n  d: |\n    two\n    lines\n1: number\nbase: &x {k: v}\nagain: *x\n";
    let want = json!({"a": 1, "b": ["x", 1.5, true, null, "1", -7], "c": {"d": "two\nlines\n"}, "1": "number",
        "base": {"k": "v"}, "again": {"k": "v"}});
    assert_eq!(read(text).unwrap(), want);
    let again = "a: &x 1\nb: *x\nc: &x [2]\nd: *x\n";
    assert_eq!(
        read(again).unwrap(),
        json!({"a": 1, "b": 1, "c": [2], "d": [2]}),
        "the nearest before counts"
    );
    assert_eq!(read(r#"{"json": ["is", "yaml"]}"#).unwrap(), json!({"json": ["is", "yaml"]}));
    for nothing in ["", "\r", "# only a remark\n", "~", "null", "---\n", "---\n---\na: 1\n"] {
        assert_eq!(read(nothing).unwrap(), Value::Null, "{nothing:?}");
    }
}

/// Found by the fuzzer `yaml`: the parser adds a line break to a block at the end of the text.
#[test]
fn block_scalars_at_the_end_of_the_text_keep_their_ending() {
    for (text, want) in [
        ("a: |\n  one\n  two", "one\ntwo"),
        ("a: |\n  one\n  two\n", "one\ntwo\n"),
        ("a: |\n  one\n  ", "one\n"),
        ("a: |\n  one\n   ", "one\n "),
        ("a: |+\n  one", "one"),
        ("a: |+\n  one\n\n", "one\n\n"),
        ("a: |-\n  one", "one"),
        ("a: >\n  one\n  two", "one two"),
        ("a: |\n  one\n# two", "one\n"),
    ] {
        assert_eq!(read(text), Ok(json!({"a": want})), "{text:?}");
    }
}

#[test]
fn documents_are_parsed_as_yaml_1_1() {
    let cases = [
        ("mode: 0644\n", json!({"mode": 420})),
        ("a: yes\nb: 'yes'\nc: \"no\"\nd: off\n", json!({"a": true, "b": "yes", "c": "no", "d": false})),
        ("y: n\n", json!({"true": false})),
        ("a: 1_000\nb: 0b11\nc: 0o17\nd: 1:30\n", json!({"a": 1000, "b": 3, "c": 15, "d": "1:30"})),
        ("at: 2001-12-14T21:59:43Z\n", json!({"at": "2001-12-14T21:59:43Z"})),
        ("a: |\n  yes\nb: >-\n  0644\n", json!({"a": "yes\n", "b": "0644"})),
        (
            "a: !!str 0644\nb: !!int '3'\nc: ! 'yes'\nd: !mine 1\n",
            json!({"a": "0644", "b": 3, "c": "yes", "d": "1"}),
        ),
        ("1: a\n0x10: b\n1.5: c\n", json!({"1": "a", "16": "b", "1.5": "c"})),
        ("a: 3.0\nb: 1e3\n", json!({"a": 3, "b": 1000})),
        ("a: 1\n---\nb: [\n", json!({"a": 1})),
        ("a: 1\n...\nb: 2\n", json!({"a": 1})),
    ];
    for (text, want) in cases {
        assert_eq!(read(text), Ok(want), "{text}");
    }
}

#[test]
fn merge_keys_apply_in_document_order() {
    let base = "x: &x {a: 1, b: 1}\ny: &y {a: 2, c: 2}\n";
    let cases = [
        ("z: {<<: *x, b: 3}", json!({"a": 1, "b": 3}), 1),
        ("z: {b: 3, <<: *x}", json!({"a": 1, "b": 1}), 1),
        ("z: {<<: [*x, *y]}", json!({"a": 1, "b": 1, "c": 2}), 1),
        ("z: {<<: {d: 4}}", json!({"d": 4}), 0),
        ("z: {'<<': 5}", json!({"<<": 5}), 0),
        ("z: {'a': 5, !!merge <<: *y}", json!({"a": 2, "c": 2}), 1),
    ];
    for (text, want, repeated) in cases {
        let document = parse(format!("{base}{text}\n").as_bytes()).unwrap();
        assert_eq!((&document.value["z"], document.repeated.len()), (&want, repeated), "{text}");
    }
    for text in ["<<: 1", "<<: [1]", "x: &x [1]\n<<: *x", "x: &x 1\n<<: [*x]"] {
        assert_eq!(
            read(text).unwrap_err(),
            "yaml: map merge requires map or sequence of maps as the value",
            "{text}"
        );
    }
}

#[test]
fn malformed_documents_are_refused_with_the_messages_of_go_yaml() {
    let cases = [
        ("a: b: c", "yaml: line 1: mapping values are not allowed in this context"),
        ("x: 1\na: b: c", "yaml: line 2: mapping values are not allowed in this context"),
        ("a: &x [*x]", "yaml: anchor 'x' value contains itself"),
        ("a: *x", "yaml: unknown anchor 'x' referenced"),
        ("x: .inf", "json: unsupported value: +Inf"),
        ("~: 1", "unsupported map key of type: %!s(<nil>), key: <nil>"),
        ("[1]: 1", "yaml: invalid map key: a map or a list"),
        ("a: !!int x", "yaml: cannot decode !!str `x` as a !!int"),
    ];
    for (text, want) in cases {
        assert_eq!(read(text).unwrap_err(), want, "{text}");
    }
    for bad in ["x: 1\ny:\n  - [1\nz: 2\n", "[1", "a: 'x", "%YAML 1.1\na"] {
        let error = read(bad).unwrap_err();
        assert!(error.starts_with("yaml: line "), "{bad:?}: {error}");
    }
    assert_eq!(parse(b"a: \xff").err().unwrap(), "yaml: invalid leading UTF-8 octet");
}

#[test]
fn repeated_keys_are_reported_with_their_lines() {
    let text = "a: 1\nspec:\n  replicas: 1\n  x:\n  - {k: 1,\n     k: 2}\n  replicas:\n    2\n1: a\n1: b\n";
    let document = parse(text.as_bytes()).unwrap();
    assert_eq!(document.value["spec"]["replicas"], 2);
    let want = [
        "line 6: key \"k\" already set in map",
        "line 8: key \"replicas\" already set in map",
        "line 10: key 1 already set in map",
    ];
    assert_eq!(document.repeated, want);
    let many = "a: 1\n".repeat(100);
    assert_eq!(parse(many.as_bytes()).unwrap().repeated.len(), YAML_REPEATED_KEYS);
}

#[test]
fn alias_expansion_is_bounded() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let below = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{below}]\n"));
    }
    assert!(read(&bomb).unwrap_err().contains("excessive aliasing"));
    // What aliases may add depends on the length of the text.
    let repeated = |count: usize| {
        format!("a: &a [{}]\nb: [{}]\n", vec!["x"; 100].join(", "), vec!["*a"; count].join(", "))
    };
    assert!(read(&repeated(45)).is_ok());
    assert!(read(&repeated(120)).unwrap_err().contains("excessive aliasing"));
    let plain = format!("[{}]", vec!["1"; 60_000].join(","));
    assert!(read(&plain).is_ok(), "a text without aliases");
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 100].join(", "));
    assert!(read(&long).unwrap_err().contains("excessive aliasing"));
    let merged = format!(
        "a: &a {{{}}}\nb: [{}]\n",
        (0..1000).map(|n| format!("k{n}: 1")).collect::<Vec<_>>().join(", "),
        vec!["{<<: *a}"; 1000].join(", ")
    );
    assert!(read(&merged).unwrap_err().contains("excessive aliasing"));
    let deep = ["[".repeat(1_000_000), "- ".repeat(100_000), "{a: ".repeat(100_000), "? ".repeat(100_000)];
    for text in deep {
        assert!(read(&text).unwrap_err().contains("max depth"), "{}", &text[..8]);
    }
    let chained =
        (1..400).fold("a0: &a0 [x]\n".to_owned(), |text, n| format!("{text}a{n}: &a{n} [*a{}]\n", n - 1));
    assert!(read(&chained).unwrap_err().contains("max depth"));
}

proptest! {
    #[test]
    fn parsing_arbitrary_texts_never_panics(text in "[-a-cy:&*!?|\\[\\]{}, \n'\"<>%#0-9._~]{0,60}") {
        if let Ok(document) = parse(text.as_bytes()) {
            let json = document.value.to_string();
            prop_assert_eq!(read(&json), Ok(document.value));
        }
    }
}
