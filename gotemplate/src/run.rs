//! Executes templates. Pure.
#![expect(
    clippy::ptr_arg,
    reason = "parts of a borrowed value live as long as the data, which a plain reference does not say"
)]

use crate::limits::{BYTES_PER_STEP, CALLS, NESTING, VALUE_DEPTH};
use crate::parser::{Branch, Expression, Function, Node, Range};
use crate::print::print;
use crate::value::{NULL, is_true, kind, member, member_of, weight};
use crate::{Functions, Limits, Template, TemplateError};
use serde_json::Value;
use std::borrow::Cow;

/// Functions that take as long for large arguments as for small ones, or whose result is an argument or a part of one, which is counted.
const READ_LITTLE: [&str; 13] = [
    "len",
    "index",
    "get",
    "hasKey",
    "empty",
    "not",
    "default",
    "coalesce",
    "ternary",
    "first",
    "last",
    "hasPrefix",
    "hasSuffix",
];

/// The text of a template for `data`.
pub(crate) fn render(
    template: &Template,
    data: &Value,
    functions: &dyn Functions,
    limits: Limits,
) -> Result<String, TemplateError> {
    let variables = vec![("", Cow::Borrowed(data))];
    let (steps, depth, nesting, text) = (0, 0, 0, String::new());
    let mut run = Run { template, functions, limits, steps, depth, nesting, variables, text };
    run.all(&template.nodes, &Cow::Borrowed(data))?;
    Ok(run.text)
}

/// How the execution of a node goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

/// A template that is being executed.
struct Run<'t> {
    template: &'t Template,
    functions: &'t dyn Functions,
    limits: Limits,
    steps: usize,
    /// Templates that have called each other.
    depth: usize,
    /// Blocks, calls and arguments that are being executed.
    nesting: usize,
    /// Variables in the order of their declaration; an inner block's are removed at its end.
    variables: Vec<(&'t str, Cow<'t, Value>)>,
    text: String,
}

impl<'t> Run<'t> {
    fn all(&mut self, nodes: &'t [Node], dot: &Cow<'t, Value>) -> Result<Flow, TemplateError> {
        for node in nodes {
            match self.one(node, dot)? {
                Flow::Next => {}
                other => return Ok(other),
            }
        }
        Ok(Flow::Next)
    }

    /// Executes a block, whose variables end with it.
    fn block(&mut self, nodes: &'t [Node], dot: &Cow<'t, Value>) -> Result<Flow, TemplateError> {
        let outer = self.variables.len();
        let flow = self.all(nodes, dot);
        self.variables.truncate(outer);
        flow
    }

    /// Executes what is in a block, a call or an argument, unless they are too deep in each other for the stack.
    fn nested<T>(
        &mut self,
        line: usize,
        inner: impl FnOnce(&mut Self) -> Result<T, TemplateError>,
    ) -> Result<T, TemplateError> {
        if self.nesting >= NESTING {
            let problem = format!("more than {NESTING} blocks, calls and arguments are in each other");
            return Err(TemplateError::new(line, problem));
        }
        self.nesting += 1;
        let result = inner(self);
        self.nesting -= 1;
        result
    }

    /// Counts steps at a line.
    fn step(&mut self, line: usize, steps: usize) -> Result<(), TemplateError> {
        self.steps = self.steps.saturating_add(steps);
        match self.steps > self.limits.steps {
            true => {
                let problem = format!("the template takes more than {} steps", self.limits.steps);
                Err(TemplateError::new(line, problem))
            }
            false => Ok(()),
        }
    }

    fn check_size(&self, line: usize) -> Result<(), TemplateError> {
        match self.text.len() > self.limits.bytes {
            true => {
                let problem = format!("the output is larger than {} bytes", self.limits.bytes);
                Err(TemplateError::new(line, problem))
            }
            false => Ok(()),
        }
    }

