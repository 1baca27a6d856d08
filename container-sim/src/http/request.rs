//! [`HttpRequest`]: a request with its body.

use super::header;

/// A request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpRequest {
    /// The method.
    pub method: String,
    /// The target as the client sent it: a path with its query.
    pub target: String,
    /// Whether its version is HTTP/1.0.
    pub is_old: bool,
    /// The headers in their order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl HttpRequest {
    /// The value of the first header with this name, whatever its case is.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// The path, decoded, and the query as it was sent.
    pub fn path(&self) -> (String, &str) {
        let target = match self.target.split_once("://") {
            // A proxy's form has the whole address.
            Some((_, rest)) if !self.target.starts_with('/') => rest.find('/').map_or("/", |at| &rest[at..]),
            _ => self.target.as_str(),
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        (decoded(path, false), query)
    }

    /// The value of a field of the query, or else of a form in the body.
    pub fn value(&self, name: &str) -> Option<String> {
        let (_, query) = self.path();
        let form = match self.header("content-type") {
            Some(kind) if kind.starts_with("application/x-www-form-urlencoded") => {
                String::from_utf8_lossy(&self.body).into_owned()
            }
            Some(_) | None => String::new(),
        };
        [form.as_str(), query].into_iter().flat_map(|text| text.split('&')).find_map(|pair| {
            let (own, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(own, true) == name).then(|| decoded(value, true))
        })
    }

    /// Whether the connection ends with the response.
    pub fn is_last(&self) -> bool {
        let wanted = self.header("connection").unwrap_or_default().to_ascii_lowercase();
        wanted.contains("close") || (self.is_old && !wanted.contains("keep-alive"))
    }
}

/// A text without percent signs; `+` is a blank in queries.
fn decoded(text: &str, is_query: bool) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        let digits = behind.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let escaped = digits.filter(|_| first == b'%').and_then(|two| u8::from_str_radix(two, 16).ok());
        match escaped {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(if first == b'+' && is_query { b' ' } else { first });
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
