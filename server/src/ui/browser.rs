//! Opens the browser with a file that only the user can read: command lines of processes can be read by other users of the machine, and
//! would show them the link.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use tempfile::NamedTempFile;

/// A browser that was started, and the file with the link, which is removed with this value.
#[derive(Debug)]
pub(crate) struct Opened {
    _file: NamedTempFile,
    _browser: Child,
}

/// Opens a link. `None`: there is no browser, or no screen; the user has the printed link.
pub(crate) fn open(link: &str) -> Option<Opened> {
    let program = program(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))?;
    let mut file = tempfile::Builder::new().prefix("kstore-ui-").suffix(".html").tempfile().ok()?;
    file.write_all(page(link).as_bytes()).and_then(|()| file.flush()).ok()?;
    let mut command = match program {
        Some(program) => Command::new(program),
        None => Command::new(std::env::var_os("BROWSER")?),
    };
    let command = command.arg(file.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Some(Opened { _browser: command.spawn().ok()?, _file: file })
}

/// The program that opens files; `Some(None)`: the one that the variable BROWSER names. `has` says whether a variable is set.
fn program(has: impl Fn(&str) -> bool) -> Option<Option<&'static str>> {
    match () {
        () if has("BROWSER") => Some(None),
        () if cfg!(target_os = "macos") => Some(Some("open")),
        () if has("DISPLAY") || has("WAYLAND_DISPLAY") => Some(Some("xdg-open")),
        () => None,
    }
}

/// A page that goes to a link, which has no characters with a meaning in HTML.
fn page(link: &str) -> String {
    format!(
        "<!doctype html><meta charset=utf-8><title>kstore</title><meta http-equiv=refresh content=\"0; url={link}\">\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_is_opened_only_where_there_is_a_screen() {
        assert_eq!(program(|name| name == "BROWSER"), Some(None));
        if cfg!(target_os = "linux") {
            assert_eq!(program(|name| name == "DISPLAY"), Some(Some("xdg-open")));
            assert_eq!(program(|_| false), None);
        }
    }

    #[test]
    fn the_file_goes_to_the_link() {
        assert!(
            page("http://127.0.0.1:1/ui/#login=a-b_c").contains("url=http://127.0.0.1:1/ui/#login=a-b_c\"")
        );
    }
}
