//! Runs `sed` programs over lines.

use super::parse::{Action, Address, Part, Program, Substitute};
use crate::shell::env::Env;
use crate::shell::memory::Buffer;
use crate::shell::regex::{Groups, Regex};
use crate::shell::tools::{ToolCall, lines};

/// A run over the lines of some files.
struct Run<'a> {
    env: &'a Env,
    program: &'a Program,
    lines: Vec<&'a [u8]>,
    /// Lines that are read.
    at: usize,
    pattern: Vec<u8>,
    hold: Vec<u8>,
    quiet: bool,
    out: Buffer,
    /// Texts that follow the line.
    after: Vec<Vec<u8>>,
    /// For each command with two addresses: the line at which its range ends, or that a search for it goes on.
    ranges: Vec<Option<usize>>,
    latest: Option<Regex>,
    substituted: bool,
    code: u8,
    /// Whether the last line has no newline.
    open_end: bool,
    err: String,
}

/// What follows a command.
enum Next {
    On,
    Jump(usize),
    /// The end of the cycle; the flag says whether the line is printed.
    End(bool),
    /// `D` with a newline in the line: again without reading.
    Again,
    Quit(bool),
}

impl Run<'_> {
    fn print(&mut self, bytes: &[u8]) -> bool {
        let is_last = self.open_end && self.at == self.lines.len();
        self.out.push(bytes) && (is_last || self.out.push(b"\n"))
    }

    fn run(&mut self) {
        let mut again = false;
        while again || self.at < self.lines.len() {
            if !again {
                self.pattern = self.lines[self.at].to_vec();
                self.at += 1;
            }
            again = false;
            self.substituted = false;
            let (mut at, mut print) = (0, true);
            let mut quits = false;
            while at < self.program.commands.len() {
                if !self.env.work.spend(200 + self.pattern.len() / 16) {
                    return;
                }
                match self.command(at) {
                    Next::On => at += 1,
                    Next::Jump(to) => at = to,
                    Next::End(prints) => {
                        print = prints;
                        break;
                    }
                    Next::Again => {
                        (print, again) = (false, true);
                        break;
                    }
                    Next::Quit(prints) => {
                        (print, quits) = (prints, true);
                        break;
                    }
                }
            }
            let pattern = std::mem::take(&mut self.pattern);
            if print && !self.quiet && !self.print(&pattern) {
                return;
            }
            self.pattern = pattern;
            for text in std::mem::take(&mut self.after) {
                if !self.out.push(&text) {
                    return;
                }
            }
            if quits {
                return;
            }
        }
    }

    fn matches(&mut self, regex: &Option<Regex>) -> bool {
        let regex = regex.as_ref().or(self.latest.as_ref()).cloned();
        let Some(regex) = regex else { return false };
        let found = regex.find(&self.pattern, 0, true, &self.env.work).is_some();
        self.latest = Some(regex);
        found
    }

    fn is_at(&mut self, address: &Address) -> bool {
        match address {
            Address::Line(line) => self.at == *line,
            Address::Last => self.at == self.lines.len(),
            Address::Regex(regex) => self.matches(regex),
            Address::Step(first, step) => {
                self.at >= *first
                    && (*step > 0 && (self.at - first).is_multiple_of(*step) || self.at == *first)
            }
            Address::Plus(_) => false,
        }
    }

    fn is_chosen(&mut self, at: usize) -> bool {
        let program = self.program;
        let command = &program.commands[at];
        let chosen = match &command.addresses {
            [None, _] => true,
            [Some(first), None] => self.is_at(first),
            [Some(first), Some(last)] => match self.ranges.get(at).copied().flatten() {
                Some(usize::MAX) => {
                    if self.is_at(last) {
                        self.ranges[at] = None;
                    }
                    true
                }
                Some(end) => {
                    if self.at >= end {
                        self.ranges[at] = None;
                    }
                    self.at <= end
                }
                None if self.is_at(first) => {
                    self.ranges[at] = match last {
                        Address::Line(line) if *line > self.at => Some(*line),
                        Address::Line(_) => None,
                        Address::Plus(0) => None,
                        Address::Plus(count) => Some(self.at + count),
                        Address::Last if self.at == self.lines.len() => None,
                        _ => Some(usize::MAX),
                    };
                    true
                }
                None => false,
            },
        };
        chosen != command.negated
    }

    fn command(&mut self, at: usize) -> Next {
        let program = self.program;
        if !self.is_chosen(at) {
            return match program.commands[at].action {
                Action::Begin(end) => Next::Jump(end + 1),
                _ => Next::On,
            };
        }
        match &program.commands[at].action {
            Action::Begin(_) | Action::End | Action::Label => {}
            Action::Substitute(how) => self.substitute(how),
            Action::Translate(table) => {
                let text = String::from_utf8_lossy(&self.pattern).into_owned();
                let text: String = text.chars().map(|c| table.get(&c).copied().unwrap_or(c)).collect();
                self.pattern = text.into_bytes();
            }
            Action::Append(text) => self.after.push(text.clone().into_bytes()),
            Action::Insert(text) => drop(self.out.push(text.as_bytes())),
            Action::Change(text) => {
                let is_inside = program.commands[at].addresses[1].is_some() && self.ranges[at].is_some();
                if !is_inside {
                    self.out.push(text.as_bytes());
                }
                return Next::End(false);
            }
            Action::Branch(kind, label) => {
                let taken = match kind {
                    'b' => true,
                    't' => std::mem::take(&mut self.substituted),
                    _ => !std::mem::take(&mut self.substituted),
                };
                if taken {
                    return program.labels.get(label).map_or(Next::End(true), |to| Next::Jump(*to));
                }
            }
            Action::Read(file) => {
                if let Ok(bytes) = self.env.read(&self.env.path(file)) {
                    self.env.work.spend(bytes.len());
                    self.after.push(bytes.to_vec());
                }
            }
            Action::Write(file) => self.write(file),
            Action::Quit(code, prints) => {
                self.code = *code;
                return Next::Quit(*prints);
            }
            Action::Letter(letter) => return self.letter(*letter),
        }
        Next::On
    }

    fn write(&mut self, file: &str) {
        let text = [self.pattern.as_slice(), b"\n"].concat();
        match file {
            "/dev/stdout" => drop(self.out.push(&text)),
            file => {
                if let Err(why) = self.env.append(&self.env.path(file), &text) {
                    self.err.push_str(&format!("sed: {file}: {why}\n"));
                    self.code = 1;
                }
            }
        }
    }

    fn letter(&mut self, letter: char) -> Next {
        let first = |bytes: &[u8]| bytes.iter().position(|byte| *byte == b'\n');
        match letter {
            'd' => return Next::End(false),
            'D' => match first(&self.pattern) {
                None => return Next::End(false),
                Some(at) => {
                    self.pattern.drain(..=at);
                    return Next::Again;
                }
            },
            'p' => {
                let pattern = self.pattern.clone();
                self.out.push(&pattern);
                self.out.push(b"\n");
            }
            'P' => {
                let end = first(&self.pattern).unwrap_or(self.pattern.len());
                let pattern = self.pattern[..end].to_vec();
                self.out.push(&pattern);
                self.out.push(b"\n");
            }
            'n' => {
                if self.at >= self.lines.len() {
                    return Next::Quit(true);
                }
                let pattern = std::mem::take(&mut self.pattern);
                if !self.quiet {
                    self.print(&pattern);
                }
                self.pattern = self.lines[self.at].to_vec();
                self.at += 1;
            }
            'N' => {
                if self.at >= self.lines.len() {
                    return Next::Quit(true);
                }
                let next = self.lines[self.at];
                self.at += 1;
                self.grow(&[b"\n", next].concat());
            }
            'g' => self.pattern = self.hold.clone(),
            'h' => self.hold = self.pattern.clone(),
            'G' => {
                let hold = self.hold.clone();
                self.grow(&[b"\n", hold.as_slice()].concat());
            }
            'H' => {
                let pattern = self.pattern.clone();
                self.hold.push(b'\n');
                self.hold.extend(pattern);
                self.held();
            }
            'x' => std::mem::swap(&mut self.pattern, &mut self.hold),
            '=' => drop(self.out.push(format!("{}\n", self.at).as_bytes())),
            'z' => self.pattern.clear(),
            _ => self.list(),
        }
        Next::On
    }

    /// `l`: prints the line with escapes.
    fn list(&mut self) {
        let text = String::from_utf8_lossy(&self.pattern).into_owned();
        let shown: String = text
            .chars()
            .map(|c| match c {
                '\\' => "\\\\".to_owned(),
                '\n' => "\\n".to_owned(),
                '\t' => "\\t".to_owned(),
                c if c.is_control() => format!("\\{:03o}", u32::from(c)),
                c => c.to_string(),
            })
            .collect();
        self.out.push(format!("{shown}$\n").as_bytes());
    }

    fn grow(&mut self, bytes: &[u8]) {
        self.pattern.extend_from_slice(bytes);
        self.held();
    }

    /// Kills the command if its spaces have grown too large.
    fn held(&mut self) {
        self.env.work.spend(self.pattern.len() + self.hold.len());
        if self.env.memory.hold(self.pattern.len() + self.hold.len()).is_none() {
            self.env.work.kill(crate::shell::Killed::Memory);
        }
    }

    fn substitute(&mut self, how: &Substitute) {
        let Some(regex) = how.regex.as_ref().or(self.latest.as_ref()).cloned() else { return };
        let (mut new, mut from, mut count, mut changed) = (Vec::new(), 0, 0, false);
        let text = std::mem::take(&mut self.pattern);
        let mut last_end = usize::MAX;
        while from <= text.len() {
            let Some(groups) = regex.find(&text, from, true, &self.env.work) else { break };
            let Some((start, end)) = groups[0] else { break };
            new.extend_from_slice(&text[from..start]);
            // An empty match right behind another one does not count.
            let counts = end > start || last_end != start;
            count += usize::from(counts);
            if counts && count >= how.number.max(1) {
                expand(&how.replacement, &groups, &text, &mut new);
                changed = true;
            } else {
                new.extend_from_slice(&text[start..end]);
            }
            last_end = end;
            from = end;
            if end == start {
                new.extend(text.get(end));
                from += 1;
            }
            let bytes = new.len() + 64;
            if (changed && !how.global)
                || !self.env.work.spend(bytes / 16)
                || self.env.memory.hold(bytes).is_none()
            {
                break;
            }
        }
        new.extend_from_slice(text.get(from..).unwrap_or_default());
        self.latest = Some(regex);
        self.pattern = new;
        self.held();
        if changed {
            self.substituted = true;
            if how.print {
                let pattern = self.pattern.clone();
                self.out.push(&pattern);
                self.out.push(b"\n");
            }
            if let Some(file) = &how.write {
                self.write(file);
            }
        }
    }
}

