//! What a cache that stands still answers (§5.2): the rule for each form of read. Pure.

use crate::request::{RequestTarget, Verb, Version};

/// What a cache answers to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheAnswer {
    /// What the server answers without a cache. A watch delivers no change beyond the cache's revision.
    Server,
    /// The state at this revision.
    At(i64),
    /// The request waits until the cache has reached this revision, at most [`crate::limits::CACHE_WAIT`]; then it gets 504.
    WaitFor(i64),
}

/// The answer to a request of a cache that stands at revision `stands_at` (`None`: it follows), while the newest revision is `head`.
/// `is_page` is whether the request has `continue`, or a limit that makes `resourceVersion` exact.
pub fn answer(stands_at: Option<i64>, head: i64, target: &RequestTarget, is_page: bool) -> CacheAnswer {
    let Some(stands_at) = stands_at.filter(|stands_at| *stands_at < head) else { return CacheAnswer::Server };
    let reaches = |wanted: i64| match wanted <= stands_at {
        true => CacheAnswer::At(stands_at),
        false => CacheAnswer::WaitFor(wanted),
    };
    match (target.verb, target.version) {
        (Verb::Get | Verb::List, _) if is_page || !target.subresource.is_empty() => CacheAnswer::Server,
        (Verb::Get | Verb::List, Version::Any) => CacheAnswer::At(stands_at),
        (Verb::Get | Verb::List, Version::Min(wanted)) => reaches(wanted),
        (Verb::Watch, Version::Unset) if target.sends_initial_events => reaches(head),
        (Verb::Watch, Version::Min(wanted)) if target.sends_initial_events => reaches(wanted),
        (Verb::Watch, Version::Unset | Version::Any) => CacheAnswer::At(stands_at),
        _ => CacheAnswer::Server,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CacheAnswer::{At, Server, WaitFor};
    use http::Method;

    /// The table of §5.2, for a cache at revision 10 of a cluster at 20.
    #[test]
    fn a_cache_that_stands_still_answers_each_form_of_read() {
        let rows = [
            (Method::GET, "/api/v1/namespaces/a/pods/p", Server),
            (Method::GET, "/api/v1/pods", Server),
            (Method::POST, "/api/v1/namespaces/a/pods", Server),
            (Method::PUT, "/api/v1/namespaces/a/pods/p?resourceVersion=5", Server),
            (Method::GET, "/api/v1/pods?resourceVersion=0", At(10)),
            (Method::GET, "/api/v1/namespaces/a/pods/p?resourceVersion=0", At(10)),
            (Method::GET, "/api/v1/pods?resourceVersion=7", At(10)),
            (Method::GET, "/api/v1/namespaces/a/pods/p?resourceVersion=10", At(10)),
            (Method::GET, "/api/v1/pods?resourceVersion=11", WaitFor(11)),
            (Method::GET, "/api/v1/pods?resourceVersion=7&resourceVersionMatch=Exact", Server),
            (Method::GET, "/api/v1/pods?watch=1&resourceVersion=7", Server),
            (Method::GET, "/api/v1/pods?watch=1&resourceVersion=15", Server),
            (Method::GET, "/api/v1/pods?watch=1&resourceVersion=0", At(10)),
            (Method::GET, "/api/v1/pods?watch=1", At(10)),
            (Method::GET, "/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersion=0", At(10)),
            (Method::GET, "/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersion=9", At(10)),
            (Method::GET, "/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersion=11", WaitFor(11)),
            (Method::GET, "/api/v1/pods?watch=1&sendInitialEvents=true", WaitFor(20)),
        ];
        for (method, uri, expected) in rows {
            let target = RequestTarget::of(&method, &uri.parse().unwrap()).unwrap();
            assert_eq!(answer(Some(10), 20, &target, false), expected, "{method} {uri}");
            assert_eq!(answer(None, 20, &target, false), Server, "{uri}: a cache that follows");
            assert_eq!(answer(Some(20), 20, &target, false), Server, "{uri}: a cache at the head");
        }
        let page =
            RequestTarget::of(&Method::GET, &"/api/v1/pods?resourceVersion=7&limit=5".parse().unwrap());
        assert_eq!(answer(Some(10), 20, &page.unwrap(), true), Server, "a page is exact");
    }
}
