//! Macros: calls that the parser replaces by comprehensions and presence tests.

use super::Syntax;
use super::builder::{ACCUMULATOR, Builder, operator};
use crate::ast::{Comprehension, Expr, ExprKind, Literal};
use std::sync::Arc;

/// The iteration variable of macros that only bind a value; their loop never runs.
pub(crate) const UNUSED: &str = "#unused";
/// The name that `sortBy` binds its list to.
const SORT_INPUT: &str = "@__sortBy_input__";
const OVERWRITES: &str = "iteration variable overwrites accumulator variable";

/// Offset and text of an error in the arguments of a macro.
type MacroError = (u32, String);

/// The node of a call: the expansion if the call is a macro, else the call itself.
pub(super) fn expand(
    builder: &mut Builder,
    syntax: Syntax,
    at: u32,
    function: &str,
    target: Option<Expr>,
    args: Vec<Expr>,
) -> Result<Expr, MacroError> {
    let mut factory = MacroExpander { builder, at };
    let Some(target) = target else {
        return match (function, args.len()) {
            ("has", 1) if syntax.macros => factory.has(args),
            _ => Ok(factory.builder.call(at, function, args)),
        };
    };
    if !syntax.macros {
        return Ok(factory.builder.member_call(at, function, target, args));
    }
    match (function, args.len()) {
        ("all" | "exists" | "exists_one" | "existsOne", 2) => factory.quantifier(function, target, args),
        ("map", 2 | 3) => factory.map(target, args),
        ("filter", 2) => factory.filter(target, args),
        ("optMap" | "optFlatMap", 2) if syntax.optional => factory.optional(function, target, args),
        ("all" | "exists" | "exists_one" | "existsOne", 3) if syntax.two_variables => {
            factory.two_variables(function, target, args)
        }
        ("transformList" | "transformMap" | "transformMapEntry", 3 | 4) if syntax.two_variables => {
            factory.two_variables(function, target, args)
        }
        ("sortBy", 2) if syntax.sort_by => factory.sort_by(target, args),
        ("bind", 3) if syntax.bind && target.ident().is_some_and(|name| &**name == "cel") => {
            factory.bind(args)
        }
        _ => Ok(factory.builder.member_call(at, function, target, args)),
    }
}

/// The parts of a comprehension that differ between macros.
struct LoopParts {
    init: Expr,
    condition: Expr,
    step: Expr,
    result: Expr,
}

/// Expands one macro; all new nodes have the position of the macro.
struct MacroExpander<'b> {
    builder: &'b mut Builder,
    at: u32,
}

