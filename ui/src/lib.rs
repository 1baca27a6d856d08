//! The files of the page: `web/` has the sources, `dist/` what `web/build.mjs` makes of them. The built files are checked in, so that no
//! build of a Rust program needs node.

#![doc = include_str!("../README.md")]

pub mod report;
pub mod secret_copies;

/// A file of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File {
    /// Its media type, as of the header `Content-Type`.
    pub content_type: &'static str,
    /// Its content.
    pub bytes: &'static [u8],
}

const FILES: [(&str, File); 3] = [
    ("", File { content_type: "text/html; charset=utf-8", bytes: include_bytes!("../dist/index.html") }),
    (
        "app.js",
        File { content_type: "text/javascript; charset=utf-8", bytes: include_bytes!("../dist/app.js") },
    ),
    ("app.css", File { content_type: "text/css; charset=utf-8", bytes: include_bytes!("../dist/app.css") }),
];

/// The file at a path below the page's folder; the empty path is the page itself. `None`: there is no such file.
pub fn file(path: &str) -> Option<File> {
    FILES.iter().find(|(own, _)| *own == path).map(|(_, file)| *file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_only_files_that_exist_and_no_other_origin() {
        let page = std::str::from_utf8(file("").unwrap().bytes).unwrap();
        let named = page.split(['"', '\'']).filter(|text| text.ends_with(".js") || text.ends_with(".css"));
        let named: Vec<&str> = named.collect();
        assert_eq!(named.len(), 2, "{page}");
        assert!(named.iter().all(|name| file(name).is_some()), "{named:?}");
        assert!(!page.contains("http://") && !page.contains("https://"), "{page}");
        assert_eq!(file("../Cargo.toml"), None);
    }

    /// The policy of the page allows neither, so a file with them would not work.
    #[test]
    fn scripts_make_no_markup_of_text() {
        let script = std::str::from_utf8(file("app.js").unwrap().bytes).unwrap();
        for word in ["eval(", "new Function", "document.write", "insertAdjacentHTML"] {
            assert!(!script.contains(word), "{word}");
        }
    }
}
