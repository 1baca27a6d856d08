//! [`ViewRange`]: the revisions of a view, as a request names them in its path or in a header.

use http::request::Parts;
use http::{HeaderName, Uri};
use kstore_api::status::Status;
use std::fmt;

/// The path that the revisions of a view follow.
const ROOT: &str = "/kstore/v1/at/";
/// The header that names the revisions of a view on a plain path.
const HEADER: HeaderName = HeaderName::from_static("kstore-at");

/// A revision, or the changes from one to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ViewRange {
    /// The revision whose state lists and objects show.
    pub(crate) from: i64,
    /// The newest revision whose changes watches show; at least `from`.
    pub(crate) upto: i64,
}

impl fmt::Display for ViewRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.from == self.upto {
            true => write!(f, "{}", self.from),
            false => write!(f, "{}..{}", self.from, self.upto),
        }
    }
}

impl ViewRange {
    /// The range that a request names; `None` for a request of the present. Takes it out of the path, so that Kubernetes' own path is
    /// left.
    ///
    /// # Errors
    /// 400 if it is not a revision, or path and header differ.
    pub(crate) fn take(parts: &mut Parts) -> Result<Option<Self>, Status> {
        let header = parts.headers.get(HEADER).map(|value| value.to_str().unwrap_or("?").to_owned());
        let in_path = parts.uri.path().strip_prefix(ROOT).map(str::to_owned);
        if header.is_none() && in_path.is_none() {
            return Ok(None);
        }
        let mut named = header;
        if let Some(path) = in_path {
            let (text, rest) = path.split_once('/').unwrap_or((&path, ""));
            if named.as_deref().is_some_and(|header| header != text) {
                return Err(Status::bad_request(
                    "the path and the header kstore-at name different revisions",
                ));
            }
            parts.uri = with_path(&parts.uri, &format!("/{rest}"))?;
            named = Some(text.to_owned());
        }
        named.as_deref().map(Self::parse).transpose()
    }

    fn parse(text: &str) -> Result<Self, Status> {
        let number = |text: &str| {
            let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<i64>().ok().filter(|number| is_plain && *number > 0)
        };
        let range = match text.split_once("..") {
            None => number(text).map(|from| Self { from, upto: from }),
            Some((from, upto)) => number(from).zip(number(upto)).map(|(from, upto)| Self { from, upto }),
        };
        range.filter(|range| range.from <= range.upto).ok_or_else(|| {
            Status::bad_request(format!(
                "{text:?} is no revision of a view: write a number or two of them, as in 244..313; \
                 /kstore/v1/resolve?text= answers which number a time has"
            ))
        })
    }
}

/// The URI with another path.
fn with_path(uri: &Uri, path: &str) -> Result<Uri, Status> {
    let target = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    target.parse().map_err(|_| Status::bad_request("the path after the revision is not a path"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(uri: &str, header: Option<&str>) -> Result<(String, String), String> {
        let mut request = http::Request::builder().uri(uri);
        if let Some(header) = header {
            request = request.header(HEADER, header);
        }
        let mut parts = request.body(()).unwrap().into_parts().0;
        let range = ViewRange::take(&mut parts).map_err(|status| status.message)?;
        Ok((range.map_or("present".to_owned(), |range| range.to_string()), parts.uri.to_string()))
    }

    #[test]
    fn path_and_header_name_the_revisions_of_a_view() {
        let range = |range: &str, uri: &str| Ok((range.to_owned(), uri.to_owned()));
        assert_eq!(taken("/api/v1/pods?a=b", None), range("present", "/api/v1/pods?a=b"));
        assert_eq!(taken("/kstore/v1/at/262/api/v1/pods?a=b", None), range("262", "/api/v1/pods?a=b"));
        assert_eq!(taken("/kstore/v1/at/262", None), range("262", "/"));
        assert_eq!(taken("/kstore/v1/at/262..300/apis", None), range("262..300", "/apis"));
        assert_eq!(taken("/kstore/v1/at/262..262/apis", None), range("262", "/apis"));
        assert_eq!(taken("/api/v1/pods", Some("262")), range("262", "/api/v1/pods"));
        assert_eq!(taken("/kstore/v1/at/262/api", Some("262")), range("262", "/api"));
        assert!(taken("/kstore/v1/at/262/api", Some("263")).unwrap_err().contains("different revisions"));
        for text in ["0", "-1", "x", "5m", "3..2", "1..", "..", "99999999999999999999", "1...2"] {
            let refused = taken(&format!("/kstore/v1/at/{text}/api"), None).unwrap_err();
            assert!(refused.contains("is no revision of a view"), "{text}: {refused}");
        }
        assert!(taken("/api", Some("")).is_err());
    }
}
