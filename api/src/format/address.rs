//! Formats of addresses: hosts, networks, resources and mailboxes.

use regex::Regex;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;
use std::sync::OnceLock;

/// Bytes of a host name, and of each of its labels.
const HOSTNAME_MAX: usize = 255;
const HOSTNAME_PART_MAX: usize = 63;

/// An IPv4 address, also one embedded in an IPv6 address.
pub(super) fn ipv4(text: &str) -> bool {
    text.contains('.') && ip(text).is_some()
}

pub(super) fn ipv6(text: &str) -> bool {
    text.contains(':') && ip(text).is_some()
}

/// Parses an IP address; leading zeros in IPv4 parts are ignored.
fn ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return IpAddr::from_str(text).ok();
    }
    let part = |part: &str| {
        let is_number = !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
        let digits = part.trim_start_matches('0');
        is_number.then(|| if digits.is_empty() { Ok(0) } else { digits.parse::<u8>() })?.ok()
    };
    let parts: Option<Vec<u8>> = text.split('.').map(part).collect();
    let parts: [u8; 4] = parts?.try_into().ok()?;
    Some(IpAddr::V4(Ipv4Addr::from(parts)))
}

/// A CIDR block `ADDRESS/BITS`.
pub(super) fn cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let Some(address) = ip(address) else { return false };
    let is_number = !bits.is_empty() && bits.bytes().all(|digit| digit.is_ascii_digit());
    let most = if address.is_ipv4() { 32 } else { 128 };
    is_number && bits.parse::<u32>().is_ok_and(|bits| bits <= most)
}

/// A MAC address: 6, 8 or 20 bytes in hexadecimal, as pairs of digits with colons or dashes, or groups of
/// four with dots.
pub(super) fn mac(text: &str) -> bool {
    let is_grouped = |separator: char, digits: usize, counts: [usize; 3]| {
        let mut groups = 0;
        let is_group = |group: &str| group.len() == digits && group.bytes().all(|b| b.is_ascii_hexdigit());
        text.split(separator).inspect(|_| groups += 1).all(is_group) && counts.contains(&groups)
    };
    is_grouped(':', 2, [6, 8, 20]) || is_grouped('-', 2, [6, 8, 20]) || is_grouped('.', 4, [3, 4, 10])
}

/// A host name whose last label ends in at least two letters. Symbols and letters of all scripts are allowed.
pub(super) fn hostname(text: &str) -> bool {
    let parts: Vec<&str> = text.split('.').collect();
    let Some((last, labels)) = parts.split_last() else { return false };
    text.len() <= HOSTNAME_MAX
        && parts.iter().all(|part| part.len() <= HOSTNAME_PART_MAX && is_label(part))
        && is_last_label(last, labels.is_empty())
}

fn is_label(label: &str) -> bool {
    static INNER: OnceLock<Regex> = OnceLock::new();
    let inner = INNER.get_or_init(|| Regex::new(r"^[-0-9\p{L}\p{S}]+$").expect("the pattern is legal"));
    inner.is_match(label) && !label.starts_with('-') && !label.ends_with('-')
}

/// Whether a label can be the last one: it ends in two letters and has no consecutive dashes. A label that is
/// the whole name has at least three characters.
fn is_last_label(label: &str, is_alone: bool) -> bool {
    static END: OnceLock<Regex> = OnceLock::new();
    let end = END.get_or_init(|| Regex::new(r"\p{L}\p{L}$").expect("the pattern is legal"));
    end.is_match(label) && !label.contains("--") && (!is_alone || label.chars().nth(2).is_some())
}

/// An absolute URI or an absolute path, by the rules of Go's `url.ParseRequestURI`.
pub(super) fn uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte.is_ascii_control()) {
        return false;
    }
    let Some((has_scheme, rest)) = scheme(text) else { return false };
    if text == "*" {
        return true;
    }
    let rest = rest.split('?').next().unwrap_or_default();
    if !rest.starts_with('/') {
        return has_scheme;
    }
    match rest.strip_prefix("//").filter(|_| has_scheme) {
        Some(rest) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            is_authority(authority) && has_whole_escapes(path)
        }
        None => has_whole_escapes(rest),
    }
}

/// Splits a URI into whether it has a scheme, and the rest; `None` if it begins with a colon.
fn scheme(text: &str) -> Option<(bool, &str)> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return None,
            b':' => return Some((true, &text[at + 1..])),
            _ => break,
        }
    }
    Some((false, text))
}

fn is_authority(authority: &str) -> bool {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (user, host),
        None => ("", authority),
    };
    let is_user = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    user.bytes().all(is_user) && has_whole_escapes(user) && is_host(host)
}

fn is_host(host: &str) -> bool {
    let is_port = |text: &str| text.is_empty() || is_colon_and_digits(text);
    if let Some(rest) = host.strip_prefix('[') {
        let Some((address, port)) = rest.rsplit_once(']') else { return false };
        return !address.contains(' ') && is_port(port);
    }
    let port = host.find(':').map_or("", |at| &host[at..]);
    let is_host_byte =
        |byte: u8| byte >= 0x80 || byte.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&byte);
    is_port(port) && host.bytes().all(is_host_byte)
}

fn is_colon_and_digits(port: &str) -> bool {
    port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()))
}

/// Whether two hexadecimal digits follow each percent sign.
fn has_whole_escapes(text: &str) -> bool {
    let is_escape =
        |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|digit| digit.is_ascii_hexdigit());
    text.split('%').skip(1).all(is_escape)
}

/// A mail address, optionally in angle brackets after a name.
pub(super) fn email(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    match text.strip_suffix('>').and_then(|text| text.rsplit_once('<')) {
        Some((name, address)) => is_phrase(name.trim_matches([' ', '\t'])) && is_mail_address(address),
        None => is_mail_address(text),
    }
}

fn is_phrase(name: &str) -> bool {
    let is_atom = |word: &str| word.chars().all(|c| is_atom_char(c) || c == '.');
    is_quoted(name) || name.split([' ', '\t']).all(|word| is_atom(word) || is_quoted(word))
}

fn is_mail_address(address: &str) -> bool {
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    (is_dot_atom(local) || is_quoted(local)) && (is_dot_atom(domain) || is_literal(domain))
}

fn is_dot_atom(text: &str) -> bool {
    text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom_char))
}

fn is_atom_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || !c.is_ascii() || "!#$%&'*+-/=?^_`{|}~".contains(c)
}

/// A quoted text; quotation marks inside it are escaped.
fn is_quoted(text: &str) -> bool {
    let Some(inner) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else { return false };
    let mut is_escaped = false;
    let is_fine = inner.chars().all(|c| {
        let is_char = !c.is_ascii_control() && (is_escaped || c != '"');
        is_escaped = !is_escaped && c == '\\';
        is_char
    });
    is_fine && !is_escaped
}

/// An IP address in brackets.
fn is_literal(domain: &str) -> bool {
    let inner = domain.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inner.is_some_and(|inner| ip(inner.strip_prefix("IPv6:").unwrap_or(inner)).is_some())
}
