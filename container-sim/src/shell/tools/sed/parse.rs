//! The parser of `sed`.

use crate::shell::regex::Regex;
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) enum Address {
    Line(usize),
    Last,
    /// `None` is the latest expression.
    Regex(Option<Regex>),
    /// `first~step`.
    Step(usize, usize),
    /// `addr,+N`.
    Plus(usize),
}

#[derive(Debug)]
pub(super) enum Action {
    Begin(usize),
    End,
    Substitute(Box<Substitute>),
    Translate(BTreeMap<char, char>),
    Append(String),
    Insert(String),
    Change(String),
    Branch(char, String),
    Label,
    Read(String),
    Write(String),
    Quit(u8, bool),
    /// A command that is only its letter.
    Letter(char),
}

#[derive(Debug)]
pub(super) struct Substitute {
    pub(super) regex: Option<Regex>,
    pub(super) replacement: Vec<Part>,
    pub(super) global: bool,
    pub(super) print: bool,
    pub(super) number: usize,
    pub(super) write: Option<String>,
}

/// A part of a replacement.
#[derive(Debug)]
pub(super) enum Part {
    Text(String),
    Group(usize),
    /// `\U`, `\L`, `\u`, `\l` and `\E`.
    Case(char),
}

#[derive(Debug)]
pub(super) struct Command {
    pub(super) addresses: [Option<Address>; 2],
    pub(super) negated: bool,
    pub(super) action: Action,
}

#[derive(Debug)]
pub(super) struct Program {
    pub(super) commands: Vec<Command>,
    pub(super) labels: BTreeMap<String, usize>,
}

struct Reader<'a> {
    rest: &'a str,
    extended: bool,
}

/// Nested `{`.
const BLOCKS: usize = 32;

impl Program {
    pub(super) fn parse(text: &str, extended: bool) -> Result<Self, String> {
        let mut reader = Reader { rest: text, extended };
        let (mut commands, mut labels, mut open) = (Vec::new(), BTreeMap::new(), Vec::new());
        loop {
            reader.rest = reader.rest.trim_start_matches([' ', '\t', '\n', ';']);
            if reader.rest.is_empty() {
                break;
            }
            if let Some(comment) = reader.rest.strip_prefix('#') {
                reader.rest = comment.find('\n').map_or("", |at| &comment[at..]);
                continue;
            }
            let command = reader.command(&mut labels, commands.len())?;
            match command.action {
                Action::Begin(_) if open.len() >= BLOCKS => return Err("nested too deeply".to_owned()),
                Action::Begin(_) => open.push(commands.len()),
                Action::End => {
                    let begin: usize = open.pop().ok_or("unexpected }")?;
                    let end = commands.len();
                    let place: &mut Command = &mut commands[begin];
                    place.action = Action::Begin(end);
                }
                _ => {}
            }
            commands.push(command);
        }
        if !open.is_empty() {
            return Err("unterminated {".to_owned());
        }
        for command in &commands {
            if let Action::Branch(_, label) = &command.action
                && !label.is_empty()
                && !labels.contains_key(label)
            {
                return Err(format!("can't find label for jump to '{label}'"));
            }
        }
        Ok(Self { commands, labels })
    }
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn number(&mut self) -> Option<usize> {
        let length = self.rest.len() - self.rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (digits, rest) = self.rest.split_at(length);
        let number = digits.parse().ok()?;
        self.rest = rest;
        Some(number)
    }

    /// The text up to the delimiter. Before a delimiter in it is a backslash, which is dropped.
    fn delimited(&mut self, delimiter: char, is_regex: bool) -> Result<String, String> {
        let mut text = String::new();
        let mut in_set = false;
        loop {
            match self.next() {
                None => return Err("unterminated expression".to_owned()),
                Some(c) if c == delimiter && !in_set => return Ok(text),
                Some('\\') => match self.next() {
                    Some('n') if is_regex => text.push_str(if in_set { "\n" } else { "\\n" }),
                    Some(c) if c == delimiter => text.push(c),
                    Some(c) => text.extend(['\\', c]),
                    None => return Err("unterminated expression".to_owned()),
                },
                Some('[') if is_regex && !in_set => {
                    in_set = true;
                    text.push('[');
                    if self.rest.starts_with('^') {
                        text.extend(self.next());
                    }
                    if self.rest.starts_with(']') {
                        text.extend(self.next());
                    }
                }
                Some(c) => {
                    in_set &= c != ']';
                    text.push(c);
                }
            }
        }
    }

