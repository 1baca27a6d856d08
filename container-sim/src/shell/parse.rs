//! Parser of the shell language: words with quotes, variables, `$(…)` and `$((…))`; `;`, `&&`, `||`, `|`, `!`, newlines and
//! redirections; `while`, `until`, `for`, `if` and `{ …; }`. All other syntax is an error that names it.

use super::compound::{Compound, reserved};
use crate::limits::{NESTED_COMMANDS, WORD_COST};
use std::sync::Arc;

/// How a command is connected to the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connector {
    /// `;`: the command always runs.
    Then,
    /// `&&`: runs if the previous command succeeded.
    And,
    /// `||`: runs if the previous command failed.
    Or,
    /// `|`: runs with the output of the previous command as input.
    Pipe,
}

/// The target of a redirection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// The destination of another channel.
    Channel(u32),
    /// A file, which is read for channel 0 and replaced otherwise.
    File(Word),
    /// A file to which output is appended.
    Append(Word),
}

/// A redirection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Redirect {
    /// The redirected channel: 0, 1 or 2.
    pub(super) from: u32,
    pub(super) to: To,
}

/// Commands in the order in which they run.
pub(super) type List = Vec<(Connector, Arc<Command>)>;

/// One command with its redirections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<Redirect>,
    /// Whether `!` precedes the command.
    pub(super) negated: bool,
    /// The loop or condition that the command is; it then has no words and no redirections.
    pub(super) compound: Option<Compound>,
}

impl Command {
    fn is_empty(&self) -> bool {
        self.words.is_empty() && self.redirects.is_empty() && self.compound.is_none() && !self.negated
    }
}

/// A word that is not expanded yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Word(Vec<WordPart>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum WordPart {
    Text(String),
    Quoted(String),
    /// The flag says whether it is in double quotes, where blanks do not split its value.
    Expanded(Expansion, bool),
}

/// A part of a word that is replaced when its command runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expansion {
    /// `$NAME`.
    Variable(String),
    /// `$(commands)`: what the commands print.
    Output(List),
    /// `$((expression))`, whose variables are not expanded yet.
    Arithmetic(String),
}

impl Word {
    /// The expanded word, and the words that result if its unquoted values are split at blanks. `reserve` is called with the
    /// number of bytes before they are added; the rest is left out once it returns false.
    pub(super) fn expand(
        &self,
        mut value: impl FnMut(&Expansion) -> String,
        mut reserve: impl FnMut(usize) -> bool,
    ) -> (String, Vec<String>) {
        let (mut whole, mut fields, mut field) = (String::new(), Vec::new(), None::<String>);
        for part in &self.0 {
            let expanded = match part {
                WordPart::Text(_) | WordPart::Quoted(_) => None,
                WordPart::Expanded(expansion, _) => Some(value(expansion)),
            };
            let splits = matches!(part, WordPart::Expanded(_, false));
            let text = match (part, &expanded) {
                (WordPart::Text(text) | WordPart::Quoted(text), _) => text,
                (WordPart::Expanded(..), value) => value.as_ref().expect("it was just expanded"),
            };
            let pieces = || text.split([' ', '\t', '\n']);
            let count = if splits { pieces().count() } else { 1 };
            // The text is in the word and in its fields.
            if !reserve(2 * text.len() + count * WORD_COST) {
                break;
            }
            whole.push_str(text);
            if !splits {
                field.get_or_insert_default().push_str(text);
                continue;
            }
            let mut pieces = pieces();
            // The first piece continues the field; each further one begins a new field.
            if let Some(piece) = pieces.next().filter(|piece| !piece.is_empty()) {
                field.get_or_insert_default().push_str(piece);
            }
            for piece in pieces {
                fields.extend(field.take());
                field = (!piece.is_empty()).then(|| piece.to_owned());
            }
        }
        fields.extend(field);
        (whole, fields)
    }

    /// The text of the word; `None` if a part of it is expanded.
    pub(super) fn literal(&self) -> Option<String> {
        let text = |part: &WordPart| match part {
            WordPart::Text(text) | WordPart::Quoted(text) => Some(text.clone()),
            WordPart::Expanded(..) => None,
        };
        self.0.iter().map(text).collect()
    }

    /// Whether the word begins as an assignment, whose value is not split.
    pub(super) fn assigns(&self) -> bool {
        matches!(self.0.first(), Some(WordPart::Text(text)) if is_assignment(text))
    }

