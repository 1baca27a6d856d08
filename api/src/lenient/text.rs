//! A cursor over JSON text: reads one token, or skips one value. It knows no type, so the compiler generates it once; what is rare
//! (escapes, decimals, skipped values) `serde_json` reads.

use super::error::Error;
use crate::json::plain_length;
use serde::de::IgnoredAny;
use std::borrow::Cow;

/// What a value is, by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Null,
    Bool,
    Number,
    String,
    List,
    Object,
}

/// A number in the widest type that has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Unsigned(u64),
    /// Less than zero.
    Signed(i64),
    Float(f64),
}

/// Cursor over JSON text.
pub(super) struct Text<'de> {
    json: &'de str,
    /// Bytes that were read.
    at: usize,
}

impl<'de> Text<'de> {
    pub(super) fn new(json: &'de str) -> Self {
        Self { json, at: 0 }
    }

    /// Bytes that were read.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// The next byte that is no white space; stays before it.
    fn peek(&mut self) -> Result<u8, Error> {
        let bytes = self.json.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b' ' | b'\n' | b'\t' | b'\r' => self.at += 1,
                byte => return Ok(*byte),
            }
        }
        Err(Error::new("EOF while parsing a value"))
    }

    /// Form of the next value; stays before it.
    pub(super) fn form(&mut self) -> Result<Form, Error> {
        match self.peek()? {
            b'n' => Ok(Form::Null),
            b't' | b'f' => Ok(Form::Bool),
            b'-' | b'0'..=b'9' => Ok(Form::Number),
            b'"' => Ok(Form::String),
            b'[' => Ok(Form::List),
            b'{' => Ok(Form::Object),
            _ => Err(Error::new("expected value")),
        }
    }

    /// Reads exactly `word`.
    fn word(&mut self, word: &str) -> Result<(), Error> {
        match self.json.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            true => {
                self.at += word.len();
                Ok(())
            }
            false => Err(Error::new("expected ident")),
        }
    }

    /// Reads `null`; the form says that it comes.
    pub(super) fn null(&mut self) -> Result<(), Error> {
        self.word("null")
    }

    /// Reads a boolean; the form says that it comes.
    pub(super) fn boolean(&mut self) -> Result<bool, Error> {
        match self.json.as_bytes()[self.at] {
            b't' => self.word("true").map(|()| true),
            _ => self.word("false").map(|()| false),
        }
    }

    /// Reads a number; the form says that it comes.
    pub(super) fn number(&mut self) -> Result<Number, Error> {
        let bytes = &self.json.as_bytes()[self.at..];
        let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = bytes.iter().position(|byte| !is_part(byte)).unwrap_or(bytes.len());
        let text = &self.json[self.at..self.at + length];
        let number = match short_integer(text.as_bytes()) {
            Some(number) => number,
            None => other_number(text)?,
        };
        self.at += length;
        Ok(number)
    }

    /// Reads a string; the form says that it comes.
    pub(super) fn string(&mut self) -> Result<Cow<'de, str>, Error> {
        let start = self.at;
        let bytes = self.json.as_bytes();
        let mut end = start + 1;
        let mut is_escaped = false;
        loop {
            end += plain_length(&bytes[end..]);
            match bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => {
                    is_escaped = true;
                    end = (end + 2).min(bytes.len());
                }
                Some(_) => return Err(Error::new("control character while parsing a string")),
                None => return Err(Error::new("EOF while parsing a string")),
            }
        }
        let text = match is_escaped {
            false => Cow::Borrowed(&self.json[start + 1..end]),
            true => Cow::Owned(serde_json::from_str(&self.json[start..=end])?),
        };
        self.at = end + 1;
        Ok(text)
    }

    /// Reads the bracket that begins a list or an object; the form says that it comes.
    pub(super) fn open(&mut self) {
        self.at += 1;
    }

    /// Reads what separates the items of a list or the members of an object, or the bracket `end`. Returns whether another one comes.
    pub(super) fn next_item(&mut self, is_first: bool, end: u8) -> Result<bool, Error> {
        match self.peek()? {
            byte if byte == end => {
                self.at += 1;
                Ok(false)
            }
            _ if is_first => Ok(true),
            b',' => {
                self.at += 1;
                match self.peek()? {
                    byte if byte == end => Err(Error::new("trailing comma")),
                    _ => Ok(true),
                }
            }
            _ => Err(Error::new("expected `,` or the end of a list or object")),
        }
    }

    /// Reads the name of a member, and the colon.
    pub(super) fn member_name(&mut self) -> Result<Cow<'de, str>, Error> {
        if self.peek()? != b'"' {
            return Err(Error::new("key must be a string"));
        }
        let name = self.string()?;
        if self.peek()? != b':' {
            return Err(Error::new("expected `:`"));
        }
        self.at += 1;
        Ok(name)
    }

    /// Skips one value and returns its text.
    pub(super) fn skip(&mut self) -> Result<&'de str, Error> {
        self.peek()?;
        let rest = &self.json[self.at..];
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        match values.next() {
            Some(Ok(_)) => {
                let length = values.byte_offset();
                self.at += length;
                Ok(&rest[..length])
            }
            Some(Err(error)) => Err(error.into()),
            None => Err(Error::new("EOF while parsing a value")),
        }
    }

    /// Checks that only white space follows.
    pub(super) fn end(&mut self) -> Result<(), Error> {
        match self.peek() {
            Ok(_) => Err(Error::new("trailing characters")),
            Err(_) => Ok(()),
        }
    }
}

/// An integer that surely fits: at most 18 digits. None for others, and for what is no number.
fn short_integer(text: &[u8]) -> Option<Number> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let is_plain = match digits {
        // `-0` is a floating point number.
        [b'0'] => !is_negative,
        [b'1'..=b'9', ..] => digits.len() <= 18,
        _ => false,
    };
    if !is_plain || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0, |value: u64, digit| value * 10 + u64::from(digit - b'0'));
    match is_negative {
        true => value.try_into().ok().map(|value: i64| Number::Signed(-value)),
        false => Some(Number::Unsigned(value)),
    }
}

/// Any number.
fn other_number(text: &str) -> Result<Number, Error> {
    let number: serde_json::Number = serde_json::from_str(text)?;
    let integer = number.as_u64().map(Number::Unsigned).or_else(|| number.as_i64().map(Number::Signed));
    Ok(integer.unwrap_or_else(|| Number::Float(number.as_f64().unwrap_or_default())))
}
