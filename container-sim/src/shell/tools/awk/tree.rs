//! The tree of an awk program.

use crate::shell::regex::Regex;
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) enum Expr {
    Number(f64),
    Text(String),
    Regex(Box<Regex>),
    Variable(String),
    Field(Box<Expr>),
    Element(String, Vec<Expr>),
    /// An operator (empty for `=`), the place and the value.
    Assign(&'static str, Box<Expr>, Box<Expr>),
    /// `++` and `--`: by how much, and whether the old value is the result.
    Step(Box<Expr>, f64, bool),
    Conditional(Box<Expr>, Box<Expr>, Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    Unary(&'static str, Box<Expr>),
    In(Vec<Expr>, String),
    Group(Vec<Expr>),
    Call(String, Vec<Expr>),
    /// `getline`: the place, and the file.
    Getline(Option<Box<Expr>>, Option<Box<Expr>>),
}

#[derive(Debug)]
pub(super) enum Statement {
    Expr(Expr),
    /// The arguments, whether it is `printf`, and the file with whether it is appended.
    Print(Vec<Expr>, bool, Option<(Expr, bool)>),
    If(Expr, Box<Statement>, Option<Box<Statement>>),
    While(Expr, Box<Statement>),
    Do(Box<Statement>, Expr),
    For(Option<Box<Statement>>, Option<Expr>, Option<Box<Statement>>, Box<Statement>),
    ForIn(String, String, Box<Statement>),
    Block(Vec<Statement>),
    Delete(String, Option<Vec<Expr>>),
    Next,
    NextFile,
    Break,
    Continue,
    Exit(Option<Expr>),
    Return(Option<Expr>),
}

#[derive(Debug)]
pub(super) enum Pattern {
    Always,
    Expr(Expr),
    Range(Expr, Expr),
}

#[derive(Debug)]
pub(super) struct Function {
    pub(super) parameters: Vec<String>,
    pub(super) body: Statement,
}

#[derive(Debug, Default)]
pub(super) struct Program {
    pub(super) begin: Vec<Statement>,
    pub(super) end: Vec<Statement>,
    /// The statement is `None` for `print`.
    pub(super) rules: Vec<(Pattern, Option<Statement>)>,
    pub(super) functions: BTreeMap<String, Function>,
}

impl Program {
    /// Whether it reads records by itself.
    pub(super) fn reads(&self) -> bool {
        !self.rules.is_empty() || !self.end.is_empty()
    }
}
