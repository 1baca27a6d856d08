//! Tests of JSONPath in printer columns, and of cells.

use crate::crd::columns;
use crate::crd::jsonpath::JsonPath;
use crate::meta;
use serde_json::{Value, json};

#[test]
fn jsonpath_selects_the_first_value() {
    let object = json!({"a": {"b": [1, 2, 3], "x.y": "dot", "x": {"y": "path"}, "e.io/k": "annotation"}, "list": [
        {"type": "Ready", "status": "True", "n": 1}, {"type": "Other", "status": "False", "n": 5}]});
    let cases = [
        (".a.b[0]", Some(json!(1))),
        (".a.b[-1]", Some(json!(3))),
        (".a.b[7]", None),
        (".a.b[1:]", Some(json!(2))),
        (".a.b[*]", Some(json!(1))),
        (".a.b", Some(json!([1, 2, 3]))),
        (".a['x.y']", Some(json!("path"))),
        (".a['x\\.y']", Some(json!("dot"))),
        (".a['e\\.io/k']", Some(json!("annotation"))),
        (".a['x','b'][0]", Some(json!(1))),
        (".a.x.y.", None),
        (".a.b.[0]", None),
        (".a.x\\.y", Some(json!("dot"))),
        (".list[?(@.type==\"Ready\")].status", Some(json!("True"))),
        (".list[?(@.type=='Other')].status", Some(json!("False"))),
        (".list[?(@.n > 3)].type", Some(json!("Other"))),
        (".list[?(@.missing)].type", None),
        ("..status", Some(json!("True"))),
        (".a.b[2,0]", Some(json!(3))),
        (".*", Some(object["a"].clone())),
        (".nothing.at.all", None),
        (".", Some(object.clone())),
    ];
    for (text, expected) in cases {
        let path = JsonPath::parse(text).unwrap_or_else(|| panic!("{text} is an expression"));
        assert_eq!(path.first(&object), expected.as_ref(), "{text}");
    }
    for text in [".a[", ".a[?(", ".a b", ".a[x]", ".a]", ".a[1:2:3:4]", ".a[\"b\"]", ".a.b[ 0 ]", ".a[ 'b' ]"]
    {
        assert_eq!(JsonPath::parse(text), None, "{text}");
    }
}

#[test]
fn cells_fit_the_types_of_their_columns() {
    let now = meta::parse_time("2026-01-01T00:10:00Z").unwrap();
    let cell = |kind: &str, value: Value| {
        let version = json!({"additionalPrinterColumns": [{"name": "A", "type": kind, "jsonPath": ".a"}]});
        columns::cells(&columns::of_version(&version), &json!({"metadata": {"name": "n"}, "a": value}), now)
            [1]
        .clone()
    };
    for (kind, value, expected) in [
        ("string", json!("x"), json!("x")),
        ("string", json!(5), json!("5")),
        ("string", json!(1.5), json!("1.5")),
        ("string", json!(true), json!("true")),
        ("string", json!({"b": "<", "a": 2.0}), json!("{\"a\":2,\"b\":\"\\u003c\"}")),
        ("integer", json!(2.9), json!(2)),
        ("integer", json!("2"), Value::Null),
        ("number", json!(2), json!(2)),
        ("number", json!(2.5), json!(2.5)),
        ("boolean", json!(false), json!(false)),
        ("boolean", json!("true"), Value::Null),
        ("date", json!("2026-01-01T00:00:00Z"), json!("10m")),
        ("date", json!("yesterday"), json!("<invalid>")),
        ("date", json!(""), json!("<unknown>")),
        ("date", json!(1), Value::Null),
    ] {
        assert_eq!(cell(kind, value.clone()), expected, "{kind} {value}");
    }
}
