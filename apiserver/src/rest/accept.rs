//! The Accept header: its clauses in order of preference. Pure. Callers decide which clause can be served.

use http::HeaderMap;
use http::header::ACCEPT;

/// One clause of an Accept header.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Clause {
    /// `type/subtype`, lower case; `*/*` for anything.
    pub(super) media: String,
    /// Parameters except `q`, in the order of the header.
    pub(super) parameters: Vec<(String, String)>,
    quality: f32,
}

impl Clause {
    /// The value of a parameter; empty if absent.
    pub(super) fn parameter(&self, name: &str) -> &str {
        self.parameters.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// Whether the clause accepts this media type.
    pub(super) fn accepts(&self, media: &str) -> bool {
        let (kind, subtype) = self.media.split_once('/').unwrap_or((&self.media, "*"));
        let (wanted, wanted_subtype) = media.split_once('/').unwrap_or((media, ""));
        (kind == "*" || kind == wanted) && (subtype == "*" || subtype == wanted_subtype)
    }
}

/// The clauses by descending quality, then in the order of the header; `*/*` alone without a header. Clauses
/// of quality 0 are left out.
pub(super) fn clauses(headers: &HeaderMap) -> Vec<Clause> {
    let texts: Vec<&str> = headers.get_all(ACCEPT).iter().filter_map(|v| v.to_str().ok()).collect();
    let mut clauses: Vec<Clause> =
        texts.iter().flat_map(|text| text.split(',')).filter_map(parse).filter(|c| c.quality > 0.0).collect();
    if texts.iter().all(|text| text.trim().is_empty()) {
        clauses.push(Clause { media: "*/*".into(), parameters: Vec::new(), quality: 1.0 });
    }
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality));
    clauses
}

fn parse(text: &str) -> Option<Clause> {
    let mut parts = text.split(';').map(str::trim);
    let media = parts.next().filter(|m| !m.is_empty())?.to_ascii_lowercase();
    let mut clause = Clause { media, parameters: Vec::new(), quality: 1.0 };
    for part in parts {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let (key, value) = (key.trim(), value.trim().trim_matches('"'));
        match key {
            "q" => clause.quality = value.parse().unwrap_or(1.0),
            _ => clause.parameters.push((key.into(), value.into())),
        }
    }
    Some(clause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn medias(header: &str) -> Vec<String> {
        let headers = HeaderMap::from_iter([(ACCEPT, header.parse().unwrap())]);
        clauses(&headers).into_iter().map(|c| c.media).collect()
    }

    #[test]
    fn clauses_are_ordered_by_quality_then_position() {
        assert_eq!(medias("a/a;q=0.5, b/b, c/c;q=0.9, d/d, e/e;q=0"), ["b/b", "d/d", "c/c", "a/a"]);
        assert_eq!(medias(""), ["*/*"]);
        assert_eq!(clauses(&HeaderMap::new())[0].media, "*/*");
    }

    #[test]
    fn parameters_are_kept_and_wildcards_accept() {
        let header = "application/json;as=Table;g=meta.k8s.io;v=v1, application/*";
        let headers = HeaderMap::from_iter([(ACCEPT, header.parse().unwrap())]);
        let clauses = clauses(&headers);
        assert_eq!((clauses[0].parameter("as"), clauses[0].parameter("v")), ("Table", "v1"));
        assert!(clauses[0].accepts("application/json") && !clauses[0].accepts("application/yaml"));
        assert!(clauses[1].accepts("application/yaml") && !clauses[1].accepts("text/plain"));
    }
}
