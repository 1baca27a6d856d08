//! Tests of rewriting requests and responses.

use super::headers;
use super::links::{Links, backend_path, escape};
use super::page::rewrite;
use http::HeaderMap;

fn map(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

fn list(headers: &HeaderMap) -> Vec<String> {
    let mut all: Vec<String> =
        headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    all.sort();
    all
}

#[test]
fn credentials_and_hop_by_hop_headers_are_not_forwarded() {
    let mut to_backend = map(&[
        ("authorization", "Bearer x"),
        ("impersonate-user", "jane"),
        ("kstore-cause", "7"),
        ("connection", "close, X-Hop"),
        ("x-hop", "1"),
        ("te", "trailers"),
        ("transfer-encoding", "chunked"),
        ("accept", "*/*"),
        ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.YWJj"),
        ("x-forwarded-for", "1.1.1.1"),
    ]);
    headers::to_backend(&mut to_backend, None, Some("2.2.2.2".parse().unwrap()), Some("/p/a"));
    let expected = ["accept: */*", "x-forwarded-for: 1.1.1.1, 2.2.2.2", "x-forwarded-uri: /p/a"];
    assert_eq!(list(&to_backend), expected);

    let mut asks = map(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")]);
    let upgrade = headers::upgrade(&asks);
    headers::to_backend(&mut asks, upgrade, None, Some("/"));
    assert_eq!(list(&asks), ["connection: Upgrade", "upgrade: websocket", "x-forwarded-uri: /"]);

    let mut to_client = map(&[
        ("access-control-allow-origin", "*"),
        ("keep-alive", "5"),
        ("upgrade", "h2c"),
        ("etag", "\"1\""),
    ]);
    headers::to_client(&mut to_client);
    assert_eq!(list(&to_client), ["etag: \"1\""]);
}

#[test]
fn the_backend_receives_the_path_below_the_proxy() {
    let cases = [
        ("/x/proxy", "", ""),
        ("/x/proxy/", "", "/"),
        ("/x/proxy/a/b", "a/b", "/a/b"),
        ("/x/proxy/a/", "a", "/a/"),
        ("/x/proxy/../../a", "../../a", "/a"),
    ];
    for (path, below, expected) in cases {
        assert_eq!(backend_path(path, below), expected, "{path}");
    }
    assert_eq!(escape("/a b/ü?#%"), "/a%20b/%C3%BC%3F%23%25");
    assert_eq!(escape(""), "/");
}

#[test]
fn links_of_the_backend_lead_through_the_proxy() {
    let links = Links::new("/x/proxy/in/", "/in/", "api:6443", "10.0.0.1:80");
    assert_eq!(links.forwarded("/in/"), "/x/proxy/in/");
    let cases = [
        ("/login?next=/a#b", "/x/proxy/login?next=/a#b"),
        ("/dir/", "/x/proxy/dir/"),
        ("http://10.0.0.1:80/login", "/x/proxy/login"),
        ("http://api:6443/login", "http://api:6443/x/proxy/login"),
        ("/x/proxy/there", "/x/proxy/there"),
        ("login", "login"),
        ("?page=2", "?page=2"),
        ("https://example.com/login", "https://example.com/login"),
        ("//example.com/login", "//example.com/login"),
        ("mailto:/me", "mailto:/me"),
        ("", ""),
    ];
    for (link, expected) in cases {
        assert_eq!(links.rewrite(link), expected, "{link}");
    }
}

#[test]
fn only_links_of_a_page_are_rewritten() {
    let link = |link: &str| format!("[{link}]");
    let cases = [
        ("no markup < here", "no markup < here"),
        ("<a href=\"/x\">go</a>", "<a href=\"[/x]\">go</a>"),
        ("<A class=b HREF='/x' id=c>", "<A class=b HREF='[/x]' id=c>"),
        ("<img src=/x.png alt=/y><br/>", "<img src=[/x.png] alt=/y><br/>"),
        ("<form action = '/x' method=post>", "<form action = '[/x]' method=post>"),
        ("<p href=/x>", "<p href=/x>"),
        ("<!-- <a href=/x> --><a href=/y>", "<!-- <a href=/x> --><a href=[/y]>"),
        (
            "<script src=/s>'<a href=/x>'</script><a href=/y>",
            "<script src=[/s]>'<a href=/x>'</script><a href=[/y]>",
        ),
        ("<a href", "<a href[]"),
        ("<a href=\"/x", "<a href=\"[/x]"),
        ("<!DOCTYPE html></p><?x?>", "<!DOCTYPE html></p><?x?>"),
        ("<", "<"),
    ];
    for (page, expected) in cases {
        assert_eq!(rewrite(page, link), expected, "{page}");
    }
}

proptest::proptest! {
    #[test]
    fn a_page_with_unchanged_links_is_unchanged(page in "([ -~\nü]|<|>|<a |<script|</|<!--|-->|href=|\"|')*") {
        proptest::prop_assert_eq!(rewrite(&page, str::to_owned), page);
    }

    #[test]
    fn no_link_makes_it_panic(link in "[ -~ü]{0,20}|[:/?#a]{0,12}", path in "/[a/]{0,8}", below in "[a/.]{0,8}") {
        let backend_path = backend_path(&path, &below);
        let _ = Links::new(&path, &backend_path, "a", "b").rewrite(&link);
    }
}
