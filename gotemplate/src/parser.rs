//! Builds the tree of a template from its pieces, and resolves its functions and variables. Pure.

use crate::builtin;
use crate::lexer::{Piece, Word};
use crate::limits::{COMMANDS, DEPTH};
use crate::sprig;
use crate::{Functions, TemplateError};
use serde_json::{Number, Value};
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::vec::IntoIter;

/// A part of a template.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// A text that is copied.
    Text(String),
    /// `{{expression}}`
    Print(usize, Expression),
    /// `{{$name := expression}}`
    Declare(usize, String, Expression),
    /// `{{$name = expression}}`
    Assign(usize, String, Expression),
    /// `{{if}}` with its `{{else if}}`, and what `{{else}}` has.
    If(Vec<Branch>, Vec<Node>),
    /// `{{with}}` with its `{{else with}}`, and what `{{else}}` has.
    With(Vec<Branch>, Vec<Node>),
    /// `{{range}}`
    Range(Box<Range>),
    /// `{{template "name" expression}}`
    Call(usize, String, Option<Expression>),
    /// `{{break}}`
    Break,
    /// `{{continue}}`
    Continue,
}

/// A condition and its block.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    pub(crate) line: usize,
    /// `{{if $name := …}}`
    pub(crate) variable: Option<String>,
    pub(crate) condition: Expression,
    pub(crate) then: Vec<Node>,
}

/// A loop.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    pub(crate) line: usize,
    /// None, the element's, or the index' and the element's.
    pub(crate) variables: Vec<String>,
    pub(crate) over: Expression,
    pub(crate) body: Vec<Node>,
    pub(crate) otherwise: Vec<Node>,
}

/// An expression.
#[derive(Clone, Debug)]
pub(crate) enum Expression {
    Literal(Value),
    /// `.a.b`
    Field(Vec<String>),
    /// `$name.a.b`
    Variable(String, Vec<String>),
    /// `(expression).a.b`
    Chain(Box<Expression>, Vec<String>),
    /// `and`: the first argument that is false, or else the last.
    And(Vec<Expression>),
    /// `or`: the first argument that is true, or else the last.
    Or(Vec<Expression>),
    Call(Function, Vec<Expression>),
}

/// A function of this crate.
pub(crate) type Native = fn(&[&Value]) -> Result<Value, String>;

/// A resolved function.
#[derive(Clone, Debug)]
pub(crate) enum Function {
    /// One of this crate.
    Native(&'static str, Native),
    /// One of the caller's.
    Caller(String),
}

/// How a block ended.
enum BlockEnd {
    End,
    /// The words behind `else`.
    Else(usize, Vec<Word>),
    /// The end of the template.
    Text,
}

type Defined = BTreeMap<String, Vec<Node>>;

/// Builds the tree, and those of the templates that it defines.
pub(crate) fn parse(
    pieces: Vec<Piece>,
    functions: &dyn Functions,
) -> Result<(Vec<Node>, Defined), TemplateError> {
    let mut parser = Parser {
        pieces: pieces.into_iter(),
        functions,
        variables: vec![String::new()],
        loops: 0,
        defined: Defined::new(),
        called: Vec::new(),
    };
    let (nodes, end) = parser.block(0)?;
    match end {
        BlockEnd::Text => {}
        BlockEnd::End => return Err(TemplateError::new(parser.line(), "{{end}} closes nothing")),
        BlockEnd::Else(line, _) => return Err(TemplateError::new(line, "{{else}} is in no block")),
    }
    for (line, name) in &parser.called {
        if !parser.defined.contains_key(name) {
            return Err(TemplateError::new(*line, format!("template {name:?} is not defined")));
        }
    }
    Ok((nodes, parser.defined))
}

struct Parser<'f> {
    pieces: IntoIter<Piece>,
    functions: &'f dyn Functions,
    /// Variables in the order of their declaration.
    variables: Vec<String>,
    /// Loops around the current place.
    loops: usize,
    defined: Defined,
    /// Templates that are called, with their lines.
    called: Vec<(usize, String)>,
}

