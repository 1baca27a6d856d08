//! The line discipline between a program and a typing user: lines, and for a terminal echo, the erase key and the keys that
//! end input. Pure.

/// Input that becomes lines, with echo and editing if it is a terminal.
pub struct LineDiscipline {
    tty: bool,
    /// Typed bytes that are not a complete line yet.
    typed: Vec<u8>,
    /// Lines that the program has not taken.
    lines: Vec<u8>,
}

impl LineDiscipline {
    /// A line discipline without input; `tty` is whether it is a terminal.
    pub fn new(tty: bool) -> Self {
        Self { tty, typed: Vec::new(), lines: Vec::new() }
    }

    /// Output as the client shows it: a terminal gets a carriage return before each newline.
    pub fn output(&self, bytes: &[u8]) -> Vec<u8> {
        if !self.tty {
            return bytes.to_vec();
        }
        let mut shown = Vec::with_capacity(bytes.len() + 8);
        for byte in bytes {
            if *byte == b'\n' {
                shown.push(b'\r');
            }
            shown.push(*byte);
        }
        shown
    }

    /// Processes typed bytes. Returns the bytes for the program, the echo for the terminal, and whether the input ends.
    pub fn input(&mut self, bytes: &[u8]) -> (Vec<u8>, Vec<u8>, bool) {
        if !self.tty {
            return (bytes.to_vec(), Vec::new(), false);
        }
        let (mut given, mut shown) = (Vec::new(), Vec::new());
        for byte in bytes {
            match byte {
                b'\r' | b'\n' => {
                    shown.extend(b"\r\n");
                    given.append(&mut self.typed);
                    given.push(b'\n');
                }
                // Backspace or delete.
                0x7f | 0x08 => {
                    if self.typed.pop().is_some() {
                        shown.extend(b"\x08 \x08");
                    }
                }
                // Control-C discards the line.
                0x03 => {
                    self.typed.clear();
                    shown.extend(b"^C\r\n");
                    given.push(b'\n');
                }
                // Control-D on an empty line ends the input.
                0x04 if self.typed.is_empty() => return (given, shown, true),
                0x04 => given.append(&mut self.typed),
                byte => {
                    self.typed.push(*byte);
                    shown.push(*byte);
                }
            }
        }
        (given, shown, false)
    }

    /// Adds bytes for [`LineDiscipline::take`].
    pub fn push(&mut self, bytes: &[u8]) {
        self.lines.extend_from_slice(bytes);
    }

    /// Takes all kept bytes, if there are any.
    pub fn lines(&mut self) -> Option<Vec<u8>> {
        let lines = std::mem::take(&mut self.lines);
        (!lines.is_empty()).then_some(lines)
    }

    /// Bytes that no [`LineDiscipline::take`] has returned yet.
    pub fn buffered(&self) -> usize {
        self.lines.len() + self.typed.len()
    }

    /// Takes the first complete line, without its newline.
    pub fn take(&mut self) -> Option<String> {
        let end = self.lines.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.lines.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line[..end]).into_owned())
    }

    /// Takes the incomplete line at the end of input, if there is one.
    pub fn rest(&mut self) -> Option<String> {
        let rest = std::mem::take(&mut self.lines);
        (!rest.is_empty()).then(|| String::from_utf8_lossy(&rest).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_echoes_and_edits_and_a_pipe_does_not() {
        let mut pipe = LineDiscipline::new(false);
        assert_eq!(pipe.input(b"a\x7f\r\n"), (b"a\x7f\r\n".to_vec(), Vec::new(), false));
        assert_eq!(pipe.output(b"x\n"), b"x\n");

        let mut terminal = LineDiscipline::new(true);
        assert_eq!(terminal.input(b"ab\x7fc"), (Vec::new(), b"ab\x08 \x08c".to_vec(), false));
        assert_eq!(terminal.input(b"\r"), (b"ac\n".to_vec(), b"\r\n".to_vec(), false));
        assert_eq!(terminal.input(b"x\x03"), (b"\n".to_vec(), b"x^C\r\n".to_vec(), false));
        assert_eq!(terminal.input(b"\x04"), (Vec::new(), Vec::new(), true));
        assert_eq!(terminal.output(b"x\n"), b"x\r\n");
    }

    #[test]
    fn complete_lines_come_first_and_the_incomplete_one_last() {
        let mut line = LineDiscipline::new(false);
        line.push(b"one\ntwo\nthr");
        assert_eq!([line.take(), line.take(), line.take()], [Some("one".into()), Some("two".into()), None]);
        assert_eq!([line.rest(), line.rest()], [Some("thr".into()), None]);
    }
}
