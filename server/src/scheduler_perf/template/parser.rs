//! Builds the tree of a template from its pieces. Pure.

use super::lexer::{Piece, Word};
use super::value::{Function, TemplateValue};
use std::iter::Peekable;
use std::vec::IntoIter;

/// Blocks in blocks and parentheses in parentheses, so that the parser's stack suffices.
const DEPTH: usize = 64;

/// A part of a template. Numbers are lines.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// A text that is copied.
    Text(String),
    /// `{{expression}}`
    Print(usize, Expression),
    /// `{{$name := expression}}`
    Declare(usize, String, Expression),
    /// `{{$name = expression}}`
    Assign(usize, String, Expression),
    /// `{{if}}` and `{{else if}}`, and what `{{else}}` has.
    If(Vec<Branch>, Vec<Node>),
    /// `{{range}}`, and what `{{else}}` has.
    Range { line: usize, variables: Vec<String>, over: Expression, body: Vec<Node>, otherwise: Vec<Node> },
}

/// A condition and its block.
#[derive(Clone, Debug)]
pub(super) struct Branch {
    pub(super) line: usize,
    pub(super) condition: Expression,
    pub(super) then: Vec<Node>,
}

/// A value that is computed.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    Literal(TemplateValue),
    Field(String),
    Variable(String),
    Call(Function, Vec<Expression>),
}

type Problem = (usize, String);

/// Builds the tree.
///
/// # Errors
/// The line and the reason.
pub(super) fn parse(pieces: Vec<Piece>) -> Result<Vec<Node>, Problem> {
    let mut parser = Parser { pieces: pieces.into_iter() };
    let (nodes, end) = parser.block(0)?;
    match end {
        None => Ok(nodes),
        Some((line, BlockEnd::End)) => Err((line, "{{end}} closes nothing".to_owned())),
        Some((line, BlockEnd::Else(_))) => Err((line, "{{else}} belongs to nothing".to_owned())),
    }
}

struct Parser {
    pieces: IntoIter<Piece>,
}

/// What ends a block.
enum BlockEnd {
    End,
    /// `{{else}}` with the words after it.
    Else(Vec<Word>),
}

/// A block, and what ends it; `None`: the end of the template.
type Block = (Vec<Node>, Option<(usize, BlockEnd)>);

impl Parser {
    fn block(&mut self, depth: usize) -> Result<Block, Problem> {
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.next() {
            let (line, mut words) = match piece {
                Piece::Text(text) => {
                    nodes.push(Node::Text(text));
                    continue;
                }
                Piece::Action(line, words) => (line, words),
            };
            if depth > DEPTH {
                return Err((line, format!("more than {DEPTH} blocks are in each other")));
            }
            let keyword = match words.first() {
                Some(Word::Name(name)) => name.clone(),
                _ => String::new(),
            };
            match keyword.as_str() {
                "end" => return Ok((nodes, Some((line, BlockEnd::End)))),
                "else" => return Ok((nodes, Some((line, BlockEnd::Else(words.split_off(1)))))),
                "if" => nodes.push(self.condition(line, words.split_off(1), depth)?),
                "range" => nodes.push(self.range(line, words.split_off(1), depth)?),
                "with" | "define" | "template" | "block" | "break" | "continue" => {
                    return Err((line, format!("{keyword:?} is not supported")));
                }
                _ => nodes.push(statement(line, words)?),
            }
        }
        Ok((nodes, None))
    }

    fn condition(&mut self, begin: usize, words: Vec<Word>, depth: usize) -> Result<Node, Problem> {
        let (mut branches, mut line, mut words) = (Vec::new(), begin, words);
        loop {
            let condition = expression(line, words)?;
            let (then, end) = self.block(depth + 1)?;
            branches.push(Branch { line, condition, then });
            match end {
                None => return Err((begin, "\"if\" has no {{end}}".to_owned())),
                Some((_, BlockEnd::End)) => return Ok(Node::If(branches, Vec::new())),
                Some((_, BlockEnd::Else(more))) if more.is_empty() => {
                    return Ok(Node::If(branches, self.last_block(begin, "if", depth)?));
                }
                Some((next, BlockEnd::Else(mut more))) => {
                    if more.first() != Some(&Word::Name("if".to_owned())) {
                        return Err((next, "{{else}} is followed by \"if\" or by nothing".to_owned()));
                    }
                    (line, words) = (next, more.split_off(1));
                }
            }
        }
    }

