//! `${…}`: a parameter and its operation.

use super::text::{Parser, SyntaxError};
use super::word::Stop;
use super::{Dialect, Operation, Parameter, ReplacePlace, Word};

impl Parser<'_> {
    /// What follows `${`, with its `}`.
    pub(super) fn braced(&mut self, quoted: bool) -> Result<Parameter, SyntaxError> {
        let rest = self.rest();
        let is_length = rest.starts_with('#')
            && rest[1..].starts_with(|c: char| {
                c.is_ascii_alphanumeric() || matches!(c, '_' | '@' | '*' | '?' | '$' | '!' | '#' | '-')
            })
            && !(rest.starts_with("##}") || rest.starts_with("#}"))
            && !matches!(rest.as_bytes().get(1..3), Some([b'-' | b'?' | b'#', byte]) if *byte != b'}');
        if is_length {
            self.at += 1;
        }
        let indirect = !is_length
            && self.dialect == Dialect::Bash
            && rest.starts_with('!')
            && rest[1..].starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        if indirect {
            self.at += 1;
        }
        let name = self.parameter_name()?;
        let mut index = None;
        if self.dialect == Dialect::Bash && self.skip("[") {
            index = Some(self.subscript()?);
        }
        let keys = indirect && index.as_ref().is_some_and(|index| matches!(index.plain(), Some("@" | "*")));
        let operation = match () {
            () if is_length => Operation::Length,
            () if keys => Operation::Keys,
            () => self.operation(quoted)?,
        };
        if !self.skip("}") {
            return Err(match self.is_at_end() {
                true => self.incomplete("missing '}'"),
                false => self.error("bad substitution"),
            });
        }
        Ok(Parameter { name, index, indirect: indirect && !keys, operation })
    }

    fn parameter_name(&mut self) -> Result<String, SyntaxError> {
        let rest = self.rest();
        let length = match rest.chars().next() {
            Some('@' | '*' | '#' | '?' | '-' | '$' | '!') => 1,
            Some('0'..='9') => rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len())
            }
            None => return Err(self.incomplete("missing '}'")),
            Some(_) => return Err(self.error("bad substitution")),
        };
        self.at += length;
        Ok(rest[..length].to_owned())
    }

    fn operation(&mut self, quoted: bool) -> Result<Operation, SyntaxError> {
        let rest = self.rest();
        if rest.starts_with('}') || rest.is_empty() {
            return Ok(Operation::None);
        }
        let colon = rest.starts_with(':') && rest[1..].starts_with(['-', '=', '?', '+']);
        self.at += usize::from(colon);
        match self.next_char() {
            Some('-') => Ok(Operation::Default(self.parts(Stop::Brace, quoted)?, colon)),
            Some('=') => Ok(Operation::Assign(self.parts(Stop::Brace, quoted)?, colon)),
            Some('?') => Ok(Operation::Require(self.parts(Stop::Brace, quoted)?, colon)),
            Some('+') => Ok(Operation::Alternative(self.parts(Stop::Brace, quoted)?, colon)),
            Some('#') => {
                let longest = self.skip("#");
                Ok(Operation::StripPrefix(self.parts(Stop::Brace, false)?, longest))
            }
            Some('%') => {
                let longest = self.skip("%");
                Ok(Operation::StripSuffix(self.parts(Stop::Brace, false)?, longest))
            }
            Some(':') => self.substring(),
            Some('/') => self.replacement(),
            Some(c @ ('^' | ',')) if self.dialect == Dialect::Bash => {
                let all = self.skip(&c.to_string());
                Ok(Operation::Case(c == '^', all))
            }
            _ => Err(self.error("bad substitution")),
        }
    }

    fn substring(&mut self) -> Result<Operation, SyntaxError> {
        let offset = self.parts(Stop::Colon, true)?;
        let length = match self.skip(":") {
            true => Some(self.parts(Stop::Brace, true)?),
            false => None,
        };
        Ok(Operation::Substring(offset, length))
    }

    fn replacement(&mut self) -> Result<Operation, SyntaxError> {
        let place = match () {
            () if self.skip("/") => ReplacePlace::All,
            () if self.dialect == Dialect::Bash && self.skip("#") => ReplacePlace::Start,
            () if self.dialect == Dialect::Bash && self.skip("%") => ReplacePlace::End,
            () => ReplacePlace::First,
        };
        let pattern = self.parts(Stop::Slash, false)?;
        let text = match self.skip("/") {
            true => self.parts(Stop::Brace, false)?,
            false => Word::default(),
        };
        Ok(Operation::Replace(place, pattern, text))
    }
}