    fn one(&mut self, node: &'t Node, dot: &Cow<'t, Value>) -> Result<Flow, TemplateError> {
        match node {
            Node::Text(text) => {
                self.text.push_str(text);
                self.check_size(0)?;
            }
            Node::Print(line, expression) => {
                let value = self.value(*line, expression, dot)?;
                print(&mut self.text, &value);
                self.check_size(*line)?;
            }
            Node::Declare(line, name, expression) => {
                let value = self.value(*line, expression, dot)?;
                self.variables.push((name, value));
            }
            Node::Assign(line, name, expression) => {
                let value = self.value(*line, expression, dot)?;
                let variable = self.variables.iter_mut().rev().find(|(own, _)| own == name);
                variable.ok_or_else(|| undefined(*line, name))?.1 = value;
            }
            Node::If(branches, otherwise) | Node::With(branches, otherwise) => {
                let (line, sets_dot) =
                    (branches.first().map_or(0, |one| one.line), matches!(node, Node::With(..)));
                return self.nested(line, |run| run.branches(branches, otherwise, dot, sets_dot));
            }
            Node::Range(range) => return self.nested(range.line, |run| run.range(range, dot)),
            Node::Call(line, name, expression) => self.call(*line, name, expression.as_ref(), dot)?,
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn branches(
        &mut self,
        branches: &'t [Branch],
        otherwise: &'t [Node],
        dot: &Cow<'t, Value>,
        sets_dot: bool,
    ) -> Result<Flow, TemplateError> {
        let outer = self.variables.len();
        for Branch { line, variable, condition, then } in branches {
            let value = self.value(*line, condition, dot)?;
            if let Some(name) = variable {
                self.variables.push((name, value.clone()));
            }
            if is_true(&value) {
                let flow = self.block(then, if sets_dot { &value } else { dot });
                self.variables.truncate(outer);
                return flow;
            }
        }
        let flow = self.block(otherwise, dot);
        self.variables.truncate(outer);
        flow
    }

    fn range(&mut self, range: &'t Range, dot: &Cow<'t, Value>) -> Result<Flow, TemplateError> {
        let Range { line, over, body, otherwise, .. } = range;
        let over = self.value(*line, over, dot)?;
        let most = self.limits.steps;
        let rounds = match over {
            Cow::Borrowed(value) => rounds(value, most),
            Cow::Owned(value) => {
                let own =
                    |(index, element): (Value, Cow<'_, Value>)| (index, Cow::Owned(element.into_owned()));
                rounds(&value, most).map(|all| all.into_iter().map(own).collect())
            }
        };
        let rounds: Vec<(Value, Cow<'t, Value>)> =
            rounds.map_err(|problem| TemplateError::new(*line, problem))?;
        if rounds.is_empty() {
            return self.block(otherwise, dot);
        }
        for (index, element) in rounds {
            self.step(*line, 1)?;
            let outer = self.variables.len();
            match &range.variables[..] {
                [] => {}
                [name] => self.variables.push((name, element.clone())),
                [position, name, ..] => {
                    self.variables.push((position, Cow::Owned(index)));
                    self.variables.push((name, element.clone()));
                }
            }
            let flow = self.all(body, &element);
            self.variables.truncate(outer);
            if flow? == Flow::Break {
                break;
            }
        }
        Ok(Flow::Next)
    }

    fn call(
        &mut self,
        line: usize,
        name: &str,
        expression: Option<&'t Expression>,
        dot: &Cow<'t, Value>,
    ) -> Result<(), TemplateError> {
        let data = match expression {
            Some(expression) => self.value(line, expression, dot)?,
            None => Cow::Borrowed(&NULL),
        };
        self.step(line, 1)?;
        if self.depth >= CALLS {
            let problem = format!("more than {CALLS} templates call each other");
            return Err(TemplateError::new(line, problem));
        }
        let template = self.template;
        let Some(nodes) = template.defined.get(name) else {
            return Err(TemplateError::new(line, format!("template {name:?} is not defined")));
        };
        let outer = std::mem::replace(&mut self.variables, vec![("", data.clone())]);
        self.depth += 1;
        let flow = self.all(nodes, &data);
        self.depth -= 1;
        self.variables = outer;
        flow.map(drop)
    }

    fn variable(&self, line: usize, name: &str) -> Result<&Cow<'t, Value>, TemplateError> {
        let found = self.variables.iter().rev().find(|(own, _)| *own == name);
        found.map(|(_, value)| value).ok_or_else(|| undefined(line, name))
    }

    fn value(
        &mut self,
        line: usize,
        expression: &'t Expression,
        dot: &Cow<'t, Value>,
    ) -> Result<Cow<'t, Value>, TemplateError> {
        self.step(line, 1)?;
        self.nested(line, |run| run.evaluated(line, expression, dot))
    }

    fn evaluated(
        &mut self,
        line: usize,
        expression: &'t Expression,
        dot: &Cow<'t, Value>,
    ) -> Result<Cow<'t, Value>, TemplateError> {
        let missing = self.limits.missing;
        let problem = |problem: String| TemplateError::new(line, problem);
        match expression {
            Expression::Literal(value) => Ok(Cow::Borrowed(value)),
            Expression::Field(path) => {
                let found = member_of(dot, path, missing).map_err(problem)?;
                self.charge(line, found)
            }
            Expression::Variable(name, path) => {
                let found = member_of(self.variable(line, name)?, path, missing).map_err(problem)?;
                self.charge(line, found)
            }
            Expression::Chain(inner, path) => {
                let inner = self.value(line, inner, dot)?;
                let found = match inner {
                    Cow::Borrowed(value) => Cow::Borrowed(member(value, path, missing).map_err(problem)?),
                    Cow::Owned(value) => Cow::Owned(member(&value, path, missing).map_err(problem)?.clone()),
                };
                self.charge(line, found)
            }
            Expression::And(arguments) => self.chosen(line, arguments, dot, false),
            Expression::Or(arguments) => self.chosen(line, arguments, dot, true),
            Expression::Call(function, arguments) => {
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    values.push(self.value(line, argument, dot)?);
                }
                let values: Vec<&Value> = values.iter().map(|value| &**value).collect();
                self.charge_arguments(line, function, &values)?;
                let made = match function {
                    Function::Native(name, native) => {
                        native(&values).map_err(|problem| format!("{name}: {problem}"))
                    }
                    Function::Caller(name) => self.functions.call(name, &values),
                };
                let made = made.map_err(problem)?;
                self.charge(line, Cow::Owned(made))
            }
        }
    }

