//! Grammars of names, labels and keys, with the messages of Kubernetes. Every function returns the faults of
//! a value; valid values have none and allocate nothing. Callers add the path of the value.

use crate::limits::{LABEL_MAX, LABEL_VALUE_MAX, SUBDOMAIN_MAX};

mod address;

pub use address::{canonical_ip, cidr, ip};

/// Grammar of `metadata.name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// DNS-1123 subdomain.
    Subdomain,
    /// DNS-1123 label.
    Label,
    /// DNS-1035 label, which begins with a letter.
    Label1035,
    /// Any text that is one path segment.
    PathSegment,
    /// An IP address in canonical form.
    IpAddress,
}

/// Faults of a value; empty for a valid one.
pub type Faults = Vec<String>;

const LABEL_REGEX: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_TEXT: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const SUBDOMAIN_REGEX: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const SUBDOMAIN_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const SEARCH_REGEX: &str = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
const SEARCH_TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character";
const LABEL_1035_REGEX: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const LABEL_1035_TEXT: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
const WILDCARD_TEXT: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
const QUALIFIED_REGEX: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const QUALIFIED_TEXT: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const LABEL_VALUE_REGEX: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const LABEL_VALUE_TEXT: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const CONFIG_KEY_REGEX: &str = "[-._a-zA-Z0-9]+";
const CONFIG_KEY_TEXT: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
const HEADER_TEXT: &str = "a valid HTTP header must consist of alphanumeric characters or '-'";
const ENV_TEXT: &str =
    "a valid environment variable name must consist only of printable ASCII characters other than '='";

/// Message for a value longer than `max`.
pub fn max_length(max: usize) -> String {
    format!("must be no more than {max} characters")
}

/// Message for a label key or value that is too long. Other names count characters, though their lengths are in bytes, too.
fn max_bytes(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// Message for a number outside an inclusive range.
pub fn in_range(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

fn regex_fault(text: &str, regex: &str, examples: &[&str]) -> String {
    let mut fault = format!("{text} (");
    for (i, example) in examples.iter().enumerate() {
        fault.push_str(if i == 0 { "e.g. " } else { " or " });
        fault.push_str(&format!("'{example}', "));
    }
    fault.push_str(&format!("regex used for validation is '{regex}')"));
    fault
}

/// Whether all characters are `inner` ones, and the first and last satisfy `end`.
fn is_word(text: &str, end: fn(u8) -> bool, inner: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    match bytes {
        [] => false,
        [first, .., last] => end(*first) && end(*last) && bytes.iter().all(|b| end(*b) || inner(*b)),
        [only] => end(*only),
    }
}

fn lower(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}
fn alnum(b: u8) -> bool {
    b.is_ascii_alphanumeric()
}
fn dash(b: u8) -> bool {
    b == b'-'
}
fn loose(b: u8) -> bool {
    matches!(b, b'-' | b'_' | b'.')
}

fn bounded(value: &str, max: usize, good: bool, fault: impl FnOnce() -> String) -> Faults {
    let mut faults = Faults::new();
    if value.len() > max {
        faults.push(max_length(max));
    }
    if !good {
        faults.push(fault());
    }
    faults
}

/// Faults of a DNS-1123 label: one label of a host name, at most 63 bytes.
pub fn dns1123_label(value: &str) -> Faults {
    bounded(value, LABEL_MAX, is_word(value, lower, dash), || {
        if is_dns1123_subdomain(value) {
            return "must not contain dots".to_owned();
        }
        regex_fault(LABEL_TEXT, LABEL_REGEX, &["my-name", "123-abc"])
    })
}

fn is_dns1123_subdomain(value: &str) -> bool {
    value.split('.').all(|part| is_word(part, lower, dash))
}

/// Faults of a DNS-1123 subdomain: labels joined by dots, at most 253 bytes.
pub fn dns1123_subdomain(value: &str) -> Faults {
    bounded(value, SUBDOMAIN_MAX, is_dns1123_subdomain(value), || {
        regex_fault(SUBDOMAIN_TEXT, SUBDOMAIN_REGEX, &["example.com"])
    })
}

/// Faults of a resolver's search domain: a [`dns1123_subdomain`] that may have underscores.
pub fn search_domain(value: &str) -> Faults {
    let part =
        |part: &str| is_word(part.strip_prefix('_').unwrap_or(part), lower, |b| b == b'-' || b == b'_');
    bounded(value, SUBDOMAIN_MAX, value.split('.').all(part), || {
        regex_fault(SEARCH_TEXT, SEARCH_REGEX, &["example.com"])
    })
}

/// Faults of a DNS-1035 label: a DNS-1123 label that starts with a letter.
pub fn dns1035_label(value: &str) -> Faults {
    let good = is_word(value, lower, dash) && value.starts_with(|c: char| c.is_ascii_lowercase());
    bounded(value, LABEL_MAX, good, || {
        regex_fault(LABEL_1035_TEXT, LABEL_1035_REGEX, &["my-name", "abc-123"])
    })
}

/// Faults of a wildcard subdomain: `*.` and a subdomain.
pub fn wildcard_dns1123_subdomain(value: &str) -> Faults {
    let good = value.strip_prefix("*.").is_some_and(is_dns1123_subdomain);
    bounded(value, SUBDOMAIN_MAX, good, || {
        regex_fault(WILDCARD_TEXT, &format!("\\*\\.{SUBDOMAIN_REGEX}"), &["*.example.com"])
    })
}

/// Faults of a qualified name `[prefix/]name`: label keys, annotation keys, finalizers, condition types.
pub fn qualified_name(value: &str) -> Faults {
    let mut faults = Faults::new();
    let name = match value.split_once('/') {
        None => value,
        Some((prefix, name)) if !name.contains('/') => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty".to_owned());
            } else {
                let (counted, in_bytes) = (max_length(SUBDOMAIN_MAX), max_bytes(SUBDOMAIN_MAX));
                let of_prefix = dns1123_subdomain(prefix).into_iter();
                let of_prefix =
                    of_prefix.map(|fault| if fault == counted { in_bytes.clone() } else { fault });
                faults.extend(of_prefix.map(|fault| format!("prefix part {fault}")));
            }
            name
        }
        Some(_) => {
            let fault = regex_fault(
                &format!("a valid label key {QUALIFIED_TEXT}"),
                QUALIFIED_REGEX,
                &["MyName", "my.name", "123-abc"],
            );
            faults.push(format!(
                "{fault} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            ));
            return faults;
        }
    };
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        faults.push(format!("name part {}", max_bytes(LABEL_MAX)));
    }
    if !is_word(name, alnum, loose) {
        let fault = regex_fault(QUALIFIED_TEXT, QUALIFIED_REGEX, &["MyName", "my.name", "123-abc"]);
        faults.push(format!("name part {fault}"));
    }
    faults
}

/// Faults of a label value: empty, or at most 63 bytes.
pub fn label_value(value: &str) -> Faults {
    let mut faults = Faults::new();
    if value.len() > LABEL_VALUE_MAX {
        faults.push(max_bytes(LABEL_VALUE_MAX));
    }
    if !value.is_empty() && !is_word(value, alnum, loose) {
        faults.push(regex_fault(LABEL_VALUE_TEXT, LABEL_VALUE_REGEX, &["MyValue", "my_value", "12345"]));
    }
    faults
}

/// Faults of a path segment, the minimum for all names.
pub fn path_segment(value: &str) -> Faults {
    match value {
        "." | ".." => vec![format!("may not be '{value}'")],
        _ => ["/", "%"]
            .into_iter()
            .filter(|part| value.contains(part))
            .map(|part| format!("may not contain '{part}'"))
            .collect(),
    }
}

/// Faults of a key in the data of a Secret or ConfigMap.
pub fn config_key(value: &str) -> Faults {
    let good = !value.is_empty() && value.bytes().all(|b| alnum(b) || loose(b));
    let mut faults = bounded(value, SUBDOMAIN_MAX, good, || {
        regex_fault(CONFIG_KEY_TEXT, CONFIG_KEY_REGEX, &["key.name", "KEY_NAME", "key-name"])
    });
    match value {
        "." | ".." => faults.push(format!("must not be '{value}'")),
        _ if value.starts_with("..") => faults.push("must not start with '..'".to_owned()),
        _ => {}
    }
    faults
}

/// Faults of an environment variable's name: printable ASCII without `=`.
pub fn env_name(value: &str) -> Faults {
    if value.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    if value.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=') {
        return Faults::new();
    }
    vec![ENV_TEXT.to_owned()]
}

