//! `grep` with its relatives `egrep` and `fgrep`, line by line.

use super::{Filter, Outcome, Parsed, Runner, Tool, ToolCall};
use crate::shell::disk::Content;
use crate::shell::env::Env;
use crate::shell::memory::Buffer;
use crate::shell::regex::Regex;

const fn tool(name: &'static str) -> Tool {
    Tool { name, reads, run: Runner::Stream(grep), check }
}

pub(super) const TOOLS: &[Tool] = &[tool("grep"), tool("egrep"), tool("fgrep")];

const LONG: [(&str, char); 13] = [
    ("quiet", 'q'),
    ("silent", 'q'),
    ("invert-match", 'v'),
    ("ignore-case", 'i'),
    ("count", 'c'),
    ("line-number", 'n'),
    ("extended-regexp", 'E'),
    ("fixed-strings", 'F'),
    ("only-matching", 'o'),
    ("word-regexp", 'w'),
    ("line-regexp", 'x'),
    ("recursive", 'r'),
    ("max-count", 'm'),
];

fn parsed(arguments: &[String]) -> Result<Parsed, String> {
    super::parse(arguments, "HhnlLoqvsriwxFEcRam:A:B:C:e:f:", &LONG)
}

/// The files that it searches; the first operand is the pattern unless `-e` or `-f` gives one.
fn files(parsed: &Parsed) -> &[String] {
    let given = parsed.has('e') || parsed.has('f');
    &parsed.operands[usize::from(!given && !parsed.operands.is_empty())..]
}

fn reads(arguments: &[String]) -> bool {
    parsed(arguments).is_ok_and(|parsed| {
        let files = files(&parsed);
        (files.is_empty() && !parsed.has('r')) || files.iter().any(|file| file == "-")
    })
}

fn check(arguments: &[String]) -> Result<(), String> {
    let parsed = parsed(arguments)?;
    let pattern = parsed.value('e').or(parsed.operands.first().map(String::as_str));
    match pattern.filter(|pattern| *pattern != "$" && !parsed.has('F')) {
        Some(pattern) if parsed.has('E') => Regex::extended(pattern, false).map(drop),
        Some(pattern) => Regex::basic(pattern, false).map(drop),
        None => Ok(()),
    }
}

/// How lines are chosen.
#[derive(Debug)]
enum Matcher {
    Fixed(Vec<String>, bool),
    Regex(Vec<Regex>),
}

#[derive(Debug)]
struct Grep {
    matcher: Matcher,
    parsed: Parsed,
    /// The incomplete last line.
    rest: Buffer,
    /// Lines of the current file, and those that were chosen.
    line: usize,
    found: usize,
    total: usize,
    names: bool,
    failed: bool,
    before: usize,
    after: usize,
    most: usize,
    /// Lines before a match, and how many lines behind it are still shown.
    held: std::collections::VecDeque<(usize, Vec<u8>)>,
    trailing: usize,
    shown: usize,
}

fn grep(call: &ToolCall<'_>) -> Result<Box<dyn Filter>, Outcome> {
    let fail = |why: String| Outcome::fail(2, format!("grep: {why}\n"));
    let mut parsed = parsed(call.arguments()).map_err(fail)?;
    let kind = match call.argv[0].rsplit('/').next() {
        Some("egrep") => 'E',
        Some("fgrep") => 'F',
        _ if parsed.has('F') => 'F',
        _ if parsed.has('E') => 'E',
        _ => 'G',
    };
    let mut patterns = Vec::new();
    for (flag, value) in &parsed.flags {
        match flag {
            'e' => patterns.extend(value.split('\n').map(str::to_owned)),
            'f' => {
                let bytes =
                    call.env.read(&call.env.path(value)).map_err(|why| fail(format!("{value}: {why}")))?;
                patterns.extend(String::from_utf8_lossy(&bytes).lines().map(str::to_owned));
            }
            _ => {}
        }
    }
    if !parsed.has('e') && !parsed.has('f') {
        let pattern = parsed.operands.first().ok_or_else(|| fail("no pattern".to_owned()))?;
        patterns.extend(pattern.split('\n').map(str::to_owned));
    }
    let ignores = parsed.has('i');
    let matcher = match kind {
        'F' => Matcher::Fixed(
            patterns.iter().map(|text| if ignores { text.to_lowercase() } else { text.clone() }).collect(),
            ignores,
        ),
        kind => {
            let compiled = patterns.iter().map(|text| match kind {
                'E' => Regex::extended(text, ignores),
                _ => Regex::basic(text, ignores),
            });
            Matcher::Regex(compiled.collect::<Result<_, _>>().map_err(fail)?)
        }
    };
    let number = |flag: char| {
        parsed
            .value(flag)
            .map(|text| text.parse::<usize>().map_err(|_| fail(format!("invalid number '{text}'"))))
            .transpose()
    };
    let context = number('C')?.unwrap_or(0);
    let (before, after) = (number('B')?.unwrap_or(context), number('A')?.unwrap_or(context));
    let most = number('m')?.unwrap_or(usize::MAX);
    let files: Vec<String> = files(&parsed).to_vec();
    let names =
        !parsed.has('h') && (parsed.has('H') || files.len() > 1 || parsed.has('r') || parsed.has('R'));
    parsed.operands = files;
    Ok(Box::new(Grep {
        matcher,
        parsed,
        rest: Buffer::new(&call.env.bounds()),
        line: 0,
        found: 0,
        total: 0,
        names,
        failed: false,
        before,
        after,
        most,
        held: std::collections::VecDeque::new(),
        trailing: 0,
        shown: 0,
    }))
}

