//! `stat`, `chown` and `chgrp`, and the forms of permissions.

use super::users::{name_of, number_of};
use super::{Outcome, Tool, ToolCall, plain};
use crate::shell::disk::{Content, DiskEntry};
use crate::shell::env::Env;

pub(super) const TOOLS: &[Tool] = &[plain("stat", stat)];

/// Bytes of a block in a file's allocation.
const BLOCK: usize = 512;
/// Bytes that a disk allocates at a time.
const ALLOCATION: usize = 4096;

/// The bits of the kind of an entry, as in `st_mode`.
fn kind_bits(content: &Content) -> u32 {
    match content {
        Content::Folder => 0o040_000,
        Content::File(_) => 0o100_000,
        Content::Link(_) => 0o120_000,
    }
}

/// The size of an entry in bytes.
pub(super) fn size_of_entry(content: &Content) -> usize {
    match content {
        Content::Folder => ALLOCATION,
        Content::File(bytes) => bytes.len(),
        Content::Link(to) => to.len(),
    }
}

/// The kind and the permissions as `ls -l` shows them.
pub(super) fn mode_text(entry: &DiskEntry) -> String {
    let kind = match &entry.content {
        Content::Folder => 'd',
        Content::File(_) => '-',
        Content::Link(_) => 'l',
    };
    let mut text = String::from(kind);
    for (place, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = entry.mode >> place & 7;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (entry.mode & special != 0, bits & 1 != 0) {
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

fn kind_name(content: &Content) -> &'static str {
    match content {
        Content::Folder => "directory",
        Content::File(bytes) if bytes.is_empty() => "regular empty file",
        Content::File(_) => "regular file",
        Content::Link(_) => "symbolic link",
    }
}

/// The number of an entry on its disk: one that its path determines.
fn inode(path: &str) -> u32 {
    path.bytes().fold(2_166_136_261, |sum: u32, byte| (sum ^ u32::from(byte)).wrapping_mul(16_777_619)) | 1
}

fn time_text(seconds: i64) -> String {
    let time = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    format!("{}.000000000 +0000", time.strftime("%Y-%m-%d %H:%M:%S"))
}

/// An entry that `stat` shows.
struct Shown<'a> {
    env: &'a Env,
    given: &'a str,
    path: &'a str,
    entry: DiskEntry,
}

impl Shown<'_> {
    fn blocks(&self) -> usize {
        match &self.entry.content {
            Content::Link(_) => 0,
            content => size_of_entry(content).div_ceil(ALLOCATION) * (ALLOCATION / BLOCK),
        }
    }

    fn user(&self) -> String {
        name_of(self.env, self.entry.user, "/etc/passwd").unwrap_or_else(|| "UNKNOWN".to_owned())
    }

    fn group(&self) -> String {
        name_of(self.env, self.entry.group, "/etc/group").unwrap_or_else(|| "UNKNOWN".to_owned())
    }

    /// The value of a letter of a format; `None` if there is no such letter.
    fn value(&self, letter: char) -> Option<String> {
        let entry = &self.entry;
        Some(match letter {
            'n' => self.given.to_owned(),
            'N' => match &entry.content {
                Content::Link(to) => format!("'{}' -> '{to}'", self.given),
                Content::Folder | Content::File(_) => self.given.to_owned(),
            },
            's' => size_of_entry(&entry.content).to_string(),
            'a' => format!("{:o}", entry.mode),
            'A' => mode_text(entry),
            'f' => format!("{:x}", kind_bits(&entry.content) | entry.mode),
            'F' => kind_name(&entry.content).to_owned(),
            'u' => entry.user.to_string(),
            'U' => self.user(),
            'g' => entry.group.to_string(),
            'G' => self.group(),
            'h' => if entry.content == Content::Folder { "2" } else { "1" }.to_owned(),
            'i' => inode(self.path).to_string(),
            'b' => self.blocks().to_string(),
            'B' => BLOCK.to_string(),
            'o' => ALLOCATION.to_string(),
            'd' => "52".to_owned(),
            'D' => "34".to_owned(),
            't' | 'T' => "0".to_owned(),
            'x' | 'y' | 'z' => time_text(entry.modified),
            'X' | 'Y' | 'Z' => entry.modified.to_string(),
            _ => return None,
        })
    }

    fn formatted(&self, format: &str) -> String {
        let mut text = String::new();
        let mut rest = format.chars();
        while let Some(c) = rest.next() {
            match c {
                '%' => match rest.next() {
                    Some('%') | None => text.push('%'),
                    Some(letter) => match self.value(letter) {
                        Some(value) => text.push_str(&value),
                        None => text.push(letter),
                    },
                },
                c => text.push(c),
            }
        }
        text
    }

    fn whole(&self) -> String {
        let of = |letter| self.value(letter).unwrap_or_default();
        let time = time_text(self.entry.modified);
        format!(
            "  File: {}\n  Size: {:<10}\tBlocks: {:<10} IO Block: {:<6} {}\nDevice: {}h/{}d\tInode: {:<10}  Links: {}\n\
             Access: ({:04o}/{})  Uid: ({:>5}/{:>8})   Gid: ({:>5}/{:>8})\nAccess: {time}\nModify: {time}\nChange: {time}",
            of('N'),
            of('s'),
            of('b'),
            of('o'),
            of('F'),
            of('D'),
            of('d'),
            of('i'),
            of('h'),
            self.entry.mode,
            of('A'),
            of('u'),
            of('U'),
            of('g'),
            of('G'),
        )
    }
}