impl MacroExpander<'_> {
    fn accu(&mut self) -> Expr {
        self.builder.accumulator(self.at)
    }

    fn literal(&mut self, literal: Literal) -> Expr {
        self.builder.literal(self.at, literal)
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.builder.call(self.at, function, args)
    }

    fn fail<T>(&self, at: &Expr, message: &str) -> Result<T, MacroError> {
        Err((self.builder.offset(at.id), message.to_owned()))
    }

    fn variable(&self, arg: &Expr, message: &str) -> Result<Arc<str>, MacroError> {
        match arg.ident() {
            Some(name) if &**name == ACCUMULATOR || &**name == "__result__" => self.fail(arg, OVERWRITES),
            Some(name) => Ok(name.clone()),
            None => self.fail(arg, message),
        }
    }

    fn has(&mut self, args: Vec<Expr>) -> Result<Expr, MacroError> {
        let [arg] = <[Expr; 1]>::try_from(args).expect("has takes one argument");
        match arg.kind {
            ExprKind::Select(select) => {
                let select = *select;
                Ok(self.builder.select(self.at, select.operand, select.field, true))
            }
            _ => self.fail(&arg, "invalid argument to has() macro"),
        }
    }

    fn finish(&mut self, range: Expr, vars: (Arc<str>, Option<Arc<str>>), body: LoopParts) -> Expr {
        let comprehension = Comprehension {
            range,
            var: vars.0,
            var2: vars.1,
            accu: Arc::from(ACCUMULATOR),
            init: body.init,
            condition: body.condition,
            step: body.step,
            result: body.result,
        };
        self.builder.comprehension(self.at, comprehension)
    }

    fn quantifier(&mut self, kind: &str, range: Expr, mut args: Vec<Expr>) -> Result<Expr, MacroError> {
        let var = self.variable(&args[0], "argument must be a simple name")?;
        let predicate = args.pop().expect("a quantifier has a predicate");
        let body = self.quantifier_loop(kind, predicate);
        Ok(self.finish(range, (var, None), body))
    }

    fn quantifier_loop(&mut self, kind: &str, predicate: Expr) -> LoopParts {
        match kind {
            "all" => {
                let init = self.literal(Literal::Bool(true));
                let accu = self.accu();
                let condition = self.call(operator::NOT_STRICTLY_FALSE, vec![accu]);
                let accu = self.accu();
                let step = self.call(operator::AND, vec![accu, predicate]);
                LoopParts { init, condition, step, result: self.accu() }
            }
            "exists" => {
                let init = self.literal(Literal::Bool(false));
                let accu = self.accu();
                let not = self.call(operator::NOT, vec![accu]);
                let condition = self.call(operator::NOT_STRICTLY_FALSE, vec![not]);
                let accu = self.accu();
                let step = self.call(operator::OR, vec![accu, predicate]);
                LoopParts { init, condition, step, result: self.accu() }
            }
            _ => {
                let (init, one) = (self.literal(Literal::Int(0)), self.literal(Literal::Int(1)));
                let accu = self.accu();
                let more = self.call(operator::ADD, vec![accu, one]);
                let accu = self.accu();
                let step = self.call(operator::CONDITIONAL, vec![predicate, more, accu]);
                let (accu, one) = (self.accu(), self.literal(Literal::Int(1)));
                let result = self.call(operator::EQUALS, vec![accu, one]);
                LoopParts { init, condition: self.literal(Literal::Bool(true)), step, result }
            }
        }
    }

    /// A loop that adds elements to the accumulator; `added` is the accumulator with one more element.
    fn collecting(&mut self, init: Expr, added: Expr, filter: Option<Expr>) -> LoopParts {
        let step = match filter {
            Some(filter) => {
                let accu = self.accu();
                self.call(operator::CONDITIONAL, vec![filter, added, accu])
            }
            None => added,
        };
        LoopParts { init, condition: self.literal(Literal::Bool(true)), step, result: self.accu() }
    }

    fn list_loop(&mut self, element: Expr, filter: Option<Expr>) -> LoopParts {
        let init = self.builder.list(self.at, Vec::new());
        let one = self.builder.list(self.at, vec![element]);
        let accu = self.accu();
        let added = self.call(operator::ADD, vec![accu, one]);
        self.collecting(init, added, filter)
    }

    fn map(&mut self, range: Expr, mut args: Vec<Expr>) -> Result<Expr, MacroError> {
        let var = self.variable(&args[0], "argument is not an identifier")?;
        let element = args.pop().expect("map has a transformation");
        let filter = (args.len() == 2).then(|| args.pop().expect("two arguments are left"));
        let body = self.list_loop(element, filter);
        Ok(self.finish(range, (var, None), body))
    }

    fn filter(&mut self, range: Expr, mut args: Vec<Expr>) -> Result<Expr, MacroError> {
        let var = self.variable(&args[0], "argument is not an identifier")?;
        let predicate = args.pop().expect("filter has a predicate");
        let element = args.pop().expect("filter has a variable");
        let body = self.list_loop(element, Some(predicate));
        Ok(self.finish(range, (var, None), body))
    }

    fn two_variables(&mut self, kind: &str, range: Expr, mut args: Vec<Expr>) -> Result<Expr, MacroError> {
        let simple = "argument must be a simple name";
        let (first, second) = (self.variable(&args[0], simple)?, self.variable(&args[1], simple)?);
        if first == second {
            return self.fail(&args[1], &format!("duplicate variable name: {first}"));
        }
        let element = args.pop().expect("the macro has a body");
        let filter = (args.len() == 3).then(|| args.pop().expect("three arguments are left"));
        let body = match kind {
            "transformList" => self.list_loop(element, filter),
            "transformMap" | "transformMapEntry" => {
                let init = self.builder.node(self.at, ExprKind::Map(Vec::new()));
                let mut parts = vec![self.accu()];
                if kind == "transformMap" {
                    parts.push(self.builder.ident(self.at, &first));
                }
                parts.push(element);
                let added = self.call(operator::MAP_INSERT, parts);
                self.collecting(init, added, filter)
            }
            _ => self.quantifier_loop(kind, element),
        };
        Ok(self.finish(range, (first, Some(second)), body))
    }

    /// A loop that never runs, which binds `value` to a name within `result`.
    fn binding(&mut self, name: &Arc<str>, value: Expr, result: Expr) -> Expr {
        let comprehension = Comprehension {
            range: self.builder.list(self.at, Vec::new()),
            var: Arc::from(UNUSED),
            var2: None,
            accu: name.clone(),
            init: value,
            condition: self.literal(Literal::Bool(false)),
            step: self.builder.ident(self.at, name),
            result,
        };
        self.builder.comprehension(self.at, comprehension)
    }

    fn bind(&mut self, args: Vec<Expr>) -> Result<Expr, MacroError> {
        let [var, value, result] = <[Expr; 3]>::try_from(args).expect("bind takes three arguments");
        match var.ident() {
            Some(name) => Ok(self.binding(&name.clone(), value, result)),
            None => self.fail(&var, "cel.bind() variable names must be simple identifiers"),
        }
    }

    fn optional(&mut self, kind: &str, target: Expr, args: Vec<Expr>) -> Result<Expr, MacroError> {
        let [var, result] = <[Expr; 2]>::try_from(args).expect("the macro takes two arguments");
        let Some(name) = var.ident().cloned() else {
            return self.fail(&var, &format!("{kind}() variable name must be a simple identifier"));
        };
        let Some(copy) = self.builder.copy(&target) else {
            return self.fail(&target, "expression is too complex");
        };
        let value = self.builder.member_call(self.at, "value", copy, Vec::new());
        let bound = self.binding(&name, value, result);
        let yes = if kind == "optMap" { self.call("optional.of", vec![bound]) } else { bound };
        let has = self.builder.member_call(self.at, "hasValue", target, Vec::new());
        let no = self.call("optional.none", Vec::new());
        Ok(self.call(operator::CONDITIONAL, vec![has, yes, no]))
    }

    fn sort_by(&mut self, target: Expr, args: Vec<Expr>) -> Result<Expr, MacroError> {
        let sortable = matches!(
            target.kind,
            ExprKind::List(_)
                | ExprKind::Select(_)
                | ExprKind::Ident(_)
                | ExprKind::Comprehension(_)
                | ExprKind::Call(_)
        );
        if !sortable {
            let message =
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return self.fail(&target, message);
        }
        let name: Arc<str> = Arc::from(SORT_INPUT);
        let input = self.builder.ident(self.at, &name);
        let keys = self.map(input, args)?;
        let input = self.builder.ident(self.at, &name);
        let sorted = self.builder.member_call(self.at, operator::SORT_BY_KEYS, input, vec![keys]);
        Ok(self.binding(&name, target, sorted))
    }
}