impl Grep {
    /// Where the first match at or behind `from` is.
    fn place(&self, env: &Env, line: &[u8], from: usize) -> Option<(usize, usize)> {
        let is_word =
            |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        let mut from = from;
        loop {
            let found = match &self.matcher {
                Matcher::Fixed(texts, ignores) => {
                    let text = String::from_utf8_lossy(line);
                    let text = if *ignores { text.to_lowercase() } else { text.into_owned() };
                    env.work.spend(texts.len() * text.len().max(1));
                    let places = texts.iter().filter_map(|part| {
                        text.get(from..)?.find(part.as_str()).map(|at| (from + at, from + at + part.len()))
                    });
                    places.min_by_key(|(start, end)| (*start, usize::MAX - end))
                }
                Matcher::Regex(all) => {
                    let places = all.iter().filter_map(|regex| regex.find(line, from, true, &env.work)?[0]);
                    places.min_by_key(|(start, end)| (*start, usize::MAX - end))
                }
            }?;
            let (start, end) = found;
            let whole = !self.parsed.has('x') || (start == 0 && end == line.len());
            let word = !self.parsed.has('w')
                || (!is_word(start.checked_sub(1).and_then(|at| line.get(at))) && !is_word(line.get(end)));
            if whole && word {
                return Some(found);
            }
            from = start + 1;
            if from > line.len() || !env.runs() {
                return None;
            }
        }
    }

    fn print(&mut self, name: &str, number: usize, mark: char, text: &[u8], out: &mut Buffer) -> bool {
        if self.shown > 0 && number > self.shown + 1 && self.before + self.after > 0 && !out.push(b"--\n") {
            return false;
        }
        self.shown = number;
        let file = if self.names { format!("{name}{mark}") } else { String::new() };
        let line = if self.parsed.has('n') { format!("{number}{mark}") } else { String::new() };
        out.push(file.as_bytes()) && out.push(line.as_bytes()) && out.push(text) && out.push(b"\n")
    }

    /// Looks at one line. Returns false if no more are wanted.
    fn line(&mut self, env: &Env, name: &str, line: &[u8], out: &mut Buffer) -> bool {
        self.line += 1;
        let place = self.place(env, line, 0);
        let chosen = place.is_some() != self.parsed.has('v');
        let silent = ['q', 'c', 'l', 'L'].into_iter().any(|flag| self.parsed.has(flag));
        if !chosen {
            if self.trailing > 0 && !silent {
                self.trailing -= 1;
                return self.print(name, self.line, '-', line, out);
            }
            if self.before > 0 && !silent {
                self.held.push_back((self.line, line.to_vec()));
                if self.held.len() > self.before {
                    self.held.pop_front();
                }
            }
            return env.runs();
        }
        self.found += 1;
        self.total += 1;
        if self.parsed.has('q') || self.parsed.has('l') {
            return false;
        }
        if !silent {
            for (number, text) in std::mem::take(&mut self.held) {
                if !self.print(name, number, '-', &text, out) {
                    return false;
                }
            }
            self.trailing = self.after;
            let printed = match self.parsed.has('o') {
                true => self.matches(env, name, line, out),
                false => self.print(name, self.line, ':', line, out),
            };
            if !printed {
                return false;
            }
        }
        self.found < self.most
    }