    fn range(&mut self, line: usize, mut words: Vec<Word>, depth: usize) -> Result<Node, Problem> {
        let mut variables = Vec::new();
        if let Some(sign) = words.iter().position(|word| *word == Word::Sign(":=")) {
            let over = words.split_off(sign + 1);
            for word in words {
                match word {
                    Word::Variable(name) => variables.push(name),
                    Word::Sign(":=" | ",") => {}
                    _ => return Err((line, "\"range\" takes variables before \":=\"".to_owned())),
                }
            }
            words = over;
        }
        let over = expression(line, words)?;
        let (body, end) = self.block(depth + 1)?;
        let otherwise = match end {
            None => return Err((line, "\"range\" has no {{end}}".to_owned())),
            Some((_, BlockEnd::End)) => Vec::new(),
            Some((_, BlockEnd::Else(_))) => self.last_block(line, "range", depth)?,
        };
        Ok(Node::Range { line, variables, over, body, otherwise })
    }

    /// The block after `{{else}}`, which `{{end}}` ends.
    fn last_block(&mut self, begin: usize, keyword: &str, depth: usize) -> Result<Vec<Node>, Problem> {
        match self.block(depth + 1)? {
            (nodes, Some((_, BlockEnd::End))) => Ok(nodes),
            _ => Err((begin, format!("{keyword:?} has no {{{{end}}}} after {{{{else}}}}"))),
        }
    }
}

/// An action that is no block.
fn statement(line: usize, mut words: Vec<Word>) -> Result<Node, Problem> {
    match &words[..] {
        [Word::Variable(name), Word::Sign(sign @ (":=" | "=")), ..] => {
            let (name, declares) = (name.clone(), *sign == ":=");
            let value = expression(line, words.split_off(2))?;
            Ok(if declares { Node::Declare(line, name, value) } else { Node::Assign(line, name, value) })
        }
        _ => Ok(Node::Print(line, expression(line, words)?)),
    }
}

fn expression(line: usize, words: Vec<Word>) -> Result<Expression, Problem> {
    let mut words = words.into_iter().peekable();
    let parsed = pipeline(&mut words, 0).map_err(|problem| (line, problem))?;
    match words.next() {
        None => Ok(parsed),
        Some(_) => Err((line, "unexpected words after an expression".to_owned())),
    }
}

type Words = Peekable<IntoIter<Word>>;

/// Commands between `|`: the value of one is the last argument of the next.
fn pipeline(words: &mut Words, depth: usize) -> Result<Expression, String> {
    if depth > DEPTH {
        return Err(format!("more than {DEPTH} parentheses are in each other"));
    }
    let mut value = command(words, depth, None)?;
    while words.next_if_eq(&Word::Sign("|")).is_some() {
        value = command(words, depth, Some(value))?;
    }
    Ok(value)
}

fn command(words: &mut Words, depth: usize, piped: Option<Expression>) -> Result<Expression, String> {
    let function = match words.peek() {
        Some(Word::Name(name)) if name != "true" && name != "false" => {
            let function = Function::named(name);
            Some(function.ok_or_else(|| format!("function {name:?} is not supported"))?)
        }
        _ => None,
    };
    let Some(function) = function else {
        return match piped {
            None => operand(words, depth),
            Some(_) => Err("\"|\" needs a function behind it".to_owned()),
        };
    };
    words.next();
    let mut arguments = Vec::new();
    while words.peek().is_some_and(|word| !matches!(word, Word::Sign("|" | ")"))) {
        arguments.push(operand(words, depth)?);
    }
    arguments.extend(piped);
    Ok(Expression::Call(function, arguments))
}

fn operand(words: &mut Words, depth: usize) -> Result<Expression, String> {
    Ok(match words.next().ok_or("an expression is missing")? {
        Word::Field(name) => Expression::Field(name),
        Word::Variable(name) => Expression::Variable(name),
        Word::Text(text) => Expression::Literal(TemplateValue::Text(text)),
        Word::Number(text) => Expression::Literal(number(&text)?),
        Word::Name(name) if name == "true" || name == "false" => {
            Expression::Literal(TemplateValue::Bool(name == "true"))
        }
        Word::Name(name) => match Function::named(&name) {
            Some(function) => Expression::Call(function, Vec::new()),
            None => return Err(format!("function {name:?} is not supported")),
        },
        Word::Sign("(") => {
            let inner = pipeline(words, depth + 1)?;
            words.next_if_eq(&Word::Sign(")")).ok_or("\"(\" has no \")\"")?;
            inner
        }
        Word::Sign(sign) => return Err(format!("unexpected {sign:?}")),
    })
}

fn number(text: &str) -> Result<TemplateValue, String> {
    let whole = text.parse().map(TemplateValue::Int).ok();
    whole
        .or_else(|| text.parse().map(TemplateValue::Float).ok())
        .ok_or_else(|| format!("{text:?} is not a number"))
}