fn stat(call: &ToolCall<'_>) -> Outcome {
    let env = call.env;
    let parsed = match super::parse(call.arguments(), "Lltfc:", &[("format", 'c'), ("dereference", 'L')]) {
        Ok(parsed) => parsed,
        Err(why) => return Outcome::fail(1, format!("stat: {why}\n")),
    };
    if parsed.has('f') {
        return Outcome::fail(1, "stat: file systems are not simulated\n".to_owned());
    }
    if parsed.operands.is_empty() {
        return Outcome::fail(1, "stat: missing operand\n".to_owned());
    }
    let (mut text, mut err) = (String::new(), String::new());
    for given in parsed.operands.iter().take_while(|_| env.runs()) {
        let path = env.path(given);
        let path = if parsed.has('L') { env.resolved(&path) } else { path };
        let Some(entry) = env.entry(&path) else {
            err.push_str(&format!("stat: can't stat '{given}': No such file or directory\n"));
            continue;
        };
        let shown = Shown { env, given, path: &path, entry };
        let line = match parsed.value('c') {
            Some(format) => shown.formatted(format),
            None if parsed.has('t') => shown.formatted("%n %s %b %f %u %g %D %i %h %t %T %X %Y %Z %o"),
            None => shown.whole(),
        };
        text.push_str(&line);
        text.push('\n');
    }
    Outcome { code: u8::from(!err.is_empty()), err, ..Outcome::text(text) }
}

/// `chown USER[:GROUP] FILE…`, or `chgrp GROUP FILE…`; `-R` descends, `-h` changes links themselves.
pub(super) fn change_owner(call: &ToolCall<'_>, is_group: bool) -> Outcome {
    let (env, name) = (call.env, &call.argv[0]);
    let parsed = match super::parse(call.arguments(), "RhvcfLHP", &[("recursive", 'R')]) {
        Ok(parsed) => parsed,
        Err(why) => return Outcome::fail(1, format!("{name}: {why}\n")),
    };
    let Some((owner, paths)) = parsed.operands.split_first().filter(|(_, paths)| !paths.is_empty()) else {
        return Outcome::fail(1, format!("{name}: missing operand\n"));
    };
    let (user, group) = match owner.split_once([':', '.']) {
        _ if is_group => (None, Some(owner.as_str())),
        Some((user, group)) => (Some(user).filter(|user| !user.is_empty()), Some(group)),
        None => (Some(owner.as_str()), None),
    };
    let group = group.filter(|group| !group.is_empty());
    let numbers =
        [(user, "/etc/passwd", "user"), (group, "/etc/group", "group")].map(|(text, file, kind)| {
            text.map(|text| {
                number_of(env, text, file).ok_or_else(|| format!("{name}: unknown {kind} {text}\n"))
            })
            .transpose()
        });
    let [user, group] = numbers;
    let (user, group) = match (user, group) {
        (Ok(user), Ok(group)) => (user, group),
        (Err(why), _) | (_, Err(why)) => return Outcome::fail(1, why),
    };
    let mut err = String::new();
    for given in paths.iter().take_while(|_| env.runs()) {
        let path = env.path(given);
        let root = if parsed.has('h') { path } else { env.resolved(&path) };
        let all: Vec<String> = match parsed.has('R') {
            true => env.walk(&root).into_iter().map(|(path, _)| path).collect(),
            false => vec![root],
        };
        for path in all {
            if let Err(why) = env.set_owner(&path, user, group) {
                err.push_str(&format!("{name}: {given}: {why}\n"));
            }
        }
    }
    Outcome { code: u8::from(!err.is_empty()), err, ..Outcome::default() }
}