    /// Counts the size of an owned value, and refuses one that is too large.
    fn charge(&mut self, line: usize, value: Cow<'t, Value>) -> Result<Cow<'t, Value>, TemplateError> {
        if let Cow::Owned(made) = &value {
            self.charge_bytes(line, weight(made))?;
        }
        Ok(value)
    }

    /// Counts the size of what a function reads, before it does: what it makes is in proportion to that, or it has a bound of its own.
    fn charge_arguments(
        &mut self,
        line: usize,
        function: &Function,
        values: &[&Value],
    ) -> Result<(), TemplateError> {
        match function {
            Function::Native(name, _) if READ_LITTLE.contains(name) => Ok(()),
            _ => self.charge_bytes(line, values.iter().try_fold(0, |sum, value| Some(sum + weight(value)?))),
        }
    }

    /// Counts bytes that are made or read; `None` stands for values that are too deep.
    fn charge_bytes(&mut self, line: usize, weight: Option<usize>) -> Result<(), TemplateError> {
        let Some(weight) = weight else {
            let problem = format!("a value has more than {VALUE_DEPTH} lists and maps in each other");
            return Err(TemplateError::new(line, problem));
        };
        if weight > self.limits.bytes.saturating_mul(2) {
            let problem = format!("a value is larger than {} bytes", self.limits.bytes);
            return Err(TemplateError::new(line, problem));
        }
        self.step(line, weight / BYTES_PER_STEP)
    }

    /// The first argument that is true or false as `wanted`, or else the last. Later ones are not evaluated.
    fn chosen(
        &mut self,
        line: usize,
        arguments: &'t [Expression],
        dot: &Cow<'t, Value>,
        wanted: bool,
    ) -> Result<Cow<'t, Value>, TemplateError> {
        let mut last = Cow::Borrowed(&NULL);
        for argument in arguments {
            last = self.value(line, argument, dot)?;
            if is_true(&last) == wanted {
                break;
            }
        }
        Ok(last)
    }
}

/// The index and the element of each round, at most `most`.
fn rounds(over: &Value, most: usize) -> Result<Vec<(Value, Cow<'_, Value>)>, String> {
    match over {
        Value::Null => Ok(Vec::new()),
        Value::Array(all) => {
            Ok(all.iter().enumerate().map(|(nth, one)| (Value::from(nth), Cow::Borrowed(one))).collect())
        }
        Value::Object(all) => {
            let mut members: Vec<_> = all.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            Ok(members.into_iter().map(|(name, one)| (Value::from(&**name), Cow::Borrowed(one))).collect())
        }
        Value::Number(number) => {
            let count = number.as_i64().ok_or_else(|| format!("range cannot go over {number}"))?;
            let rounds = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
            if rounds > most {
                return Err(format!("a range over {count} is longer than {most} rounds"));
            }
            Ok((0..rounds).map(|round| (Value::from(round), Cow::Owned(Value::from(round)))).collect())
        }
        other => Err(format!("range cannot go over {}", kind(other))),
    }
}

fn undefined(line: usize, name: &str) -> TemplateError {
    TemplateError::new(line, format!("undefined variable ${name}"))
}
