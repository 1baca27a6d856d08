//! The file: the page of this crate with its script and style inside, a policy that allows these two by their hashes and nothing else, and
//! the data as base64, so that nothing in them can end their element.

use crate::file;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest as _, Sha256};

/// The id of the element with the data, which the page looks for.
const ID: &str = "kstore-report";

/// The file around data. `title` is text.
pub(super) fn page(title: &str, data: &[u8]) -> Vec<u8> {
    let (script, style) = (text("app.js"), text("app.css"));
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:; connect-src 'none'; base-uri 'none'; form-action 'none'",
        hash(script),
        hash(style)
    );
    let data = BASE64_STANDARD.encode(data);
    let title = escaped(title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<link rel=\"icon\" href=\"data:,\">\n\
         <style>{style}</style>\n</head>\n<body>\n<div id=\"app\"></div>\n<noscript>The report needs JavaScript.</noscript>\n\
         <script type=\"application/x-kstore-report\" id=\"{ID}\">{data}</script>\n\
         <script type=\"module\">{script}</script>\n</body>\n</html>\n"
    )
    .into_bytes()
}

/// Bytes of data that fit in a file of `most` bytes, at least nothing.
pub(super) fn room(title: &str, most: usize) -> usize {
    most.saturating_sub(page(title, &[]).len()) / 4 * 3
}

fn text(name: &str) -> &'static str {
    let file = file(name).expect("the page has its files");
    std::str::from_utf8(file.bytes).expect("the build writes UTF-8")
}

/// The source expression of a text's SHA-256.
fn hash(text: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(text)))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is between two texts, of which the first is at one place only.
    fn between<'t>(text: &'t str, from: &str, to: &str) -> &'t str {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        text.split_once(from).unwrap().1.split_once(to).unwrap().0
    }

    #[test]
    fn the_policy_allows_this_script_and_this_style_and_no_request() {
        let made = String::from_utf8(page("a <b> & c", b"data")).unwrap();
        assert_eq!(between(&made, "<title>", "</title>"), "a &lt;b> &amp; c");
        let policy = between(&made, "Content-Security-Policy\" content=\"", "\"");
        for (from, to) in [("<script type=\"module\">", "</script>"), ("<style>", "</style>")] {
            let inside = between(&made, from, to);
            assert!(policy.contains(&hash(inside)), "{from} {policy}");
        }
        assert!(policy.starts_with("default-src 'none'") && policy.contains("connect-src 'none'"));
        let data = between(&made, "id=\"kstore-report\">", "</script>");
        assert_eq!(BASE64_STANDARD.decode(data).unwrap(), b"data");
    }

    /// An inline script or style ends at the first such tag, wherever it is; a comment's beginning changes how a script is read; and
    /// browsers turn CR into LF, which changes the hash.
    #[test]
    fn script_and_style_can_be_inside_of_a_page() {
        for (name, tag) in [("app.js", "</script"), ("app.css", "</style")] {
            let own = text(name).to_ascii_lowercase();
            assert!(!own.contains(tag) && !own.contains("<!--") && !own.contains('\r'), "{name}");
        }
    }

    #[test]
    fn data_that_fill_the_room_fill_the_file() {
        let most = 1 << 20;
        let size = page("t", &vec![0; room("t", most)]).len();
        assert!(size <= most && size > most - 8, "{size}");
    }
}
