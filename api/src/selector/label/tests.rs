//! Selectors against labels, and the texts of broken ones.

use serde_json::json;

use super::*;

const LABELS: &[(&str, &str)] = &[("app", "web"), ("empty", ""), ("n", "5"), ("x.io/tier", "a")];

#[test]
fn terms_match_as_kubernetes_says() {
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
fn keywords_are_words_elsewhere() {
    let selector = Selector::parse("in in (in,notin),notin=in").unwrap();
    assert!(selector.matches(&[("in", "notin"), ("notin", "in")][..]));
}

#[test]
fn broken_selectors_say_what_was_found() {
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
fn selector_objects_read_as_their_meaning() {
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
    fn any_text_is_read_or_refused_and_what_is_read_survives_its_text_form(text in "[ab!=<>(),in 0-9notx]{0,24}") {
        if let Ok(selector) = Selector::parse(&text) {
            proptest::prop_assert_eq!(Selector::parse(&selector.to_string()), Ok(selector));
        }
    }
}