    /// `-o`: each match on a line of its own.
    fn matches(&mut self, env: &Env, name: &str, line: &[u8], out: &mut Buffer) -> bool {
        let mut from = 0;
        while let Some((start, end)) = self.place(env, line, from) {
            if end > start && !self.print(name, self.line, ':', &line[start..end], out) {
                return false;
            }
            from = if end > start { end } else { end + 1 };
            if from > line.len() {
                break;
            }
        }
        true
    }

    fn text(&mut self, env: &Env, name: &str, bytes: &[u8], out: &mut Buffer) {
        (self.line, self.found, self.shown, self.trailing) = (0, 0, 0, 0);
        self.held.clear();
        for line in super::lines(bytes) {
            if !self.line(env, name, line, out) {
                break;
            }
        }
        self.file_end(name, out);
    }

    fn file_end(&mut self, name: &str, out: &mut Buffer) {
        let prefix = if self.names { format!("{name}:") } else { String::new() };
        if self.parsed.has('q') {
        } else if self.parsed.has('c') {
            out.push(format!("{prefix}{}\n", self.found).as_bytes());
        } else if (self.parsed.has('l') && self.found > 0) || (self.parsed.has('L') && self.found == 0) {
            out.push(format!("{name}\n").as_bytes());
        }
    }

    fn file(&mut self, env: &Env, file: &str, out: &mut Buffer, err: &mut String) {
        match env.read(&env.path(file)) {
            Ok(bytes) => self.text(env, file, &bytes, out),
            Err(why) => {
                self.failed = true;
                if !self.parsed.has('s') {
                    err.push_str(&format!("grep: {file}: {why}\n"));
                }
            }
        }
    }
}

impl Filter for Grep {
    fn feed(&mut self, env: &Env, bytes: &[u8]) -> (Outcome, bool) {
        let mut out = Buffer::new(&env.bounds());
        let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else {
            self.rest.push(bytes);
            return (Outcome::default(), false);
        };
        self.rest.push(&bytes[..=end]);
        let whole = std::mem::replace(&mut self.rest, Buffer::new(&env.bounds()));
        self.rest.push(&bytes[end + 1..]);
        for line in super::lines(whole.as_ref()) {
            if !self.line(env, "(standard input)", line, &mut out) {
                self.file_end("(standard input)", &mut out);
                let code = u8::from(self.total == 0);
                return (Outcome { code, ..Outcome::reserved(out) }, true);
            }
        }
        (Outcome::reserved(out), false)
    }

    fn end(&mut self, env: &Env) -> Outcome {
        let (mut out, mut err) = (Buffer::new(&env.bounds()), String::new());
        let recursive = self.parsed.has('r') || self.parsed.has('R');
        let files = std::mem::take(&mut self.parsed.operands);
        if files.is_empty() && !recursive || files.iter().any(|file| file == "-") {
            let rest = std::mem::replace(&mut self.rest, Buffer::new(&env.bounds()));
            if !rest.is_empty() {
                self.line(env, "(standard input)", rest.as_ref(), &mut out);
            }
            self.file_end("(standard input)", &mut out);
        }
        let here = [".".to_owned()];
        let files = if files.is_empty() && recursive { &here[..] } else { &files[..] };
        for file in files.iter().filter(|file| *file != "-") {
            let path = env.path(file);
            if recursive && env.is_folder(&path) {
                let root = env.resolved(&path);
                for (below, entry) in env.walk(&root) {
                    if matches!(entry.content, Content::File(_)) {
                        self.file(env, &format!("{file}{}", &below[root.len()..]), &mut out, &mut err);
                    }
                }
            } else {
                self.file(env, file, &mut out, &mut err);
            }
            if (self.parsed.has('q') && self.total > 0) || !env.runs() {
                break;
            }
        }
        let code = match (self.total > 0, self.failed) {
            (true, false) => 0,
            (true, true) if self.parsed.has('q') => 0,
            (_, true) => 2,
            (false, false) => 1,
        };
        Outcome { err, code, ..Outcome::reserved(out) }
    }
}