    /// The lists of commands whose output is a part of the word.
    pub(super) fn substitutions(&self) -> impl Iterator<Item = &List> {
        self.0.iter().filter_map(|part| match part {
            WordPart::Expanded(Expansion::Output(list), _) => Some(list),
            WordPart::Text(_) | WordPart::Quoted(_) | WordPart::Expanded(..) => None,
        })
    }

    /// The first part that a real shell would expand as a file name pattern.
    pub(super) fn pattern(&self) -> Option<&str> {
        self.0.iter().find_map(|part| match part {
            WordPart::Text(text) if text.contains('*') => Some(text.as_str()),
            WordPart::Text(_) | WordPart::Quoted(_) | WordPart::Expanded(..) => None,
        })
    }

    /// The text of a word without quotes and expansions.
    pub(super) fn plain(&self) -> Option<&str> {
        match self.0.as_slice() {
            [WordPart::Text(text)] => Some(text),
            _ => None,
        }
    }
}

/// Whether the word is an assignment `NAME=value`.
pub(super) fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

/// Parses a script.
///
/// # Errors
/// The syntax error, as a shell prints it.
pub(super) fn parse(text: &str) -> Result<List, String> {
    parse_at(text, 0)
}

fn parse_at(text: &str, depth: usize) -> Result<List, String> {
    let (commands, command) = (Vec::new(), Command::default());
    let mut reader = Reader { rest: text, commands, command, next: Connector::Then, redirect: None, depth };
    Ok(reader.list(&[])?.0)
}

pub(super) struct Reader<'a> {
    rest: &'a str,
    commands: List,
    command: Command,
    /// How the current command is connected to the previous one.
    next: Connector,
    /// The next word is the file of this redirection.
    redirect: Option<(u32, bool)>,
    /// How many loops, conditions and substitutions enclose the current command.
    depth: usize,
}

/// Separators and redirections. A longer one precedes its own prefix.
const OPERATORS: [(&str, Operator); 22] = [
    ("2>&1", Operator::Channel(2, 1)),
    ("1>&2", Operator::Channel(1, 2)),
    (">&2", Operator::Channel(1, 2)),
    (">&1", Operator::Channel(1, 1)),
    ("2>>", Operator::File(2, true)),
    ("1>>", Operator::File(1, true)),
    (">>", Operator::File(1, true)),
    ("2>", Operator::File(2, false)),
    ("1>", Operator::File(1, false)),
    (">&", Operator::Unknown),
    (">", Operator::File(1, false)),
    ("<<", Operator::Unknown),
    ("<&", Operator::Unknown),
    ("0<", Operator::File(0, false)),
    ("<", Operator::File(0, false)),
    ("&&", Operator::Next(Connector::And)),
    ("&", Operator::Unknown),
    ("||", Operator::Next(Connector::Or)),
    ("|&", Operator::Unknown),
    ("|", Operator::Next(Connector::Pipe)),
    (";", Operator::Next(Connector::Then)),
    ("\n", Operator::Next(Connector::Then)),
];

#[derive(Clone, Copy)]
enum Operator {
    Next(Connector),
    Channel(u32, u32),
    /// The flag says whether output is appended to the file.
    File(u32, bool),
    Unknown,
}

