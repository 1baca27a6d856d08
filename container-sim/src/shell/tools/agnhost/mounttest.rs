//! `agnhost mounttest`: says what it sees of mounted files, in the words of Go's `os`.

use super::{Steps, value};
use crate::limits::LONGEST_SLEEP;
use crate::shell::disk::{Content, DiskEntry};
use crate::shell::env::Env;
use crate::shell::files::FileError;
use crate::shell::tools::{Effect, Outcome, ToolCall};
use std::time::Duration;

/// The text that a new file gets.
const NEW: &str = "mount-tester new file\n";
/// The time between two looks at a file.
const PAUSE: Duration = Duration::from_secs(2);
/// Flags that write a file, with its mode.
const WRITES: [(&str, u32); 4] =
    [("new_file_0644", 0o644), ("new_file_0666", 0o666), ("new_file_0660", 0o660), ("new_file_0777", 0o777)];

/// The text of an error in Go.
fn text(why: FileError) -> &'static str {
    match why {
        FileError::Missing => "no such file or directory",
        FileError::Folder => "is a directory",
        FileError::NoFolder => "not a directory",
        FileError::Exists => "file exists",
        FileError::NotEmpty => "directory not empty",
        FileError::ReadOnly => "read-only file system",
        FileError::TooLong => "file name too long",
        FileError::Denied => "permission denied",
        FileError::NotOwner => "operation not permitted",
        FileError::Busy => "device or resource busy",
        FileError::Full(_) => "no space left on device",
    }
}

/// A mode as Go prints it: `dtrwxrwxrwx`.
fn mode(entry: &DiskEntry, is_whole: bool) -> String {
    let is_folder = entry.content == Content::Folder;
    let kinds = [
        ('d', is_folder),
        ('u', entry.mode & 0o4000 != 0),
        ('g', entry.mode & 0o2000 != 0),
        ('t', entry.mode & 0o1000 != 0),
    ];
    let kinds: String = kinds.iter().filter(|(_, is)| *is && is_whole).map(|(letter, _)| *letter).collect();
    let bits = (0..9).rev().zip("rwxrwxrwx".chars());
    let bits: String =
        bits.map(|(bit, letter)| if entry.mode >> bit & 1 == 1 { letter } else { '-' }).collect();
    if kinds.is_empty() { format!("-{bits}") } else { format!("{kinds}{bits}") }
}

/// What it has said so far, and whether something failed.
struct Report<'a> {
    env: &'a Env,
    said: String,
    failed: bool,
}

impl Report<'_> {
    fn fail(&mut self, text: &str) {
        self.said.push_str(text);
        self.failed = true;
    }

    fn write(&mut self, path: &str, mode: u32) {
        let whole = self.env.path(path);
        let written = self.env.write(&whole, NEW.as_bytes());
        let written = written.and_then(|()| self.env.set_mode(&self.env.resolved(&whole), mode));
        match written {
            Ok(()) => self.content(path),
            Err(why) => {
                let why = text(why);
                self.fail(&format!("error writing new file {path:?}: open {path}: {why}\n"));
            }
        }
    }

    fn content(&mut self, path: &str) {
        match self.env.read(&self.env.path(path)) {
            Ok(bytes) => {
                let content = String::from_utf8_lossy(&bytes);
                self.said.push_str(&format!("content of file {path:?}: {content}\n"));
            }
            Err(why) => {
                let why = text(why);
                self.fail(&format!("error reading file content for {path:?}: open {path}: {why}\n"));
            }
        }
    }

    /// Says something about an entry; `call` is the system call that an error names.
    fn entry(&mut self, path: &str, call: &str, say: impl Fn(&DiskEntry) -> String) {
        let env = self.env;
        match env.entry(&env.resolved(&env.path(path))) {
            Some(entry) => self.said.push_str(&say(&entry)),
            None => self.fail(&format!("error from {call}({path:?}): no such file or directory\n")),
        }
    }

    fn file_system(&mut self, path: &str) {
        let whole = self.env.resolved(&self.env.path(path));
        let is_memory = self.env.memory_mounts.iter().any(|mount| {
            whole == *mount || whole.strip_prefix(mount.as_str()).is_some_and(|rest| rest.starts_with('/'))
        });
        // The number of ext4, as `statfs` has it.
        let kind = if is_memory { "tmpfs" } else { "61267" };
        self.entry(path, "statfs", |_| format!("mount type of {path:?}: {kind}\n"));
    }
}

pub(super) fn run(call: &ToolCall<'_>, arguments: &[String]) -> Outcome {
    let flag = |name: &str| value(arguments, &[name]).filter(|value| !value.is_empty());
    let mut report = Report { env: call.env, said: String::new(), failed: false };
    if let Some(path) = flag("fs_type") {
        report.file_system(path);
    }
    for (name, mode) in WRITES {
        if let Some(path) = flag(name) {
            report.write(path, mode);
        }
    }
    if let Some(path) = flag("file_mode") {
        report.entry(path, "Lstat", |entry| format!("mode of file {path:?}: {}\n", mode(entry, true)));
    }
    if let Some(path) = flag("file_perm") {
        report.entry(path, "Lstat", |entry| format!("perms of file {path:?}: {}\n", mode(entry, false)));
    }
    if let Some(path) = flag("file_owner") {
        report.entry(path, "Lstat", |entry| {
            let DiskEntry { user, group, .. } = entry;
            format!("owner UID of {path:?}: {user}\nowner GID of {path:?}: {group}\n")
        });
    }
    if let Some(path) = flag("file_content") {
        report.content(path);
    }
    let Report { said, failed, .. } = report;
    let code = u8::from(failed);
    let then = match flag("file_content_in_loop") {
        None => Vec::new(),
        Some(path) => {
            let seconds = flag("retry_time").and_then(|text| text.parse().ok()).unwrap_or(180);
            let breaks = flag("break_on_expected_content") != Some("false");
            let left = Duration::from_secs(seconds).min(LONGEST_SLEEP);
            vec![Effect::Step(Box::new(Loop { path: path.to_owned(), left, breaks }))]
        }
    };
    Outcome { code, then, ..Outcome::text(said) }
}

/// Reads a file again and again.
#[derive(Debug)]
struct Loop {
    path: String,
    left: Duration,
    breaks: bool,
}

impl Steps for Loop {
    fn step(mut self: Box<Self>, env: &Env) -> Vec<Effect> {
        if self.left.is_zero() {
            return Vec::new();
        }
        let path = &self.path;
        let (said, is_over) = match env.read(&env.path(path)) {
            Ok(bytes) => {
                let content = String::from_utf8_lossy(&bytes);
                (format!("content of file {path:?}: {content}\n"), self.breaks)
            }
            Err(why) => (format!("Error reading file {path}: open {path}: {}, retrying\n", text(why)), false),
        };
        let said = Effect::Print(said.into_bytes());
        if is_over {
            return vec![said];
        }
        self.left = self.left.saturating_sub(PAUSE);
        vec![said, Effect::Sleep(PAUSE), Effect::Step(self)]
    }
}
