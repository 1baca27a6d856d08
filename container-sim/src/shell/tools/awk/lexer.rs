//! Tokens of awk.

use crate::shell::escape::{Escapes, escape};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Number(f64),
    Text(String),
    /// A name.
    Name(String),
    /// A name right before `(`.
    Function(String),
    /// An operator or a word of the language.
    Mark(&'static str),
    Newline,
    End,
}

/// Words and operators; a longer one precedes its own prefix.
const MARKS: [&str; 45] = [
    "**=", "&&", "||", "++", "--", "+=", "-=", "*=", "/=", "%=", "^=", "**", "==", "<=", ">=", "!=", "!~",
    ">>", "{", "}", "(", ")", "[", "]", ";", ",", "+", "-", "*", "/", "%", "^", "!", ">", "<", "|", "?", ":",
    "~", "$", "=", "&", "@", "\\", "`",
];

const WORDS: [&str; 19] = [
    "BEGIN", "END", "function", "func", "if", "else", "while", "for", "do", "break", "continue", "next",
    "nextfile", "exit", "return", "delete", "in", "getline", "print",
];

pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The next token.
    pub(super) fn next(&mut self) -> Result<Token, String> {
        loop {
            let rest = self.rest();
            self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\r']).len();
            let rest = self.rest();
            if rest.starts_with("\\\n") {
                self.at += 2;
            } else if rest.starts_with('#') {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else {
                break;
            }
        }
        let rest = self.rest();
        let Some(c) = rest.chars().next() else { return Ok(Token::End) };
        if c == '\n' {
            self.at += 1;
            return Ok(Token::Newline);
        }
        if c.is_ascii_digit() || (c == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) {
            return Ok(self.number());
        }
        if c.is_ascii_alphabetic() || c == '_' {
            let length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            let word = &rest[..length];
            self.at += length;
            if word == "printf" {
                return Ok(Token::Mark("printf"));
            }
            if let Some(known) = WORDS.iter().find(|known| **known == word) {
                return Ok(Token::Mark(known));
            }
            let word = word.to_owned();
            return Ok(if self.rest().starts_with('(') { Token::Function(word) } else { Token::Name(word) });
        }
        if c == '"' {
            self.at += 1;
            return self.text('"').map(Token::Text);
        }
        let mark = MARKS.iter().find(|mark| rest.starts_with(**mark));
        let mark = mark.ok_or_else(|| format!("unexpected '{c}'"))?;
        self.at += mark.len();
        Ok(Token::Mark(mark))
    }

    fn number(&mut self) -> Token {
        let rest = self.rest();
        let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let mut length = digits(rest);
        if rest[length..].starts_with('.') {
            length += 1 + digits(&rest[length + 1..]);
        }
        if rest[length..].starts_with(['e', 'E']) {
            let sign = usize::from(rest[length + 1..].starts_with(['+', '-']));
            let exponent = digits(&rest[length + 1 + sign..]);
            if exponent > 0 {
                length += 1 + sign + exponent;
            }
        }
        self.at += length;
        Token::Number(rest[..length].parse().unwrap_or(0.0))
    }

    fn text(&mut self, end: char) -> Result<String, String> {
        let mut bytes = Vec::new();
        loop {
            let rest = self.rest();
            let Some(c) = rest.chars().next() else { return Err("unterminated string".to_owned()) };
            self.at += c.len_utf8();
            match c {
                c if c == end => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
                '\n' => return Err("unterminated string".to_owned()),
                '\\' => {
                    let behind = self.rest();
                    match escape(behind.as_bytes(), Escapes::Format) {
                        Some((value, length)) => {
                            bytes.extend(value);
                            self.at += length;
                        }
                        None => match behind.chars().next() {
                            Some('\n') => self.at += 1,
                            Some(c @ ('"' | '/')) => {
                                bytes.extend(c.to_string().into_bytes());
                                self.at += 1;
                            }
                            // Backslashes of regular expressions in texts.
                            _ => bytes.push(b'\\'),
                        },
                    }
                }
                c => bytes.extend(c.to_string().into_bytes()),
            }
        }
    }

    /// The rest of a regular expression, whose first `/` is passed over.
    pub(super) fn regex(&mut self) -> Result<String, String> {
        let (mut text, mut in_set) = (String::new(), false);
        loop {
            let rest = self.rest();
            let Some(c) = rest.chars().next() else { return Err("unterminated regex".to_owned()) };
            self.at += c.len_utf8();
            match c {
                '/' if !in_set => return Ok(text),
                '\n' => return Err("unterminated regex".to_owned()),
                '[' => {
                    in_set = true;
                    text.push('[');
                }
                ']' => {
                    in_set = false;
                    text.push(']');
                }
                '\\' => {
                    let next = self.rest().chars().next().ok_or("unterminated regex")?;
                    self.at += next.len_utf8();
                    match next {
                        '/' => text.push('/'),
                        '"' => text.push('"'),
                        next => text.extend(['\\', next]),
                    }
                }
                c => text.push(c),
            }
        }
    }
}