impl Reader<'_> {
    /// Reads commands up to one of the reserved words `ends`, or to the end of the text if there are none. Returns the word.
    pub(super) fn list(&mut self, ends: &[&str]) -> Result<(List, String), String> {
        if self.depth > NESTED_COMMANDS {
            return Err("too many nested commands".to_owned());
        }
        self.depth += 1;
        let outer = std::mem::take(&mut self.commands);
        let (command, next) = (std::mem::take(&mut self.command), self.next);
        self.next = Connector::Then;
        let end = loop {
            if self.skip_blanks() {
                match ends {
                    [] => break String::new(),
                    _ => return Err("unexpected end of file".to_owned()),
                }
            }
            if let Some(end) = self.token(ends)? {
                break end;
            }
        };
        if self.next != Connector::Then && self.command.is_empty() {
            let end = if end.is_empty() { "end of file" } else { &end };
            return Err(format!("unexpected {end}"));
        }
        self.finish(Connector::Then)?;
        let list = std::mem::replace(&mut self.commands, outer);
        (self.command, self.next) = (command, next);
        self.depth -= 1;
        Ok((list, end))
    }

    /// Skips blanks and a comment. Returns whether nothing is left.
    fn skip_blanks(&mut self) -> bool {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\r']);
        if self.rest.starts_with('#') {
            self.rest = self.rest.find('\n').map_or("", |at| &self.rest[at..]);
        }
        self.rest.is_empty()
    }

    /// The words of the head of a `for`, up to its newline or semicolon.
    pub(super) fn head(&mut self) -> Result<Vec<Word>, String> {
        let mut words = Vec::new();
        while !self.skip_blanks() && !self.rest.starts_with([';', '\n']) {
            if self.rest.starts_with(['&', '|', '<', '>']) {
                return Err("unexpected operator".to_owned());
            }
            words.push(self.read_word()?);
        }
        self.rest = self.rest.get(1..).unwrap_or_default();
        Ok(words)
    }

    /// Skips newlines up to this reserved word, and the word.
    pub(super) fn expect(&mut self, word: &str) -> Result<(), String> {
        while !self.skip_blanks() && self.rest.starts_with('\n') {
            self.rest = &self.rest[1..];
        }
        let found = self.read_word()?;
        if found.plain() == Some(word) { Ok(()) } else { Err(format!("expected {word:?}")) }
    }

    /// Reads one operator or word. Returns it if it is one of the reserved words `ends`.
    fn token(&mut self, ends: &[&str]) -> Result<Option<String>, String> {
        let Some((text, operator)) = OPERATORS.iter().find(|(text, _)| self.rest.starts_with(text)) else {
            return self.word(ends);
        };
        self.operator(text, *operator).map(|()| None)
    }

    fn operator(&mut self, text: &str, operator: Operator) -> Result<(), String> {
        if self.redirect.is_some() {
            return Err(format!("{text:?} unexpected"));
        }
        match operator {
            Operator::Next(connector) => {
                self.rest = &self.rest[text.len()..];
                let empty_line = text == "\n" && self.command.is_empty();
                if !empty_line { self.finish(connector) } else { Ok(()) }
            }
            Operator::Channel(from, to) => {
                self.rest = &self.rest[text.len()..];
                self.command.redirects.push(Redirect { from, to: To::Channel(to) });
                Ok(())
            }
            Operator::File(from, append) => {
                self.rest = &self.rest[text.len()..];
                self.redirect = Some((from, append));
                Ok(())
            }
            Operator::Unknown => Err(format!("the simulated shell does not know {text:?}")),
        }
    }

    fn finish(&mut self, next: Connector) -> Result<(), String> {
        if self.redirect.is_some() {
            return Err("a redirection without a file".to_owned());
        }
        let command = std::mem::take(&mut self.command);
        let connector = std::mem::replace(&mut self.next, next);
        let piped = connector == Connector::Pipe || next == Connector::Pipe;
        let compound = command.compound.is_some();
        if compound && (piped || !command.redirects.is_empty()) {
            return Err(
                "the simulated shell does not know pipes and redirections of loops and conditions".to_owned()
            );
        }
        if command.negated && (piped || compound || command.words.is_empty()) {
            return Err("the simulated shell knows \"!\" only before a single command".to_owned());
        }
        if !command.is_empty() {
            self.commands.push((connector, Arc::new(command)));
            return Ok(());
        }
        match (connector, next) {
            (Connector::Then, Connector::Then) => Ok(()),
            _ => Err("unexpected operator".to_owned()),
        }
    }

    fn word(&mut self, ends: &[&str]) -> Result<Option<String>, String> {
        let word = self.read_word()?;
        if let Some((from, append)) = self.redirect.take() {
            let to = if append { To::Append(word) } else { To::File(word) };
            self.command.redirects.push(Redirect { from, to });
            return Ok(None);
        }
        let begins = self.command.words.is_empty() && self.command.redirects.is_empty();
        match word.plain().filter(|_| begins) {
            Some(end) if ends.contains(&end) && self.command.is_empty() => return Ok(Some(end.to_owned())),
            _ if self.command.compound.is_some() => return Err("unexpected word".to_owned()),
            Some("!") => self.command.negated = true,
            Some(first) if reserved(first) => {
                let first = first.to_owned();
                self.command.compound = Some(Compound::read(&first, self)?);
            }
            _ => self.command.words.push(word),
        }
        Ok(None)
    }

    fn read_word(&mut self) -> Result<Word, String> {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut chars = Cursor { text: self.rest, at: 0 };
        let mut end = self.rest.len();
        while let Some((at, c)) = chars.next() {
            let flush = |text: &mut String, parts: &mut Vec<WordPart>| {
                if !text.is_empty() {
                    parts.push(WordPart::Text(std::mem::take(text)));
                }
            };
            match c {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '<' | '>' => {
                    end = at;
                    break;
                }
                '\\' => text.extend(chars.next().map(|(_, c)| c)),
                '\'' => {
                    flush(&mut text, &mut parts);
                    let inside = &self.rest[at + 1..];
                    let length = inside.find('\'').ok_or("unterminated quoted string")?;
                    parts.push(WordPart::Quoted(inside[..length].to_owned()));
                    chars.at = at + length + 2;
                }
                '"' => {
                    flush(&mut text, &mut parts);
                    let length = double_quoted(&self.rest[at + 1..], &mut parts, self.depth)?;
                    chars.at = at + 1 + length;
                }
                '$' => {
                    flush(&mut text, &mut parts);
                    let (part, length) = expansion(&self.rest[at..], false, self.depth)?;
                    parts.push(part);
                    chars.at = at + length;
                }
                '`' => return Err("the simulated shell does not know \"`\"".to_owned()),
                c => text.push(c),
            }
        }
        if !text.is_empty() {
            parts.push(WordPart::Text(text));
        }
        self.rest = &self.rest[end..];
        Ok(Word(parts))
    }
}

