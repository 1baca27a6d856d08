//! Parser of the text form of label selectors: tokens, then requirements, in one pass with one token of
//! look-ahead.

use super::{Operator, Requirement, SelectorError, requirement};
use crate::name;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Token<'t> {
    End,
    Comma,
    Bang,
    Open,
    Close,
    Equals,
    DoubleEquals,
    NotEquals,
    Greater,
    Less,
    /// Word, including `in` and `notin`, which are operators only in that position.
    Word(&'t str),
}

impl Token<'_> {
    fn text(&self) -> &str {
        match self {
            Token::End => "",
            Token::Comma => ",",
            Token::Bang => "!",
            Token::Open => "(",
            Token::Close => ")",
            Token::Equals => "=",
            Token::DoubleEquals => "==",
            Token::NotEquals => "!=",
            Token::Greater => ">",
            Token::Less => "<",
            Token::Word(word) => word,
        }
    }
}

fn is_special(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// Splits off the first token.
fn lex(text: &str) -> (Token<'_>, &str) {
    let text = text.trim_start_matches(is_space);
    let fixed = [
        ("==", Token::DoubleEquals),
        ("!=", Token::NotEquals),
        ("=", Token::Equals),
        ("!", Token::Bang),
        ("(", Token::Open),
        (")", Token::Close),
        (",", Token::Comma),
        (">", Token::Greater),
        ("<", Token::Less),
    ];
    if text.is_empty() {
        return (Token::End, text);
    }
    for (sign, token) in fixed {
        if let Some(rest) = text.strip_prefix(sign) {
            return (token, rest);
        }
    }
    let end = text.find(|c| is_special(c) || is_space(c)).unwrap_or(text.len());
    (Token::Word(&text[..end]), &text[end..])
}

struct Parser<'t> {
    rest: &'t str,
}

fn fail<T>(found: Token<'_>, expected: &str) -> Result<T, SelectorError> {
    Err(SelectorError(format!("found '{}', expected: {expected}", found.text())))
}

impl<'t> Parser<'t> {
    fn peek(&self) -> Token<'t> {
        lex(self.rest).0
    }

    fn next(&mut self) -> Token<'t> {
        let (token, rest) = lex(self.rest);
        self.rest = rest;
        token
    }

    fn term(&mut self) -> Result<Requirement, SelectorError> {
        let negated = self.peek() == Token::Bang;
        if negated {
            self.next();
        }
        let key = match self.next() {
            Token::Word(word) => word,
            other => return fail(other, "identifier"),
        };
        let faults = name::qualified_name(key);
        if !faults.is_empty() {
            return Err(SelectorError(format!("<nil>: Invalid value: {key:?}: {}", faults.join("; "))));
        }
        if negated {
            return requirement(key, Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek(), Token::End | Token::Comma) {
            return requirement(key, Operator::Exists, Vec::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.set()?,
            _ => vec![self.exact()?],
        };
        requirement(key, operator, values)
    }

    fn operator(&mut self) -> Result<Operator, SelectorError> {
        Ok(match self.next() {
            Token::Equals | Token::DoubleEquals => Operator::Equals,
            Token::NotEquals => Operator::NotEquals,
            Token::Greater => Operator::GreaterThan,
            Token::Less => Operator::LessThan,
            Token::Word("in") => Operator::In,
            Token::Word("notin") => Operator::NotIn,
            other => return fail(other, "in, notin, =, ==, !=, gt, lt"),
        })
    }

    /// Parses one value; no token means the empty value.
    fn exact(&mut self) -> Result<String, SelectorError> {
        if matches!(self.peek(), Token::End | Token::Comma) {
            return Ok(String::new());
        }
        match self.next() {
            Token::Word(word) => Ok(word.to_owned()),
            other => fail(other, "identifier"),
        }
    }

    /// Parses a set `(a,b)`; an empty position, or an empty set, means the empty value.
    fn set(&mut self) -> Result<Vec<String>, SelectorError> {
        match self.next() {
            Token::Open => {}
            other => return Err(SelectorError(format!("found '{}' expected: '('", other.text()))),
        }
        if self.peek() == Token::Close {
            self.next();
            return Ok(vec![String::new()]);
        }
        let mut values = Vec::new();
        loop {
            match self.peek() {
                Token::Word(word) => {
                    self.next();
                    values.push(word.to_owned());
                }
                Token::Comma | Token::Close => values.push(String::new()),
                other => return fail(other, "',', ')' or identifier"),
            }
            match self.next() {
                Token::Comma => {}
                Token::Close => return Ok(values),
                other => return fail(other, "',' or ')'"),
            }
        }
    }
}

pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    let mut parser = Parser { rest: text };
    let mut terms = Vec::new();
    loop {
        match parser.peek() {
            Token::End => return Ok(terms),
            Token::Word(_) | Token::Bang => {}
            other => return fail(other, "!, identifier, or 'end of string'"),
        }
        terms.push(parser.term().map_err(|e| SelectorError(format!("unable to parse requirement: {e}")))?);
        match parser.next() {
            Token::End => return Ok(terms),
            Token::Comma => match parser.peek() {
                Token::Word(_) | Token::Bang => {}
                other => return fail(other, "identifier after ','"),
            },
            other => return fail(other, "',' or 'end of string'"),
        }
    }
}
