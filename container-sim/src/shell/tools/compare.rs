//! `cmp` and `diff`: what differs between files and folders.

use super::difference::{Change, Lines, changes};
use super::{Outcome, Parsed, Tool, ToolCall, whole};
use crate::shell::disk::Content;
use crate::shell::files::absolute;
use crate::shell::memory::Buffer;
use std::collections::BTreeSet;
use std::sync::Arc;

pub(super) const TOOLS: &[Tool] = &[
    whole("cmp", |arguments| names_input(arguments, CMP, 2), compare_bytes),
    whole("diff", |arguments| names_input(arguments, DIFF, 3), difference),
];

const CMP: &str = "lsn:";
const DIFF: &str = "abdiNqrswuU:L:";

/// Whether a program reads its input: a file is `-`, or there are fewer than the `least` files that make it read files alone.
fn names_input(arguments: &[String], known: &str, least: usize) -> bool {
    super::parse(arguments, known, &[]).is_ok_and(|parsed| {
        parsed.operands.iter().any(|file| file == "-") || (least == 2 && parsed.operands.len() == 1)
    })
}

/// The bytes of a file; `-` is the input.
fn read(call: &ToolCall<'_>, file: &str) -> Result<Arc<[u8]>, String> {
    match file {
        "-" => Ok(call.input.into()),
        file => call.env.read(&call.env.path(file)).map_err(|why| why.to_string()),
    }
}

fn compare_bytes(call: &ToolCall<'_>) -> Outcome {
    let fail = |why: String| Outcome::fail(2, format!("cmp: {why}\n"));
    let parsed = match super::parse(call.arguments(), CMP, &[]) {
        Ok(parsed) => parsed,
        Err(why) => return Outcome::fail(1, format!("cmp: {why}\n")),
    };
    let Some(one) = parsed.operands.first() else {
        return Outcome::fail(1, "cmp: needs a file\n".to_owned());
    };
    let other = parsed.operands.get(1).map_or("-", String::as_str);
    let skip = |at: usize| parsed.operands.get(at).and_then(|text| super::od::count(text)).unwrap_or(0);
    let (left, right) = match (read(call, one), read(call, other)) {
        (Ok(left), Ok(right)) => (left, right),
        (Err(why), _) => return fail(format!("{one}: {why}")),
        (_, Err(why)) => return fail(format!("{other}: {why}")),
    };
    let most = parsed.value('n').and_then(super::od::count).unwrap_or(usize::MAX);
    let part = |bytes: &'_ [u8], skip: usize| {
        let rest = bytes.len() - skip.min(bytes.len());
        bytes[bytes.len() - rest..][..rest.min(most)].to_vec()
    };
    if !call.env.work.spend(8 * (left.len() + right.len())) {
        return Outcome::code(2);
    }
    let (left, right) = (part(&left, skip(2)), part(&right, skip(3)));
    let differing = || left.iter().zip(&right).enumerate().filter(|(_, (a, b))| a != b);
    let mut out = Buffer::new(&call.env.bounds());
    let mut outcome = Outcome { code: u8::from(left != right), ..Outcome::default() };
    match differing().next() {
        _ if parsed.has('s') => {}
        Some((at, _)) if !parsed.has('l') => {
            let line = 1 + left[..at].iter().filter(|byte| **byte == b'\n').count();
            out.push(format!("{one} {other} differ: char {}, line {line}\n", at + 1).as_bytes());
        }
        _ => {
            let width = if parsed.has('l') { left.len().max(right.len()).to_string().len() } else { 0 };
            for (at, (a, b)) in differing() {
                if !out.push(format!("{:>width$} {a:>3o} {b:>3o}\n", at + 1).as_bytes()) {
                    break;
                }
            }
            if left.len() != right.len() {
                let shorter = if left.len() < right.len() { one } else { other };
                outcome.err = format!("cmp: EOF on {shorter}\n");
            }
        }
    }
    Outcome { out: super::Output::Reserved(out), ..outcome }
}

/// A comparison with its flags, and what it has found so far.
struct Comparison<'a> {
    call: &'a ToolCall<'a>,
    parsed: Parsed,
    context: usize,
    out: Buffer,
    err: String,
    code: u8,
}