/// The characters of a text with their offsets. The offset `at` may be moved.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl Iterator for Cursor<'_> {
    type Item = (usize, char);

    fn next(&mut self) -> Option<(usize, char)> {
        let at = self.at;
        let c = self.text.get(at..)?.chars().next()?;
        self.at += c.len_utf8();
        Some((at, c))
    }
}

/// The parts up to the closing quote, and their length in bytes including the quote.
fn double_quoted(text: &str, parts: &mut Vec<WordPart>, depth: usize) -> Result<usize, String> {
    let mut chars = Cursor { text, at: 0 };
    let mut plain = String::new();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                parts.push(WordPart::Quoted(plain));
                return Ok(at + 1);
            }
            '\\' => match chars.next() {
                Some((_, c @ ('"' | '\\' | '$' | '`'))) => plain.push(c),
                Some((_, c)) => plain.extend(['\\', c]),
                None => {}
            },
            '$' => {
                parts.push(WordPart::Quoted(std::mem::take(&mut plain)));
                let (part, length) = expansion(&text[at..], true, depth)?;
                parts.push(part);
                chars.at = at + length;
            }
            c => plain.push(c),
        }
    }
    Err("unterminated quoted string".to_owned())
}

/// The expansion that begins with a `$`, and its length in bytes including the `$`.
fn expansion(text: &str, quoted: bool, depth: usize) -> Result<(WordPart, usize), String> {
    let rest = &text[1..];
    let variable = |name: &str| WordPart::Expanded(Expansion::Variable(name.to_owned()), quoted);
    if let Some(inside) = rest.strip_prefix('{') {
        let length = inside.find('}').ok_or("bad substitution")?;
        let name = &inside[..length];
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        return match plain && !name.is_empty() {
            true => Ok((variable(name), length + 3)),
            false => Err("bad substitution".to_owned()),
        };
    }
    if let Some(inside) = rest.strip_prefix('(') {
        let length = closing(inside).ok_or("unterminated \"$(\"")?;
        let (inside, whole) = (&inside[..length], length + 3);
        let arithmetic = inside.strip_prefix('(').and_then(|inside| inside.strip_suffix(')'));
        let expansion = match arithmetic {
            Some(expression) => Expansion::Arithmetic(expression.to_owned()),
            None => Expansion::Output(parse_at(inside, depth + 1)?),
        };
        return Ok((WordPart::Expanded(expansion, quoted), whole));
    }
    if rest.starts_with(['?', '$']) {
        return Ok((variable(&rest[..1]), 2));
    }
    let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
    match length {
        0 => Ok((WordPart::Quoted("$".to_owned()), 1)),
        _ => Ok((variable(&rest[..length]), length + 1)),
    }
}

/// The offset of the parenthesis that closes the one before `text`; those in quotes do not count.
fn closing(text: &str) -> Option<usize> {
    let (mut open, mut quote) = (1, None);
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => drop(chars.next()),
            ('\'' | '"', None) => quote = Some(c),
            (_, Some(begun)) if c == begun => quote = None,
            ('(', None) => open += 1,
            (')', None) => {
                open -= 1;
                if open == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}