    fn regex(&self, text: &str, ignores: bool) -> Result<Option<Regex>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        if self.extended { Regex::extended(text, ignores) } else { Regex::basic(text, ignores) }.map(Some)
    }

    fn address(&mut self, second: bool) -> Result<Option<Address>, String> {
        if second && self.rest.starts_with('+') {
            self.rest = &self.rest[1..];
            return Ok(Some(Address::Plus(self.number().ok_or("bad address")?)));
        }
        if let Some(line) = self.number() {
            if self.rest.starts_with('~') {
                self.rest = &self.rest[1..];
                return Ok(Some(Address::Step(line, self.number().unwrap_or(0))));
            }
            return Ok(Some(Address::Line(line)));
        }
        match self.rest.chars().next() {
            Some('$') => {
                self.rest = &self.rest[1..];
                Ok(Some(Address::Last))
            }
            Some(c @ ('/' | '\\')) => {
                self.next();
                let delimiter = if c == '\\' { self.next().ok_or("bad address")? } else { c };
                let text = self.delimited(delimiter, true)?;
                let ignores = self.rest.starts_with('I');
                self.rest = &self.rest[usize::from(ignores)..];
                Ok(Some(Address::Regex(self.regex(&text, ignores)?)))
            }
            _ => Ok(None),
        }
    }

    fn command(&mut self, labels: &mut BTreeMap<String, usize>, at: usize) -> Result<Command, String> {
        let mut addresses = [self.address(false)?, None];
        self.blanks();
        if addresses[0].is_some() && self.rest.starts_with(',') {
            self.rest = &self.rest[1..];
            self.blanks();
            addresses[1] = Some(self.address(true)?.ok_or("unexpected ,")?);
        }
        self.blanks();
        let mut negated = false;
        while self.rest.starts_with('!') {
            negated = true;
            self.rest = &self.rest[1..];
            self.blanks();
        }
        let letter = self.next().ok_or("missing command")?;
        let action = match letter {
            '{' => Action::Begin(0),
            '}' => Action::End,
            's' => Action::Substitute(Box::new(self.substitute()?)),
            'y' => self.translate()?,
            'a' | 'i' | 'c' => {
                let text = self.text();
                match letter {
                    'a' => Action::Append(text),
                    'i' => Action::Insert(text),
                    _ => Action::Change(text),
                }
            }
            ':' => {
                let label = self.word(&['\n', ';']);
                labels.insert(label, at);
                Action::Label
            }
            'b' | 't' | 'T' => Action::Branch(letter, self.word(&['\n', ';', '}'])),
            'r' => Action::Read(self.word(&['\n'])),
            'w' => Action::Write(self.word(&['\n'])),
            'q' | 'Q' => {
                self.blanks();
                let code = self.number().unwrap_or(0);
                Action::Quit(code.to_le_bytes()[0], letter == 'q')
            }
            'd' | 'D' | 'p' | 'P' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' | '=' | 'l' | 'z' => {
                Action::Letter(letter)
            }
            letter => return Err(format!("unsupported command {letter}")),
        };
        self.blanks();
        let ends = self.rest.is_empty() || self.rest.starts_with(['\n', ';', '}', '#']);
        if !ends && !matches!(letter, '{' | '}' | 'a' | 'i' | 'c') {
            return Err("extra characters after command".to_owned());
        }
        Ok(Command { addresses, negated, action })
    }

    fn word(&mut self, ends: &[char]) -> String {
        self.blanks();
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.trim_end().to_owned()
    }

    /// The text of `a`, `i` and `c`: up to a newline without a backslash.
    fn text(&mut self) -> String {
        self.blanks();
        if let Some(rest) = self.rest.strip_prefix('\\') {
            self.rest = rest.trim_start_matches([' ', '\t']);
            self.rest = self.rest.strip_prefix('\n').unwrap_or(self.rest);
        }
        let mut text = String::new();
        while let Some(c) = self.next() {
            match c {
                '\n' => break,
                '\\' => text.extend(self.next()),
                c => text.push(c),
            }
        }
        text.push('\n');
        text
    }

    fn substitute(&mut self) -> Result<Substitute, String> {
        let delimiter = self.next().ok_or("unterminated s")?;
        let pattern = self.delimited(delimiter, true)?;
        let replacement = parts(&self.delimited(delimiter, false)?);
        let (mut global, mut print, mut ignores, mut number, mut write) = (false, false, false, 0, None);
        let mut multiline = false;
        loop {
            if let Some(given) = self.number() {
                number = given;
                continue;
            }
            match self.rest.chars().next() {
                Some('g') => global = true,
                Some('p') => print = true,
                Some('i' | 'I') => ignores = true,
                Some('m' | 'M') => multiline = true,
                Some('w') => {
                    self.next();
                    write = Some(self.word(&['\n']));
                    break;
                }
                _ => break,
            }
            self.next();
        }
        let regex = self.regex(&pattern, ignores)?;
        let regex = if multiline { regex.map(Regex::multiline) } else { regex };
        Ok(Substitute { regex, replacement, global, print, number, write })
    }

    fn translate(&mut self) -> Result<Action, String> {
        let delimiter = self.next().ok_or("unterminated y")?;
        let unescaped = |text: String| -> Vec<char> {
            let mut all = Vec::new();
            let mut chars = text.chars();
            while let Some(c) = chars.next() {
                all.push(match c {
                    '\\' => match chars.next() {
                        Some('n') => '\n',
                        Some(c) => c,
                        None => '\\',
                    },
                    c => c,
                });
            }
            all
        };
        let from = unescaped(self.delimited(delimiter, false)?);
        let to = unescaped(self.delimited(delimiter, false)?);
        if from.len() != to.len() {
            return Err("y command strings have different lengths".to_owned());
        }
        Ok(Action::Translate(from.into_iter().zip(to).collect()))
    }
}

fn parts(text: &str) -> Vec<Part> {
    let (mut parts, mut plain, mut chars) = (Vec::new(), String::new(), text.chars());
    let flush = |plain: &mut String, parts: &mut Vec<Part>| {
        if !plain.is_empty() {
            parts.push(Part::Text(std::mem::take(plain)));
        }
    };
    while let Some(c) = chars.next() {
        match c {
            '&' => {
                flush(&mut plain, &mut parts);
                parts.push(Part::Group(0));
            }
            '\\' => match chars.next() {
                Some(c @ '0'..='9') => {
                    flush(&mut plain, &mut parts);
                    parts.push(Part::Group(c.to_digit(10).map_or(0, |digit| digit as usize)));
                }
                Some(c @ ('U' | 'L' | 'u' | 'l' | 'E')) => {
                    flush(&mut plain, &mut parts);
                    parts.push(Part::Case(c));
                }
                Some('n') => plain.push('\n'),
                Some('t') => plain.push('\t'),
                Some(c) => plain.push(c),
                None => plain.push('\\'),
            },
            c => plain.push(c),
        }
    }
    flush(&mut plain, &mut parts);
    parts
}
