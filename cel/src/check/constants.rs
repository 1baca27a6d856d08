//! Checks constants in a well-typed tree: strings of durations, timestamps, patterns and formats, and literals of mixed types.

use super::{CheckedTree, Reference};
use crate::ast::{Call, Expr, ExprKind, Literal};
use crate::declarations::Declarations;
use crate::library::{format, pattern};
use crate::source::ErrorSink;
use crate::types::Type;
use crate::value::time;

/// Reports the invalid constants of a tree.
pub(super) fn check(tree: &CheckedTree, declarations: &Declarations, errors: &mut ErrorSink) {
    let mut checker = ConstantChecker { tree, declarations, errors };
    checker.visit(&tree.ast.root, false);
}

struct ConstantChecker<'t> {
    tree: &'t CheckedTree,
    declarations: &'t Declarations,
    errors: &'t mut ErrorSink,
}

impl ConstantChecker<'_> {
    fn report(&mut self, expr: &Expr, message: String) {
        self.errors.report(self.tree.ast.offset(expr.id), message);
    }

    /// Checks a node and its operands. Lists may have mixed types only within arguments of `format`.
    fn visit(&mut self, expr: &Expr, in_format: bool) {
        let mut in_format = in_format;
        match &expr.kind {
            ExprKind::Call(call) => {
                in_format |= &*call.function == "format";
                self.call(expr, call);
            }
            ExprKind::List(_) | ExprKind::Map(_) if !in_format => self.aggregate(expr),
            _ => {}
        }
        for child in expr.children() {
            self.visit(child, in_format);
        }
    }

    fn call(&mut self, expr: &Expr, call: &Call) {
        if let Some(Literal::String(text)) = call.args.first().and_then(Expr::literal) {
            let valid = match &*call.function {
                "duration" => kstore_go_duration::parse(text).is_ok(),
                "timestamp" => time::parse_timestamp(text).is_some(),
                "matches" => pattern::compile(text).is_ok(),
                _ => true,
            };
            if !valid {
                self.report(&call.args[0], format!("invalid {} argument", call.function));
            }
        }
        if &*call.function == "format" && self.is_string_format(expr) {
            self.format(expr, call);
        }
    }

    fn is_string_format(&self, expr: &Expr) -> bool {
        let Reference::Overloads(found) = self.tree.reference(expr) else { return false };
        let overloads = self.declarations.functions.get("format").map(|function| &function.overloads);
        let id = |index: &usize| overloads.and_then(|all| all.get(*index)).map(|overload| &*overload.id);
        found.iter().any(|index| id(index) == Some("string_format"))
    }

    fn format(&mut self, expr: &Expr, call: &Call) {
        let Some(Literal::String(text)) = call.target.as_ref().and_then(Expr::literal) else { return };
        let Some(ExprKind::List(list)) = call.args.first().map(|arg| &arg.kind) else { return };
        let types: Vec<&Type> = list.elements.iter().map(|element| self.tree.ty(element)).collect();
        match format::check(text, &types) {
            Ok(()) => {}
            Err((Some(index), message)) => self.report(&list.elements[index], message),
            Err((None, message)) => self.report(expr, message),
        }
    }

    /// Reports list elements of different types, and map keys or values of different types.
    fn aggregate(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::List(list) => {
                let parts = list.elements.iter().zip(&list.optional);
                self.alike(parts.map(|(element, optional)| (element, *optional)).collect(), true);
            }
            ExprKind::Map(entries) => {
                self.alike(entries.iter().map(|entry| (&entry.key, false)).collect(), false);
                self.alike(entries.iter().map(|entry| (&entry.value, entry.optional)).collect(), false);
            }
            _ => {}
        }
    }

    fn alike(&mut self, parts: Vec<(&Expr, bool)>, only_first: bool) {
        let ty = |(expr, optional): &(&Expr, bool)| {
            let ty = self.tree.ty(expr);
            if *optional { ty.unwrapped().unwrap_or(ty).clone() } else { ty.clone() }
        };
        let Some(expected) = parts.first().map(&ty) else { return };
        let odd: Vec<_> =
            parts.iter().map(|part| (part.0, ty(part))).filter(|(_, found)| *found != expected).collect();
        for (expr, found) in odd.into_iter().take(if only_first { 1 } else { usize::MAX }) {
            self.report(expr, format!("expected type '{expected}' but found '{found}'"));
        }
    }
}
