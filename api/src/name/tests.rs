//! Tests of each grammar with valid and invalid values, and of the messages.

use super::*;

fn check(grammar: fn(&str) -> Faults, good: &[&str], bad: &[&str]) {
    for value in good {
        assert_eq!(grammar(value), Faults::new(), "{value:?} is good");
    }
    for value in bad {
        assert!(!grammar(value).is_empty(), "{value:?} is bad");
    }
}

#[test]
fn grammars_accept_valid_and_refuse_invalid_values() {
    let (long63, long64) = ("a".repeat(63), "a".repeat(64));
    check(dns1123_label, &["a", "a-b", "1", &long63], &["", "-a", "a-", "A", "a.b", "a_b", &long64]);
    check(dns1123_subdomain, &["a.b", "1.2", "a-b.c"], &["", ".a", "a..b", "a.-b", "A", &"a.".repeat(130)]);
    check(dns1035_label, &["a", "a1"], &["1a", "", "a-"]);
    check(wildcard_dns1123_subdomain, &["*.a.b"], &["*", "a.*", "*.", "**.a"]);
    check(
        qualified_name,
        &["a", "A_b.c", "x.io/a", &long63],
        &["", "/", "/a", "a/", "a/b/c", "X.io/a", "-a", &long64, "x.io/"],
    );
    check(label_value, &["", "A", "a_b.c-d", &long63], &["-", "a/b", " ", &long64]);
    check(path_segment, &["system:node", "a b", ""], &[".", "..", "a/b", "a%b"]);
    check(config_key, &["a", "A.b_c-d", ".a", "_"], &["", ".", "..", "..a", "a/b", "a b"]);
    check(env_name, &["A", "a.b", "1", "a b"], &["", "a=b", "ä"]);
    check(port_name, &["http", "a-1"], &["", "1", "a--b", "-a", "HTTP", "abcdefghijklmnop"]);
    check(ip, &["1.2.3.4", "::1"], &["1.2.3", "a", "", "01.2.3.4", "::ffff:1.2.3.4"]);
    check(search_domain, &["a.b", "_a.b_c"], &["", "a..b", "a_"]);
    check(header_name, &["X-A"], &["", "a b"]);
    check(canonical_ip, &["1.2.3.4", "2001:db8::1"], &["2001:0db8::1", "x"]);
    check(cidr, &["10.0.0.0/8", "::/0"], &["10.0.0.0", "10.0.0.0/33", "a/8", "10.0.0.1/8", "10.0.0.0/08"]);
}

#[test]
fn messages_match_kubernetes() {
    assert_eq!(
        dns1123_subdomain("A"),
        [
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        ]
    );
    assert_eq!(
        dns1123_label("A"),
        [
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
        ]
    );
    assert_eq!(label_value(&"a".repeat(64)), ["must be no more than 63 bytes"]);
    assert_eq!(qualified_name(&"a".repeat(64)), ["name part must be no more than 63 bytes"]);
    let long_prefix = format!("{}/a", "a".repeat(254));
    assert_eq!(qualified_name(&long_prefix), ["prefix part must be no more than 253 bytes"]);
    assert_eq!(dns1123_subdomain(&"a".repeat(254)), ["must be no more than 253 characters"]);
    let port = [
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        "must contain at least one letter (a-z)",
    ];
    assert_eq!(port_name(""), port, "an empty name breaks two rules");
    assert_eq!(path_segment("a/b%"), ["may not contain '/'", "may not contain '%'"]);
    assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
}

#[test]
fn generate_names_may_end_with_a_dash() {
    for good in ["web-", "web", "a-", "a--"] {
        assert_eq!(object_name_prefix(NameRule::Subdomain, good), Faults::new(), "{good}");
    }
    assert!(!object_name_prefix(NameRule::Subdomain, "-").is_empty());
    assert!(!object_name_prefix(NameRule::Label, "A-").is_empty());
}