/// Faults of an HTTP header's name.
pub fn header_name(value: &str) -> Faults {
    if !value.is_empty() && value.bytes().all(|b| alnum(b) || dash(b)) {
        return Faults::new();
    }
    vec![regex_fault(HEADER_TEXT, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

/// Faults of a user or group ID.
pub fn numeric_id(value: i64) -> Faults {
    let most = i64::from(i32::MAX);
    if (0..=most).contains(&value) { Faults::new() } else { vec![in_range(0, most)] }
}

/// Faults of a port name (an IANA service name): at most 15 bytes, with at least one letter.
pub fn port_name(value: &str) -> Faults {
    let mut faults = Faults::new();
    if value.len() > 15 {
        faults.push(max_length(15));
    }
    if value.is_empty() || !value.bytes().all(|b| lower(b) || dash(b)) {
        faults.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !value.bytes().any(|b| b.is_ascii_lowercase()) {
        faults.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        faults.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        faults.push("must not begin or end with a hyphen".to_owned());
    }
    faults
}

/// Faults of a port number.
pub fn port_number(value: i64) -> Faults {
    if (1..=65535).contains(&value) { Faults::new() } else { vec![in_range(1, 65535)] }
}

/// Faults of `metadata.name` by the kind's rule.
pub fn object_name(rule: NameRule, value: &str) -> Faults {
    match rule {
        NameRule::Subdomain => dns1123_subdomain(value),
        NameRule::Label => dns1123_label(value),
        NameRule::Label1035 => dns1035_label(value),
        NameRule::PathSegment => path_segment(value),
        NameRule::IpAddress => canonical_ip(value),
    }
}

/// Faults of `metadata.generateName` by the kind's rule: like a name, but a trailing dash is allowed since
/// characters follow it.
pub fn object_name_prefix(rule: NameRule, value: &str) -> Faults {
    match value.strip_suffix('-') {
        Some(stem) if !stem.is_empty() => object_name(rule, &format!("{stem}a")),
        _ => object_name(rule, value),
    }
}

#[cfg(test)]
mod tests;
