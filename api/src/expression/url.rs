//! The CEL library `kubernetes.urls`: absolute URLs and paths, parsed like Go's `net/url`.

use super::row::{self, Named, Row};
use crate::format::Format;
use kstore_cel::{EvalError, Map, Overload, Type, Val};

/// Absolute URL or absolute path.
#[derive(Clone, Debug, PartialEq)]
struct Url {
    scheme: String,
    /// Host name and port, unchanged.
    host: String,
    /// Path, escaped.
    path: String,
    /// Query, escaped, without the question mark.
    query: String,
}

impl Named for Url {
    const TYPE: &'static str = "kubernetes.URL";
}

impl Url {
    fn parse(text: &str) -> Result<Self, EvalError> {
        if !Format::Uri.matches(text) {
            let why = if text.is_empty() { "empty url" } else { "invalid URI for request" };
            let what = "URL parse error during conversion from string";
            return Err(EvalError::other(format!("{what}: parse {text:?}: {why}")));
        }
        let (text, _fragment) = text.split_once('#').unwrap_or((text, ""));
        let (scheme, rest) = match text.split_once(':') {
            Some((scheme, rest)) if !scheme.contains('/') => (scheme.to_ascii_lowercase(), rest),
            _ => (String::new(), text),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            // Text after a scheme without a slash is neither host nor path.
            None if !rest.starts_with('/') => ("", ""),
            None => ("", rest),
        };
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        Ok(Self { scheme, host: host.to_owned(), path: path.to_owned(), query: query.to_owned() })
    }

    /// Splits into host name without brackets and port.
    fn host_and_port(&self) -> (&str, &str) {
        if let Some(rest) = self.host.strip_prefix('[') {
            let (name, port) = rest.split_once(']').unwrap_or((rest, ""));
            return (name, port.strip_prefix(':').unwrap_or(""));
        }
        self.host.rsplit_once(':').unwrap_or((&self.host, ""))
    }

    /// Values of each query parameter, in order. Parameters with malformed escapes are skipped.
    fn parameters(&self) -> Vec<(String, Vec<String>)> {
        let mut out: Vec<(String, Vec<String>)> = Vec::new();
        for part in self.query.split('&').filter(|part| !part.is_empty() && !part.contains(';')) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let (Some(key), Some(value)) = (unescape(key), unescape(value)) else { continue };
            match out.iter_mut().find(|(known, _)| *known == key) {
                Some((_, values)) => values.push(value),
                None => out.push((key, vec![value])),
            }
        }
        out
    }
}

/// Unescapes a part of a query; `None` if an escape is malformed.
fn unescape(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (high, low) = (digit(bytes.next()?)?, digit(bytes.next()?)?);
                u8::try_from(high * 16 + low).ok()?
            }
            other => other,
        });
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

/// Functions of the library.
pub(super) fn overloads() -> Vec<Row> {
    let ty = || Type::opaque(Url::TYPE);
    let get = |id: &str, read: fn(&Url) -> &str| {
        Overload::method(id, [ty()], Type::String, move |args| {
            Ok(Val::string(read(row::opaque::<Url>(args, 0)?)))
        })
    };
    let make = Overload::function("string_to_url", [Type::String], ty(), |args| {
        Ok(row::value(Url::parse(row::text(args, 0)?)?))
    });
    let texts = Type::map(Type::String, Type::list(Type::String));
    let query = Overload::method("url_get_query", [ty()], texts, |args| {
        let parameters = row::opaque::<Url>(args, 0)?.parameters();
        let entry = |(key, values): (String, Vec<String>)| {
            (Val::string(key), Val::list(values.into_iter().map(Val::string).collect()))
        };
        Ok(Val::Map(Map::new(parameters.into_iter().map(entry))?))
    });
    vec![
        ("url", make.cost(row::conversion())),
        (
            "isURL",
            Overload::function("is_url_string", [Type::String], Type::Bool, |args| {
                Ok(Val::Bool(Format::Uri.matches(row::text(args, 0)?)))
            }),
        ),
        ("getScheme", get("url_get_scheme", |url| &url.scheme)),
        ("getHost", get("url_get_host", |url| &url.host)),
        ("getHostname", get("url_get_hostname", |url| url.host_and_port().0)),
        ("getPort", get("url_get_port", |url| url.host_and_port().1)),
        ("getEscapedPath", get("url_get_escaped_path", |url| &url.path)),
        ("getQuery", query),
    ]
}

#[cfg(test)]
mod tests {
    use crate::expression::tests::check;

    #[test]
    fn urls_are_parsed_into_their_parts() {
        check(&[
            ("isURL('https://example.com:80/')", "true"),
            ("isURL('/path')", "true"),
            ("isURL('../relative')", "false"),
            ("isURL('')", "false"),
            ("url('HTTPS://user@example.com:80/a%20b?x=1#f').getScheme()", "\"https\""),
            ("url('https://user@example.com:80/a%20b?x=1#f').getHost()", "\"example.com:80\""),
            ("url('https://[::1]:80/').getHostname()", "\"::1\""),
            ("url('https://[::1]:80/').getPort()", "\"80\""),
            ("url('https://example.com').getPort()", "\"\""),
            ("url('https://example.com/a%20b?x=1').getEscapedPath()", "\"/a%20b\""),
            ("url('/p?k1=a&k2=b&k1=c%21&k3')", "?"),
            ("url('/p?k1=a&k2=b&k1=c%21&k3').getQuery()", r#"{"k1":["a","c!"],"k2":["b"],"k3":[""]}"#),
            ("url('/a') == url('/a')", "true"),
        ]);
    }
}
