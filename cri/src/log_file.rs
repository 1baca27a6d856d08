//! [`LogFile`]: reads a log file that a runtime writes, while it grows and is rotated.

use crate::limits::{LOG_LINE, LOG_READ};
use crate::log_line::LogLine;
use std::fs::File;
use std::io::{ErrorKind, Read as _, Result};
use std::path::{Path, PathBuf};

/// A log file, read from its beginning.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    file: Option<File>,
    /// The beginning of a line whose end is not written yet.
    rest: Vec<u8>,
    /// Bytes read of the current file.
    length: u64,
    /// Whether the current file is renamed, and another one follows.
    is_rotated: bool,
}

impl LogFile {
    /// The file at `path`, which need not exist yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path, file: None, rest: Vec::new(), length: 0, is_rotated: false }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the file that were read.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The next lines, no more than one reading has; none if no more is written. What has not the form of a line is left out.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&mut self) -> Result<Vec<LogLine>> {
        if self.file.is_none() {
            match File::open(&self.path) {
                Ok(file) => self.file = Some(file),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
                Err(error) => return Err(error),
            }
        }
        let Some(file) = &mut self.file else { return Ok(Vec::new()) };
        let begun = self.rest.len();
        let read = file.take(LOG_READ as u64).read_to_end(&mut self.rest)?;
        self.length += read as u64;
        if read == 0 && self.is_rotated {
            (self.file, self.is_rotated, self.length) = (None, false, 0);
            self.rest.clear();
            return self.read();
        }
        let Some(end) = self.rest[begun..].iter().rposition(|byte| *byte == b'\n') else {
            // A runtime writes no such line.
            self.rest.truncate(LOG_LINE);
            return Ok(Vec::new());
        };
        let after = self.rest.split_off(begun + end + 1);
        let whole = std::mem::replace(&mut self.rest, after);
        Ok(whole.split(|byte| *byte == b'\n').filter_map(LogLine::parse).collect())
    }

    /// Gives the current file the name of an old one, whose earlier file is removed; the rest of it is read before the next. The runtime
    /// must open its log anew after this.
    ///
    /// # Errors
    /// The file cannot be renamed.
    pub fn rotate(&mut self) -> Result<()> {
        let mut old = self.path.clone().into_os_string();
        old.push(".1");
        std::fs::rename(&self.path, old)?;
        self.is_rotated = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn texts(file: &mut LogFile) -> Vec<String> {
        let lines = file.read().unwrap();
        lines.into_iter().map(|line| String::from_utf8(line.text).unwrap()).collect()
    }

    #[test]
    fn a_file_is_followed_over_unfinished_lines_and_rotations() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.log");
        let mut file = LogFile::new(path.clone());
        assert!(texts(&mut file).is_empty(), "it does not exist yet");
        let mut writer = File::create(&path).unwrap();
        writer.write_all(b"t stdout F one\nnonsense\nt stdout F tw").unwrap();
        assert_eq!(texts(&mut file), ["one"]);
        assert!(texts(&mut file).is_empty());
        writer.write_all(b"o\n").unwrap();
        assert_eq!(texts(&mut file), ["two"]);
        file.rotate().unwrap();
        writer.write_all(b"t stdout F three\n").unwrap();
        let mut writer = File::create(&path).unwrap();
        writer.write_all(b"t stdout F four\n").unwrap();
        assert_eq!(texts(&mut file), ["three"], "the renamed file is read to its end");
        assert_eq!(texts(&mut file), ["four"]);
        assert_eq!(file.length(), 16);
    }

    #[test]
    fn a_line_without_an_end_takes_no_more_memory_than_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.log");
        std::fs::write(&path, vec![b'x'; LOG_READ * 3]).unwrap();
        let mut file = LogFile::new(path);
        for _ in 0..4 {
            assert!(file.read().unwrap().is_empty());
            assert!(file.rest.len() <= LOG_LINE);
        }
    }
}
