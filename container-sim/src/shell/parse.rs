//! Parser of the shell language: words with quotes and variables, `;`, `&&`, `||`, `|`, newlines, and redirections. All
//! other syntax is an error that names it.

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

/// One command with its redirections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<Redirect>,
}

impl Command {
    fn is_empty(&self) -> bool {
        self.words.is_empty() && self.redirects.is_empty()
    }
}

/// A word whose variables are not expanded yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Word(Vec<WordPart>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum WordPart {
    Text(String),
    Quoted(String),
    Variable(String),
}

impl Word {
    /// Expands the variables. Their values are not split at blanks.
    pub(super) fn expand(&self, variable: impl Fn(&str) -> String) -> String {
        let part = |part: &WordPart| match part {
            WordPart::Text(text) | WordPart::Quoted(text) => text.clone(),
            WordPart::Variable(name) => variable(name),
        };
        self.0.iter().map(part).collect()
    }

    /// Whether the word has quotes, so that it stays a word when it is empty.
    pub(super) fn quoted(&self) -> bool {
        self.0.iter().any(|part| matches!(part, WordPart::Quoted(_)))
    }

    /// The text of the word; `None` if it has variables.
    pub(super) fn literal(&self) -> Option<String> {
        let variable = self.0.iter().any(|part| matches!(part, WordPart::Variable(_)));
        (!variable).then(|| self.expand(|_| String::new()))
    }

    /// The first part that a real shell would expand as a file name pattern.
    pub(super) fn pattern(&self) -> Option<&str> {
        self.0.iter().find_map(|part| match part {
            WordPart::Text(text) if text.contains('*') => Some(text.as_str()),
            WordPart::Text(_) | WordPart::Quoted(_) | WordPart::Variable(_) => None,
        })
    }

    fn plain(&self) -> Option<&str> {
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
pub(super) fn parse(text: &str) -> Result<Vec<(Connector, Command)>, String> {
    let (commands, command) = (Vec::new(), Command::default());
    let mut reader = Reader { rest: text, commands, command, next: Connector::Then, redirect: None };
    while !reader.rest.is_empty() {
        reader.token()?;
    }
    if reader.next != Connector::Then && reader.command.is_empty() {
        return Err("unexpected end of file".to_owned());
    }
    reader.finish(Connector::Then)?;
    Ok(reader.commands)
}

struct Reader<'a> {
    rest: &'a str,
    commands: Vec<(Connector, Command)>,
    command: Command,
    /// How the current command is connected to the previous one.
    next: Connector,
    /// The next word is the file of this redirection.
    redirect: Option<(u32, bool)>,
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
    fn token(&mut self) -> Result<(), String> {
        let blank = self.rest.trim_start_matches([' ', '\t', '\r']);
        if blank.len() < self.rest.len() {
            self.rest = blank;
            return Ok(());
        }
        if self.rest.starts_with('#') {
            self.rest = self.rest.find('\n').map_or("", |at| &self.rest[at..]);
            return Ok(());
        }
        let Some((text, operator)) = OPERATORS.iter().find(|(text, _)| self.rest.starts_with(text)) else {
            return self.word();
        };
        if self.redirect.is_some() {
            return Err(format!("{text:?} unexpected"));
        }
        match operator {
            Operator::Next(connector) => {
                self.rest = &self.rest[text.len()..];
                let empty_line = *text == "\n" && self.command.is_empty();
                if !empty_line { self.finish(*connector) } else { Ok(()) }
            }
            Operator::Channel(from, to) => {
                self.rest = &self.rest[text.len()..];
                self.command.redirects.push(Redirect { from: *from, to: To::Channel(*to) });
                Ok(())
            }
            Operator::File(from, append) => {
                self.rest = &self.rest[text.len()..];
                self.redirect = Some((*from, *append));
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
        match (command.words.first().and_then(Word::plain), connector, next) {
            (Some(word @ ("if" | "for" | "while" | "until" | "case" | "{" | "function")), _, _) => {
                Err(format!("the simulated shell does not know {word:?}"))
            }
            (None, Connector::Then, Connector::Then) if command.is_empty() => Ok(()),
            (None, _, _) if command.is_empty() => Err("unexpected operator".to_owned()),
            _ => {
                self.commands.push((connector, command));
                Ok(())
            }
        }
    }

    fn word(&mut self) -> Result<(), String> {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut chars = self.rest.char_indices();
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
                    chars = skip(self.rest, at + length + 2);
                }
                '"' => {
                    flush(&mut text, &mut parts);
                    let length = double_quoted(&self.rest[at + 1..], &mut parts)?;
                    chars = skip(self.rest, at + 1 + length);
                }
                '$' => {
                    flush(&mut text, &mut parts);
                    let (part, length) = variable(&self.rest[at..])?;
                    parts.push(part);
                    chars = skip(self.rest, at + length);
                }
                '`' => return Err("the simulated shell does not know \"`\"".to_owned()),
                c => text.push(c),
            }
        }
        if !text.is_empty() {
            parts.push(WordPart::Text(text));
        }
        self.rest = &self.rest[end..];
        match self.redirect.take() {
            Some((from, true)) => self.command.redirects.push(Redirect { from, to: To::Append(Word(parts)) }),
            Some((from, false)) => self.command.redirects.push(Redirect { from, to: To::File(Word(parts)) }),
            None => self.command.words.push(Word(parts)),
        }
        Ok(())
    }
}

/// The characters of `text` from a byte offset on, with their offsets in the whole text.
fn skip(text: &str, from: usize) -> std::str::CharIndices<'_> {
    let mut chars = text.char_indices();
    while chars.offset() < from && chars.next().is_some() {}
    chars
}

/// The parts up to the closing quote, and their length in bytes including the quote.
fn double_quoted(text: &str, parts: &mut Vec<WordPart>) -> Result<usize, String> {
    let mut chars = text.char_indices();
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
                let (part, length) = variable(&text[at..])?;
                parts.push(part);
                chars = skip(text, at + length);
            }
            c => plain.push(c),
        }
    }
    Err("unterminated quoted string".to_owned())
}

/// The variable after a `$`, and its length in bytes including the `$`.
fn variable(text: &str) -> Result<(WordPart, usize), String> {
    let rest = &text[1..];
    if let Some(inside) = rest.strip_prefix('{') {
        let length = inside.find('}').ok_or("bad substitution")?;
        let name = &inside[..length];
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        return match plain && !name.is_empty() {
            true => Ok((WordPart::Variable(name.to_owned()), length + 3)),
            false => Err("bad substitution".to_owned()),
        };
    }
    if rest.starts_with('(') {
        return Err("the simulated shell does not know \"$(\"".to_owned());
    }
    if rest.starts_with(['?', '$']) {
        return Ok((WordPart::Variable(rest[..1].to_owned()), 2));
    }
    let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
    match length {
        0 => Ok((WordPart::Quoted("$".to_owned()), 1)),
        _ => Ok((WordPart::Variable(rest[..length].to_owned()), length + 1)),
    }
}
