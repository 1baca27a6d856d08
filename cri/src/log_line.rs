//! A line of a runtime's log file: `2026-10-06T00:17:09.669794202Z stdout F text`. Pure.

/// A line of a log file, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// When it was printed, in RFC 3339.
    pub at: String,
    /// Whether it was printed to standard error.
    pub is_error: bool,
    /// Whether the line goes on with the next one of the same stream.
    pub is_partial: bool,
    /// What was printed, without the end of the line.
    pub text: Vec<u8>,
}

impl LogLine {
    /// Reads a line without its end; `None` if it has not this form.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let mut words = line.splitn(4, |byte| *byte == b' ');
        let at = str::from_utf8(words.next()?).ok()?.to_owned();
        let is_error = match words.next()? {
            b"stdout" => false,
            b"stderr" => true,
            _ => return None,
        };
        // Further tags may follow after a colon.
        let is_partial = match words.next()?.split(|byte| *byte == b':').next()? {
            b"P" => true,
            b"F" => false,
            _ => return None,
        };
        Some(Self { at, is_error, is_partial, text: words.next().unwrap_or_default().to_vec() })
    }

    /// The bytes that the process printed.
    pub fn printed(mut self) -> Vec<u8> {
        if !self.is_partial {
            self.text.push(b'\n');
        }
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_or_parts_and_others_are_refused() {
        let of = |line: &str| {
            let line = LogLine::parse(line.as_bytes())?;
            Some((line.at.clone(), line.is_error, String::from_utf8(line.printed()).unwrap()))
        };
        let at = "2026-10-06T00:17:09.669794202Z";
        let expected = |is_error: bool, text: &str| Some((at.to_owned(), is_error, text.to_owned()));
        assert_eq!(of(&format!("{at} stdout F a line of words")), expected(false, "a line of words\n"));
        assert_eq!(of(&format!("{at} stderr P begins ")), expected(true, "begins "));
        assert_eq!(of(&format!("{at} stdout F:tag x")), expected(false, "x\n"));
        assert_eq!(of(&format!("{at} stdout F ")), expected(false, "\n"));
        assert_eq!(of(&format!("{at} stdout F")), expected(false, "\n"));
        for other in ["", at, "t stdin F x", "t stdout X x", "{\"log\": \"docker\"}"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_line_is_read_as_it_was_written(text in "[^\n]{0,40}", is_error: bool, is_partial: bool) {
            let (stream, tag) = (if is_error { "stderr" } else { "stdout" }, if is_partial { "P" } else { "F" });
            let line = LogLine::parse(format!("t {stream} {tag} {text}").as_bytes()).unwrap();
            let expected = LogLine { at: "t".to_owned(), is_error, is_partial, text: text.into_bytes() };
            proptest::prop_assert_eq!(line, expected);
        }
    }
}
