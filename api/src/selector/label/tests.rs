//! Tests of label matching, and of errors for malformed selectors.

use super::*;
use serde_json::json;

const LABELS: &[(&str, &str)] = &[("app", "web"), ("empty", ""), ("n", "5"), ("x.io/tier", "a")];

#[test]
fn requirements_match_as_in_kubernetes() {
    let yes = "|app|app=web|app==web|!nope|nope!=x|app!=db|app in (web,db)|app in (db , web)|app notin (db)|nope notin (a)\
        |n>4|n<6|app=web,n>4,!nope|x.io/tier=a|empty=|empty in (,a)|empty in (,)|empty in ()|app notin (,)|app notin ()| app , n ";
    for text in yes.split('|') {
        let selector = Selector::parse(text).unwrap();
        assert!(selector.matches(LABELS), "{text:?}");
        let again = Selector::parse(&selector.to_string()).unwrap();
        assert_eq!(again, selector, "{text:?} survives its own text form");
    }
    let no =
        "nope|!app|app=db|app!=web|app in (db)|app notin (web)|n>5|n<5|app>1|app=|app=web,nope|nope=|in=x";
    for text in no.split('|') {
        assert!(!Selector::parse(text).unwrap().matches(LABELS), "{text:?}");
    }
}

#[test]
fn keywords_are_ordinary_words_in_other_positions() {
    let selector = Selector::parse("in in (in,notin),notin=in").unwrap();
    assert!(selector.matches(&[("in", "notin"), ("notin", "in")][..]));
}

#[test]
fn malformed_selectors_are_refused_with_the_messages_of_kubernetes() {
    let cases = [
        ("a,", "found '', expected: identifier after ','"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a=(", "unable to parse requirement: found '(', expected: identifier"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        (
            "a>b",
            "unable to parse requirement: values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ];
    for (text, message) in cases {
        assert_eq!(Selector::parse(text).unwrap_err().0, message, "{text:?}");
    }
    let message = Selector::parse("a=b/c").unwrap_err().0;
    assert!(
        message
            .starts_with("unable to parse requirement: values[0][a]: Invalid value: \"b/c\": a valid label"),
        "{message}"
    );
    let message = Selector::parse("a/b/c").unwrap_err().0;
    assert!(message.starts_with("unable to parse requirement: <nil>: Invalid value: \"a/b/c\""), "{message}");
}

#[test]
fn label_selector_objects_are_converted() {
    let object = json!({"matchLabels": {"app": "web"}, "matchExpressions": [
        {"key": "n", "operator": "Exists"}, {"key": "app", "operator": "In", "values": ["web", "db"]},
        {"key": "nope", "operator": "DoesNotExist"}, {"key": "n", "operator": "NotIn", "values": ["6"]}]});
    let selector = Selector::from_object(&object).unwrap();
    assert!(selector.matches(LABELS));
    assert_eq!(selector.to_string(), "app=web,app in (db,web),n,n notin (6),!nope");
    assert!(Selector::from_object(&json!({})).unwrap().is_everything());
    assert!(!Selector::from_object(&Value::Null).unwrap().matches(LABELS));
    let bad = json!({"matchExpressions": [{"key": "a", "operator": "Near"}]});
    assert_eq!(Selector::from_object(&bad).unwrap_err().0, "\"Near\" is not a valid label selector operator");
}

proptest::proptest! {
    #[test]
    fn parsed_selectors_survive_formatting(text in "[ab!=<>(),in 0-9notx]{0,24}") {
        if let Ok(selector) = Selector::parse(&text) {
            proptest::prop_assert_eq!(Selector::parse(&selector.to_string()), Ok(selector));
        }
    }
}