fn difference(call: &ToolCall<'_>) -> Outcome {
    let parsed = match super::parse(call.arguments(), DIFF, &[]) {
        Ok(parsed) => parsed,
        Err(why) => return Outcome::fail(2, format!("diff: {why}\n")),
    };
    let [one, other] = parsed.operands.as_slice() else {
        return Outcome::fail(1, "diff: needs two files\n".to_owned());
    };
    let (mut one, mut other) = (one.clone(), other.clone());
    let is_folder = |name: &String| name != "-" && call.env.is_folder(&call.env.path(name));
    let context = match parsed.value('U').map(str::parse::<usize>) {
        None => 3,
        Some(Ok(context)) => context,
        Some(Err(_)) => {
            return Outcome::fail(2, format!("diff: invalid number '{}'\n", parsed.value('U').unwrap_or("")));
        }
    };
    let out = Buffer::new(&call.env.bounds());
    let folders = (is_folder(&one), is_folder(&other));
    let mut comparison = Comparison { call, parsed, context, out, err: String::new(), code: 0 };
    match folders {
        (true, true) => comparison.folders(&one, &other),
        // A file is compared with that of its name in the folder.
        (is_first, is_second) => {
            let last = |name: &String| name.rsplit('/').next().unwrap_or_default().to_owned();
            if is_first {
                one = format!("{}/{}", one.trim_end_matches('/'), last(&other));
            } else if is_second {
                other = format!("{}/{}", other.trim_end_matches('/'), last(&one));
            }
            comparison.files(Some(&one), Some(&other));
        }
    }
    let Comparison { out, err, code, .. } = comparison;
    Outcome { out: super::Output::Reserved(out), err, code, ..Outcome::default() }
}