fn expand(parts: &[Part], groups: &Groups, text: &[u8], new: &mut Vec<u8>) {
    let (mut all, mut next) = (None, None);
    for part in parts {
        let bytes: &[u8] = match part {
            Part::Text(text) => text.as_bytes(),
            Part::Group(number) => {
                groups.get(*number).copied().flatten().map(|(from, to)| &text[from..to]).unwrap_or_default()
            }
            Part::Case('E') => {
                (all, next) = (None, None);
                continue;
            }
            Part::Case(case @ ('U' | 'L')) => {
                all = Some(*case == 'U');
                continue;
            }
            Part::Case(case) => {
                next = Some(*case == 'u');
                continue;
            }
        };
        let cased = |upper: bool, bytes: &[u8]| {
            if upper { bytes.to_ascii_uppercase() } else { bytes.to_ascii_lowercase() }
        };
        let mut changed = all.map_or_else(|| bytes.to_vec(), |upper| cased(upper, bytes));
        if let (Some(upper), Some(first)) = (next, changed.first().copied()) {
            changed[0] = cased(upper, &[first])[0];
            next = None;
        }
        new.extend(changed);
    }
}

/// Runs a program over a text. Returns its output, exit code and errors.
pub(super) fn run(call: &ToolCall<'_>, program: &Program, bytes: &[u8], quiet: bool) -> (Buffer, u8, String) {
    let out = Buffer::new(&call.env.bounds());
    let count = lines(bytes).count();
    let Some(_room) = call.env.memory.hold(count * size_of::<&[u8]>()) else {
        call.env.work.kill(crate::shell::Killed::Memory);
        return (out, 1, String::new());
    };
    let mut run = Run {
        env: call.env,
        program,
        lines: lines(bytes).collect(),
        at: 0,
        pattern: Vec::new(),
        hold: Vec::new(),
        quiet,
        out,
        after: Vec::new(),
        ranges: program.commands.iter().map(|_| None).collect(),
        latest: None,
        substituted: false,
        code: 0,
        open_end: !bytes.ends_with(b"\n"),
        err: String::new(),
    };
    run.run();
    (run.out, run.code, run.err)
}
