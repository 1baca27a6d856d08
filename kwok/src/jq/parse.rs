//! Reads expressions of jq. Pure.

use super::{COMPARISONS, Filter, Index, PLAIN, WITH_ARGUMENT};
use crate::limits::{JQ_DEPTH, JQ_PARTS};
use serde_json::Value;

/// The beginning of a text, for errors.
fn shortened(text: &str) -> String {
    text.chars().take(20).collect()
}

pub(super) struct Parser<'s> {
    text: &'s str,
    at: usize,
    depth: usize,
    /// Parts that were read.
    parts: usize,
}

impl<'s> Parser<'s> {
    /// Reads a whole expression.
    pub(super) fn whole(text: &'s str) -> Result<Filter, String> {
        let mut parser = Self { text, at: 0, depth: 0, parts: 0 };
        let filter = parser.pipe()?;
        parser.space();
        match parser.rest() {
            "" => Ok(filter),
            rest => Err(format!("{:?} is not supported", shortened(rest))),
        }
    }

    /// Counts a part. So an expression is nowhere deeper than it may have parts, also where its depth is not that of parentheses.
    fn part(&mut self) -> Result<(), String> {
        self.parts += 1;
        match self.parts > JQ_PARTS {
            true => Err(format!("the expression has more than {JQ_PARTS} parts")),
            false => Ok(()),
        }
    }

    fn rest(&self) -> &'s str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Takes a sign after spaces, if it is next.
    fn take(&mut self, sign: &str) -> bool {
        self.space();
        let is_next = self.rest().starts_with(sign);
        self.at += if is_next { sign.len() } else { 0 };
        is_next
    }

    /// Takes a word after spaces, if it is next.
    fn take_word(&mut self, word: &str) -> bool {
        self.space();
        let is_next = name(self.rest()) == word;
        self.at += if is_next { word.len() } else { 0 };
        is_next
    }

    fn pipe(&mut self) -> Result<Filter, String> {
        self.depth += 1;
        if self.depth > JQ_DEPTH {
            return Err(format!("more than {JQ_DEPTH} parentheses and pipes are in each other"));
        }
        let mut one = self.alternative()?;
        while self.take(",") {
            one = Filter::Comma(Box::new(one), Box::new(self.alternative()?));
        }
        if self.take("|") {
            one = Filter::Pipe(Box::new(one), Box::new(self.pipe()?));
        }
        self.depth -= 1;
        Ok(one)
    }

    fn alternative(&mut self) -> Result<Filter, String> {
        let one = self.or()?;
        match self.take("//") {
            true => Ok(Filter::Alternative(Box::new(one), Box::new(self.alternative()?))),
            false => Ok(one),
        }
    }

    fn or(&mut self) -> Result<Filter, String> {
        let mut one = self.and()?;
        while self.take_word("or") {
            one = Filter::Or(Box::new(one), Box::new(self.and()?));
        }
        Ok(one)
    }

    fn and(&mut self) -> Result<Filter, String> {
        let mut one = self.comparison()?;
        while self.take_word("and") {
            one = Filter::And(Box::new(one), Box::new(self.comparison()?));
        }
        Ok(one)
    }

    fn comparison(&mut self) -> Result<Filter, String> {
        let one = self.postfix()?;
        match COMPARISONS.into_iter().find(|sign| self.take(sign)) {
            Some(sign) => Ok(Filter::Compare(sign, Box::new(one), Box::new(self.postfix()?))),
            None => Ok(one),
        }
    }

    fn postfix(&mut self) -> Result<Filter, String> {
        let mut filter = self.term()?;
        loop {
            let rest = self.rest();
            if rest.starts_with('[') || rest.starts_with(".[") {
                self.at += rest.len() - rest.trim_start_matches('.').len();
                filter = self.bracket(filter)?;
            } else if rest.starts_with('.') {
                self.at += 1;
                filter = self.member(filter)?;
            } else if rest.starts_with('?') {
                self.at += 1;
                filter = Filter::Try(Box::new(filter));
            } else {
                return Ok(filter);
            }
            self.part()?;
        }
    }