impl Comparison<'_> {
    fn print(&mut self, text: &str) -> bool {
        self.out.push(text.as_bytes())
    }

    /// The paths below a folder, seen from it; with `-r` also those in its folders.
    fn below(&self, folder: &str) -> BTreeSet<String> {
        let env = self.call.env;
        let root = env.resolved(&env.path(folder));
        let mut all = env.children(&root);
        let mut open: Vec<String> = all.iter().filter(|_| self.parsed.has('r')).cloned().collect();
        while let Some(name) = open.pop().filter(|_| env.runs()) {
            let path = absolute(&root, &name);
            if env.entry(&path).is_some_and(|entry| entry.content == Content::Folder) {
                let inside = env.children(&path).into_iter().map(|child| format!("{name}/{child}"));
                let inside: Vec<String> = inside.collect();
                all.extend(inside.iter().cloned());
                open.extend(inside);
            }
        }
        all
    }

    /// Compares the entries of two folders by name.
    fn folders(&mut self, one: &str, other: &str) {
        let env = self.call.env;
        let (first, second) = (self.below(one), self.below(other));
        for name in first.union(&second).take_while(|_| env.runs()) {
            let paths = [one, other].map(|folder| format!("{}/{name}", folder.trim_end_matches('/')));
            let [left, right] = &paths;
            let folders = [left, right].map(|path| env.is_folder(&env.path(path)));
            match (first.contains(name), second.contains(name)) {
                (true, true) => match folders {
                    [true, true] if self.parsed.has('r') => {}
                    [true, true] => {
                        self.print(&format!("Common subdirectories: {left} and {right}\n"));
                    }
                    [false, false] => self.files(Some(left), Some(right)),
                    [is_folder, _] => {
                        let kind = |is: bool| if is { "directory" } else { "regular file" };
                        let (kind, other) = (kind(is_folder), kind(!is_folder));
                        self.code = self.code.max(1);
                        self.print(&format!("File {left} is a {kind} while file {right} is a {other}\n"));
                    }
                },
                (true, false) if self.parsed.has('N') && !folders[0] => self.files(Some(left), None),
                (false, true) if self.parsed.has('N') && !folders[1] => self.files(None, Some(right)),
                // A folder shows in its entries.
                _ if self.parsed.has('N') => {}
                (is_first, _) => {
                    self.code = self.code.max(1);
                    self.print(&format!("Only in {}: {name}\n", if is_first { one } else { other }));
                }
            }
        }
    }

    /// Compares two files; `None` is one that is missing and counts as empty.
    fn files(&mut self, one: Option<&str>, other: Option<&str>) {
        let mut all = Vec::new();
        for file in [one, other] {
            let bytes = file.map_or(Ok(Arc::default()), |file| match self.entry(file) {
                None if self.parsed.has('N') => Ok(Arc::default()),
                None => Err("No such file or directory".to_owned()),
                Some(_) => read(self.call, file),
            });
            match bytes {
                Ok(bytes) => all.push(bytes),
                Err(why) => {
                    self.err.push_str(&format!("diff: can't stat '{}': {why}\n", file.unwrap_or_default()));
                    self.code = 2;
                    return;
                }
            }
        }
        let names = (one.unwrap_or("/dev/null"), other.unwrap_or("/dev/null"));
        self.contents(names, &all[0], &all[1]);
    }

    fn entry(&self, file: &str) -> Option<Content> {
        let env = self.call.env;
        match file {
            "-" => Some(Content::Folder),
            file => env.entry(&env.resolved(&env.path(file))).map(|entry| entry.content),
        }
    }

    fn contents(&mut self, (one, other): (&str, &str), left: &[u8], right: &[u8]) {
        if one == other || !self.call.env.work.spend(8 * (left.len() + right.len())) {
            return;
        }
        let has = |flag| self.parsed.has(flag);
        let bounds = self.call.env.bounds();
        let Some((left_lines, right_lines)) =
            Lines::of(left, &bounds, &has).and_then(|left| Some((left, Lines::of(right, &bounds, &has)?)))
        else {
            return;
        };
        let changes = changes(&left_lines, &right_lines, &bounds);
        if changes.is_empty() {
            if self.parsed.has('s') {
                self.print(&format!("Files {one} and {other} are identical\n"));
            }
            return;
        }
        self.code = self.code.max(1);
        let is_binary = !self.parsed.has('a') && [left, right].iter().any(|bytes| bytes.contains(&0));
        if self.parsed.has('q') || is_binary {
            self.print(&format!("Files {one} and {other} differ\n"));
            return;
        }
        let mut labels = self.parsed.flags.iter().filter(|(flag, _)| *flag == 'L').map(|(_, label)| label);
        let heads = [labels.next(), labels.next()].map(|label| label.map(String::as_str));
        let head = format!("--- {}\n+++ {}\n", heads[0].unwrap_or(one), heads[1].unwrap_or(other));
        if self.print(&head) {
            self.hunks(&changes, &left_lines, &right_lines);
        }
    }

    /// Prints changes with the lines around them. Changes whose surroundings touch are one hunk.
    fn hunks(&mut self, changes: &[Change], left: &Lines<'_>, right: &Lines<'_>) {
        let reach = self.context.saturating_mul(2);
        for hunk in changes.chunk_by(|one, next| next.left.0 - one.left.1 <= reach) {
            let (first, last) = (&hunk[0], &hunk[hunk.len() - 1]);
            let before = self.context.min(first.left.0);
            let after = self.context.min(left.all.len() - last.left.1);
            let range = |from: usize, to: usize| match to - from {
                1 => format!("{}", from + 1),
                0 => format!("{from},0"),
                count => format!("{},{count}", from + 1),
            };
            let head = format!(
                "@@ -{} +{} @@\n",
                range(first.left.0 - before, last.left.1 + after),
                range(first.right.0 - before, last.right.1 + after)
            );
            if !self.print(&head) {
                return;
            }
            let mut at = first.left.0 - before;
            for change in hunk {
                let kept = left.all[at..change.left.0].iter().map(|line| (b' ', *line));
                let removed = left.all[change.left.0..change.left.1].iter().map(|line| (b'-', *line));
                let added = right.all[change.right.0..change.right.1].iter().map(|line| (b'+', *line));
                if !kept.chain(removed).chain(added).all(|line| self.line(line)) {
                    return;
                }
                at = change.left.1;
            }
            if !left.all[at..at + after].iter().all(|line| self.line((b' ', line))) {
                return;
            }
        }
    }

    fn line(&mut self, (sign, line): (u8, &[u8])) -> bool {
        let end: &[u8] = if line.ends_with(b"\n") { b"" } else { b"\n\\ No newline at end of file\n" };
        self.out.push(&[sign]) && self.out.push(line) && self.out.push(end)
    }
}