impl Parser<'_> {
    /// The line of the next action, or zero.
    fn line(&self) -> usize {
        let lines = self.pieces.as_slice().iter().filter_map(|piece| match piece {
            Piece::Action(line, _) => Some(*line),
            Piece::Text(_) => None,
        });
        lines.min().unwrap_or(1)
    }

    /// A block, whose variables end with it.
    fn scope(&mut self, depth: usize) -> Result<(Vec<Node>, BlockEnd), TemplateError> {
        let outer = self.variables.len();
        let block = self.block(depth);
        self.variables.truncate(outer);
        block
    }

    fn block(&mut self, depth: usize) -> Result<(Vec<Node>, BlockEnd), TemplateError> {
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
                return Err(TemplateError::new(line, format!("more than {DEPTH} blocks are in each other")));
            }
            let keyword = match words.first() {
                Some(Word::Name(name)) => name.clone(),
                _ => String::new(),
            };
            let mut behind = || words.split_off(1);
            match &*keyword {
                "end" => return Ok((nodes, BlockEnd::End)),
                "else" => return Ok((nodes, BlockEnd::Else(line, behind()))),
                "if" | "with" => nodes.push(self.branches(&keyword, line, behind(), depth)?),
                "range" => nodes.push(self.range(line, behind(), depth)?),
                "define" | "block" => nodes.extend(self.define(&keyword, line, behind(), depth)?),
                "template" => nodes.push(self.call(line, behind())?),
                "break" | "continue" if self.loops == 0 => {
                    return Err(TemplateError::new(line, format!("{keyword:?} is outside of a range")));
                }
                "break" => nodes.push(Node::Break),
                "continue" => nodes.push(Node::Continue),
                _ => nodes.push(self.statement(line, words)?),
            }
        }
        Ok((nodes, BlockEnd::Text))
    }

    /// `if` or `with`, up to its `end`.
    fn branches(
        &mut self,
        keyword: &str,
        line: usize,
        words: Vec<Word>,
        depth: usize,
    ) -> Result<Node, TemplateError> {
        let outer = self.variables.len();
        let (mut branches, mut next) = (Vec::new(), Some((line, words)));
        let mut otherwise = Vec::new();
        while let Some((line, mut words)) = next.take() {
            let mut variable = None;
            if let [Word::Variable(name, path), Word::Sign(":="), ..] = &words[..]
                && path.is_empty()
            {
                variable = Some(name.clone());
                words = words.split_off(2);
            }
            let condition = self.expression(line, words)?;
            self.variables.extend(variable.clone());
            let (then, end) = self.scope(depth + 1)?;
            branches.push(Branch { line, variable, condition, then });
            match end {
                BlockEnd::End => {}
                BlockEnd::Text => {
                    return Err(TemplateError::new(line, format!("{keyword:?} has no {{{{end}}}}")));
                }
                BlockEnd::Else(at, mut words) => match words.first() {
                    Some(Word::Name(name)) if name == keyword => next = Some((at, words.split_off(1))),
                    Some(_) => return Err(TemplateError::new(at, "unexpected words behind \"else\"")),
                    None => otherwise = self.last_block(at, keyword, depth)?,
                },
            }
        }
        self.variables.truncate(outer);
        Ok(match keyword {
            "if" => Node::If(branches, otherwise),
            _ => Node::With(branches, otherwise),
        })
    }

    /// The block of an `else`.
    fn last_block(&mut self, line: usize, keyword: &str, depth: usize) -> Result<Vec<Node>, TemplateError> {
        match self.scope(depth + 1)? {
            (nodes, BlockEnd::End) => Ok(nodes),
            _ => Err(TemplateError::new(line, format!("{keyword:?} has no {{{{end}}}} after {{{{else}}}}"))),
        }
    }

    fn range(&mut self, line: usize, mut words: Vec<Word>, depth: usize) -> Result<Node, TemplateError> {
        let mut variables = Vec::new();
        if let Some(sign) = words.iter().position(|word| *word == Word::Sign(":=")) {
            let over = words.split_off(sign + 1);
            for word in words {
                match word {
                    Word::Variable(name, path) if path.is_empty() && variables.len() < 2 => {
                        variables.push(name);
                    }
                    Word::Sign(":=" | ",") => {}
                    _ => {
                        let problem = "\"range\" takes one or two variables before \":=\"";
                        return Err(TemplateError::new(line, problem));
                    }
                }
            }
            words = over;
        }
        let over = self.expression(line, words)?;
        let outer = self.variables.len();
        self.variables.extend(variables.iter().cloned());
        self.loops += 1;
        let block = self.scope(depth + 1);
        self.loops -= 1;
        self.variables.truncate(outer);
        let (body, end) = block?;
        let otherwise = match end {
            BlockEnd::End => Vec::new(),
            BlockEnd::Else(at, words) if words.is_empty() => self.last_block(at, "range", depth)?,
            BlockEnd::Else(at, _) => return Err(TemplateError::new(at, "unexpected words behind \"else\"")),
            BlockEnd::Text => return Err(TemplateError::new(line, "\"range\" has no {{end}}")),
        };
        Ok(Node::Range(Box::new(Range { line, variables, over, body, otherwise })))
    }

    /// `define "name"`, or `block "name" expression`, which also calls what it defines.
    fn define(
        &mut self,
        keyword: &str,
        line: usize,
        mut words: Vec<Word>,
        depth: usize,
    ) -> Result<Option<Node>, TemplateError> {
        let is_block = keyword == "block";
        if depth > 0 && !is_block {
            return Err(TemplateError::new(line, "\"define\" is inside of a block"));
        }
        let Some(Word::Text(name)) = words.first().cloned() else {
            return Err(TemplateError::new(line, format!("{keyword:?} needs a quoted name")));
        };
        let expression = match words.split_off(1) {
            rest if is_block => Some(self.expression(line, rest)?),
            rest if rest.is_empty() => None,
            _ => return Err(TemplateError::new(line, "unexpected words behind the name of a template")),
        };
        let outer = std::mem::replace(&mut self.variables, vec![String::new()]);
        let loops = std::mem::take(&mut self.loops);
        let block = self.block(depth + 1);
        (self.variables, self.loops) = (outer, loops);
        match block? {
            (nodes, BlockEnd::End) => self.defined.insert(name.clone(), nodes),
            _ => return Err(TemplateError::new(line, format!("{keyword:?} has no {{{{end}}}}"))),
        };
        Ok(is_block.then_some(Node::Call(line, name, expression)))
    }

    fn call(&mut self, line: usize, mut words: Vec<Word>) -> Result<Node, TemplateError> {
        let Some(Word::Text(name)) = words.first().cloned() else {
            return Err(TemplateError::new(line, "\"template\" needs a quoted name"));
        };
        let rest = words.split_off(1);
        let expression = if rest.is_empty() { None } else { Some(self.expression(line, rest)?) };
        self.called.push((line, name.clone()));
        Ok(Node::Call(line, name, expression))
    }

    /// An action that is no block.
    fn statement(&mut self, line: usize, mut words: Vec<Word>) -> Result<Node, TemplateError> {
        match &words[..] {
            [Word::Variable(name, path), Word::Sign(sign @ (":=" | "=")), ..] if path.is_empty() => {
                let (name, declares) = (name.clone(), *sign == ":=");
                let value = self.expression(line, words.split_off(2))?;
                if declares {
                    self.variables.push(name.clone());
                    return Ok(Node::Declare(line, name, value));
                }
                if !self.variables.contains(&name) {
                    return Err(TemplateError::new(line, format!("undefined variable ${name}")));
                }
                Ok(Node::Assign(line, name, value))
            }
            _ => Ok(Node::Print(line, self.expression(line, words)?)),
        }
    }

    fn expression(&self, line: usize, words: Vec<Word>) -> Result<Expression, TemplateError> {
        if words.iter().filter(|word| **word == Word::Sign("|")).count() > COMMANDS {
            return Err(TemplateError::new(line, format!("an action has more than {COMMANDS} commands")));
        }
        let mut words = words.into_iter().peekable();
        let parsed = self.pipeline(&mut words, 0).map_err(|problem| TemplateError::new(line, problem))?;
        match words.next() {
            None => Ok(parsed),
            Some(_) => Err(TemplateError::new(line, "unexpected words after an expression")),
        }
    }

    /// Commands between `|`: the value of one is the last argument of the next.
    fn pipeline(&self, words: &mut Words, depth: usize) -> Result<Expression, String> {
        if depth > DEPTH {
            return Err(format!("more than {DEPTH} parentheses are in each other"));
        }
        let mut value = self.command(words, depth, None)?;
        let mut length = 0;
        while words.next_if_eq(&Word::Sign("|")).is_some() {
            length += 1;
            if length > DEPTH {
                return Err(format!("a pipeline has more than {DEPTH} commands"));
            }
            value = self.command(words, depth, Some(value))?;
        }
        Ok(value)
    }

    fn command(
        &self,
        words: &mut Words,
        depth: usize,
        piped: Option<Expression>,
    ) -> Result<Expression, String> {
        let name = match words.peek() {
            Some(Word::Name(name)) if !is_constant(name) => name.clone(),
            _ if piped.is_some() => return Err("\"|\" needs a function behind it".to_owned()),
            _ => return self.operand(words, depth),
        };
        words.next();
        let mut arguments = Vec::new();
        while words.peek().is_some_and(|word| !matches!(word, Word::Sign("|" | ")"))) {
            arguments.push(self.operand(words, depth)?);
        }
        arguments.extend(piped);
        self.function(&name, arguments)
    }

    /// A call of the function with this name.
    fn function(&self, name: &str, arguments: Vec<Expression>) -> Result<Expression, String> {
        if self.functions.has(name) {
            return Ok(Expression::Call(Function::Caller(name.to_owned()), arguments));
        }
        match name {
            "and" | "or" if arguments.is_empty() => Err(format!("{name:?} needs arguments")),
            "and" => Ok(Expression::And(arguments)),
            "or" => Ok(Expression::Or(arguments)),
            _ => {
                let mut all = builtin::TABLE.iter().chain(sprig::TABLE);
                let found = all.find(|(known, _)| *known == name);
                let (name, native) = found.ok_or_else(|| format!("function {name:?} is not supported"))?;
                Ok(Expression::Call(Function::Native(name, *native), arguments))
            }
        }
    }

    fn operand(&self, words: &mut Words, depth: usize) -> Result<Expression, String> {
        Ok(match words.next().ok_or("an expression is missing")? {
            Word::Field(path) => Expression::Field(path),
            Word::Variable(name, path) => match self.variables.contains(&name) {
                true => Expression::Variable(name, path),
                false => return Err(format!("undefined variable ${name}")),
            },
            Word::Text(text) => Expression::Literal(Value::String(text)),
            Word::Number(text) => Expression::Literal(Value::Number(number(&text)?)),
            Word::Name(name) if is_constant(&name) => Expression::Literal(match &*name {
                "nil" => Value::Null,
                name => Value::Bool(name == "true"),
            }),
            Word::Name(name) => self.function(&name, Vec::new())?,
            Word::Sign("(") => {
                let inner = self.pipeline(words, depth + 1)?;
                words.next_if_eq(&Word::Sign(")")).ok_or("\"(\" has no \")\"")?;
                match words.next_if(|word| matches!(word, Word::Chain(_))) {
                    Some(Word::Chain(path)) => Expression::Chain(Box::new(inner), path),
                    _ => inner,
                }
            }
            Word::Chain(path) => return Err(format!("unexpected .{}", path.join("."))),
            Word::Sign(sign) => return Err(format!("unexpected {sign:?}")),
        })
    }
}

type Words = Peekable<IntoIter<Word>>;

fn is_constant(name: &str) -> bool {
    matches!(name, "true" | "false" | "nil")
}

fn number(text: &str) -> Result<Number, String> {
    let plain = text.strip_prefix('+').unwrap_or(text);
    let hexadecimal = plain.strip_prefix("0x").map(|digits| i64::from_str_radix(digits, 16).ok());
    let whole = hexadecimal.unwrap_or_else(|| plain.parse().ok()).map(Number::from);
    whole
        .or_else(|| plain.parse().ok().and_then(Number::from_f64))
        .ok_or_else(|| format!("{text:?} is not a number"))
}