    fn term(&mut self) -> Result<Filter, String> {
        self.part()?;
        self.space();
        let rest = self.rest();
        if self.take("(") {
            let inner = self.pipe()?;
            return if self.take(")") { Ok(inner) } else { Err("\"(\" has no \")\"".to_owned()) };
        }
        if rest.starts_with(".[") || rest == "." {
            self.at += 1;
            return Ok(Filter::Identity);
        }
        if let Some(behind) = rest.strip_prefix('.') {
            self.at += 1;
            return match behind.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '"') {
                true => self.member(Filter::Identity),
                false => Ok(Filter::Identity),
            };
        }
        if rest.starts_with('"') {
            return self.string().map(|text| Filter::Literal(Value::String(text)));
        }
        if rest.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            let is_part = |c: char| c.is_ascii_digit() || c == '.';
            let length = 1 + rest[1..].find(|c| !is_part(c)).unwrap_or(rest.len() - 1);
            self.at += length;
            let number = serde_json::from_str(&rest[..length]);
            return number.map(Filter::Literal).map_err(|_| format!("{:?} is not a number", &rest[..length]));
        }
        let word = name(rest);
        self.at += word.len();
        match word {
            "" => Err(format!("{:?} is not supported", shortened(rest))),
            "true" | "false" => Ok(Filter::Literal(Value::Bool(word == "true"))),
            "null" => Ok(Filter::Literal(Value::Null)),
            function => self.call(function),
        }
    }

    fn call(&mut self, function: &str) -> Result<Filter, String> {
        let argument = match self.rest().starts_with('(') {
            false => None,
            true => {
                self.at += 1;
                let argument = self.pipe()?;
                if !self.take(")") {
                    return Err("\"(\" has no \")\"".to_owned());
                }
                Some(Box::new(argument))
            }
        };
        let known: &[&'static str] = if argument.is_some() { &WITH_ARGUMENT } else { &PLAIN };
        match known.iter().find(|name| **name == function) {
            Some(name) => Ok(Filter::Call(name, argument)),
            None => Err(format!("{function:?} is not supported; supported are {}", supported())),
        }
    }

    /// `name` or `"name"` behind a point.
    fn member(&mut self, of: Filter) -> Result<Filter, String> {
        let found = match self.rest().starts_with('"') {
            true => self.string()?,
            false => {
                let found = name(self.rest());
                self.at += found.len();
                found.to_owned()
            }
        };
        match found.is_empty() {
            true => Err(format!("a name is missing before {:?}", shortened(self.rest()))),
            false => Ok(Filter::Path(Box::new(of), Index::Name(found))),
        }
    }

    /// `[]`, `["name"]`, `[1]`.
    fn bracket(&mut self, of: Filter) -> Result<Filter, String> {
        self.at += 1;
        self.space();
        let rest = self.rest();
        let index = if rest.starts_with(']') {
            Index::Each
        } else if rest.starts_with('"') {
            Index::Name(self.string()?)
        } else {
            let length = rest.find(']').unwrap_or(rest.len());
            self.at += length;
            let number = rest[..length].trim().parse();
            Index::At(number.map_err(|_| format!("[{}] is not supported", &rest[..length]))?)
        };
        match self.take("]") {
            true => Ok(Filter::Path(Box::new(of), index)),
            false => Err("\"[\" has no \"]\"".to_owned()),
        }
    }

    /// A text between quotes, as JSON.
    fn string(&mut self) -> Result<String, String> {
        let rest = self.rest();
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<String>();
        match stream.next() {
            Some(Ok(text)) if !rest[..stream.byte_offset()].contains("\\(") => {
                self.at += stream.byte_offset();
                Ok(text)
            }
            _ => Err(format!("{:?} is not a plain text", shortened(rest))),
        }
    }
}

/// The functions, for errors.
fn supported() -> String {
    let mut all: Vec<&str> = PLAIN.into_iter().chain(WITH_ARGUMENT).collect();
    all.sort_unstable();
    all.dedup();
    all.join(", ")
}

/// The name at the beginning of a text; empty if there is none.
fn name(text: &str) -> &str {
    let length = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..length]
}
