//! The type checker: finds the variable or the overloads that each node refers to, and its type.
//!
//! The checker reports all errors of a pass. A node with an error gets a type that fits everywhere, and causes no further errors.

mod constants;
mod unify;

use crate::ast::{Ast, Call, Comprehension, Expr, ExprId, ExprKind, Literal};
use crate::declarations::{Declarations, Function};
use crate::limits::TYPE_PARTS;
use crate::parse::operator;
use crate::source::{ErrorSink, Errors, Source};
use crate::types::{Type, write_list};
use std::sync::Arc;
use unify::{Bindings, instantiate, most_general, optional_of};

/// The declaration that a node refers to.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Reference {
    /// No declaration.
    #[default]
    None,
    /// A variable of the environment, or of a comprehension.
    Variable,
    /// A type, by its name.
    TypeName(Type),
    /// The overloads of a called function, by index. More than one if the argument types are known only at evaluation.
    Overloads(Vec<usize>),
}

/// A checked syntax tree: the type and the reference of each node, by node number.
#[derive(Debug, Clone)]
pub(crate) struct CheckedTree {
    pub(crate) ast: Ast,
    pub(crate) types: Vec<Type>,
    pub(crate) references: Vec<Reference>,
}

impl CheckedTree {
    pub(crate) fn ty(&self, expr: &Expr) -> &Type {
        self.types.get(expr.id as usize).unwrap_or(&Type::Dyn)
    }

    pub(crate) fn reference(&self, expr: &Expr) -> &Reference {
        self.references.get(expr.id as usize).unwrap_or(&Reference::None)
    }
}

/// Checks a tree and resolves its qualified names.
pub(crate) fn check(ast: Ast, source: &Source, declarations: &Declarations) -> Result<CheckedTree, Errors> {
    let count = ast.offsets.len();
    let mut checker = TypeChecker {
        declarations,
        offsets: &ast.offsets,
        types: vec![Type::Dyn; count],
        references: vec![Reference::None; count],
        bindings: Bindings::default(),
        scopes: Vec::new(),
        errors: ErrorSink::default(),
    };
    let mut root = ast.root.clone();
    checker.check(&mut root);
    let types = checker.types.iter().map(|ty| checker.bindings.resolve(ty, true)).collect();
    let (mut errors, references) = (checker.errors, checker.references);
    errors.finish(source)?;
    let tree = CheckedTree { ast: Ast { root, offsets: ast.offsets }, types, references };
    constants::check(&tree, declarations, &mut errors);
    errors.finish(source)?;
    Ok(tree)
}

struct TypeChecker<'d> {
    declarations: &'d Declarations,
    offsets: &'d [u32],
    types: Vec<Type>,
    references: Vec<Reference>,
    bindings: Bindings,
    /// Variables of the comprehensions around the node, the innermost last.
    scopes: Vec<(Arc<str>, Type)>,
    errors: ErrorSink,
}

impl TypeChecker<'_> {
    fn report(&mut self, id: ExprId, message: String) {
        self.errors.report(self.offsets[id as usize], message);
    }

    fn undeclared(&mut self, id: ExprId, name: &str) -> Type {
        self.report(id, format!("undeclared reference to '{name}' (in container '')"));
        Type::Error
    }

    fn mismatch(&mut self, id: ExprId, expected: &Type, found: &Type) {
        self.report(id, format!("expected type '{expected}' but found '{found}'"));
    }

    fn ty(&self, expr: &Expr) -> &Type {
        &self.types[expr.id as usize]
    }

    fn check(&mut self, expr: &mut Expr) {
        let ty = match &mut expr.kind {
            ExprKind::Error => Type::Error,
            ExprKind::Literal(literal) => literal_type(literal),
            ExprKind::Ident(name) => {
                let name = name.clone();
                match self.resolve(&name) {
                    Some((ty, reference)) => {
                        self.references[expr.id as usize] = reference;
                        ty
                    }
                    None => self.undeclared(expr.id, &name),
                }
            }
            ExprKind::Select(_) => self.select(expr),
            ExprKind::Call(_) => self.call(expr),
            ExprKind::List(list) => {
                let mut element = None;
                for (item, optional) in list.elements.iter_mut().zip(&list.optional) {
                    self.check(item);
                    let ty = self.entry_type(item, *optional);
                    element = Some(self.join(element, ty));
                }
                Type::list(element.unwrap_or_else(|| self.bindings.fresh()))
            }
            ExprKind::Map(entries) => {
                let (mut key, mut value) = (None, None);
                for entry in entries {
                    self.check(&mut entry.key);
                    key = Some(self.join(key, self.ty(&entry.key).clone()));
                    self.check(&mut entry.value);
                    let ty = self.entry_type(&entry.value, entry.optional);
                    value = Some(self.join(value, ty));
                }
                let key = key.unwrap_or_else(|| self.bindings.fresh());
                Type::map(key, value.unwrap_or_else(|| self.bindings.fresh()))
            }
            ExprKind::Struct(_) => self.struct_literal(expr),
            ExprKind::Comprehension(comprehension) => self.comprehension(comprehension),
        };
        let ty = if ty.has_at_most(TYPE_PARTS) {
            ty
        } else {
            self.report(expr.id, "type of the expression is too complex".to_owned());
            Type::Error
        };
        self.types[expr.id as usize] = ty;
    }

    /// The type of a name, and the variable or type that it refers to.
    fn resolve(&self, name: &str) -> Option<(Type, Reference)> {
        let local = self.scopes.iter().rev().find(|(known, _)| &**known == name);
        if let Some((_, ty)) = local {
            return Some((ty.clone(), Reference::Variable));
        }
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some(ty) = self.declarations.variables.get(name) {
            return Some((ty.clone(), Reference::Variable));
        }
        let ty = self.type_named(name)?;
        Some((Type::type_of(ty.clone()), Reference::TypeName(ty)))
    }

    fn type_named(&self, name: &str) -> Option<Type> {
        let known = self.declarations.type_names.get(name).cloned();
        known.or_else(|| self.declarations.provider.has_type(name).then(|| Type::object(name)))
    }

    fn select(&mut self, expr: &mut Expr) -> Type {
        if let Some(resolved) = self.qualified(expr) {
            return resolved;
        }
        let id = expr.id;
        let ExprKind::Select(select) = &mut expr.kind else { return Type::Error };
        let field = select.field.clone();
        let ty = self.field(id, &mut select.operand, &field, false);
        if select.test_only { Type::Bool } else { self.bindings.resolve(&ty, false) }
    }

    /// Replaces a selection such as `a.b` by a name, if a variable or type has the dotted name `a.b`.
    fn qualified(&mut self, expr: &mut Expr) -> Option<Type> {
        let name = expr.qualified_name()?;
        let first = name.trim_start_matches('.').split('.').next().unwrap_or_default();
        if self.scopes.iter().any(|(known, _)| &**known == first) {
            return None;
        }
        let (ty, reference) = self.resolve(&name)?;
        self.references[expr.id as usize] = reference;
        expr.kind = ExprKind::Ident(Arc::from(name));
        Some(ty)
    }

    /// The type of a field of an operand.
    fn field(&mut self, id: ExprId, operand: &mut Expr, field: &str, optional: bool) -> Type {
        self.check(operand);
        let operand = self.bindings.resolve(self.ty(operand), false);
        let (target, was_optional) =
            operand.unwrapped().map_or((operand.clone(), false), |inner| (inner.clone(), true));
        let ty = match &target {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(name) => self.object_field(id, name, field),
            Type::Var(_) => {
                self.bindings.assign(&Type::Dyn, &target);
                Type::Dyn
            }
            other => {
                if !other.is_dyn_or_error() {
                    self.report(id, format!("type '{other}' does not support field selection"));
                }
                Type::Dyn
            }
        };
        if was_optional || optional { optional_of(ty) } else { ty }
    }

    fn object_field(&mut self, id: ExprId, name: &str, field: &str) -> Type {
        let provider = self.declarations.provider.clone();
        if !provider.has_type(name) {
            self.report(id, format!("unexpected failed resolution of '{name}'"));
            return Type::Error;
        }
        provider.field(name, field).unwrap_or_else(|| {
            self.report(id, format!("undefined field '{field}'"));
            Type::Error
        })
    }

    /// The type of a list element or of a value in a map or struct, unwrapped if it is marked optional.
    fn entry_type(&mut self, value: &Expr, optional: bool) -> Type {
        let ty = self.bindings.resolve(self.ty(value), false);
        if !optional {
            return ty;
        }
        match ty.unwrapped() {
            Some(inner) => inner.clone(),
            None => {
                if !ty.is_dyn_or_error() {
                    self.mismatch(value.id, &optional_of(ty.clone()), &ty);
                }
                ty
            }
        }
    }

    /// The element type of a list that has elements of both types.
    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        match previous {
            None => current,
            Some(previous) if self.bindings.assign(&previous, &current) => most_general(&previous, &current),
            Some(_) => Type::Dyn,
        }
    }

    fn call(&mut self, expr: &mut Expr) -> Type {
        let id = expr.id;
        let ExprKind::Call(call) = &mut expr.kind else { return Type::Error };
        if &*call.function == operator::OPT_SELECT {
            return self.optional_select(id, call);
        }
        for arg in &mut call.args {
            self.check(arg);
        }
        if let Some(target) = &call.target {
            let name = target.qualified_name().map(|prefix| format!("{prefix}.{}", call.function));
            let name = name.map(|name| Arc::from(name.trim_start_matches('.')));
            if let Some(name) = name.filter(|name: &Arc<str>| self.declarations.functions.contains_key(name))
            {
                call.target = None;
                call.function = name;
            }
        }
        if let Some(target) = &mut call.target {
            self.check(target);
        }
        let name: Arc<str> = Arc::from(call.function.trim_start_matches('.'));
        call.function = name.clone();
        let Some(function) = self.declarations.functions.get(&name).cloned() else {
            return self.undeclared(id, &name);
        };
        self.overload(id, call, &function)
    }

    fn optional_select(&mut self, id: ExprId, call: &mut Call) -> Type {
        let field = match call.args.get(1).and_then(Expr::literal) {
            Some(Literal::String(field)) => field.clone(),
            _ => {
                self.report(id, "unsupported optional field selection".to_owned());
                return Type::Error;
            }
        };
        let ty = self.field(id, &mut call.args[0], &field, true);
        self.types[call.args[1].id as usize] = Type::String;
        self.references[id as usize] = Reference::Overloads(Vec::new());
        self.bindings.resolve(&ty, false)
    }

    /// Finds the overloads that fit the arguments of a call, and the type of the result.
    fn overload(&mut self, id: ExprId, call: &Call, function: &Function) -> Type {
        let args: Vec<Type> = call.target.iter().chain(&call.args).map(|arg| self.ty(arg).clone()).collect();
        let is_method = call.target.is_some();
        if matches!(&*call.function, operator::AND | operator::OR) {
            return self.logic(id, call, &args);
        }
        let (mut found, mut result): (Vec<usize>, Option<Type>) = (Vec::new(), None);
        for (index, overload) in function.overloads.iter().enumerate() {
            if overload.is_method != is_method || overload.args.len() != args.len() {
                continue;
            }
            let mut variables: Vec<(Arc<str>, Type)> = Vec::new();
            let bindings = &mut self.bindings;
            let mut fresh = |name: &Arc<str>| match variables.iter().find(|(known, _)| known == name) {
                Some((_, variable)) => variable.clone(),
                None => {
                    variables.push((name.clone(), bindings.fresh()));
                    variables[variables.len() - 1].1.clone()
                }
            };
            let wanted: Vec<Type> = overload.args.iter().map(|ty| instantiate(ty, &mut fresh)).collect();
            let returned = instantiate(&overload.result, &mut fresh);
            if !self.bindings.assign_all(args.iter().zip(&wanted)) {
                continue;
            }
            found.push(index);
            let returned = self.bindings.resolve(&returned, false);
            result = Some(match result {
                None => returned,
                Some(known) if known == Type::Dyn || known == returned => known,
                Some(_) => Type::Dyn,
            });
        }
        match result {
            Some(ty) => {
                self.references[id as usize] = Reference::Overloads(found);
                ty
            }
            None => self.no_overload(id, &call.function, &args, is_method),
        }
    }

    fn logic(&mut self, id: ExprId, call: &Call, args: &[Type]) -> Type {
        let mut ty = Type::Bool;
        for (arg, found) in call.args.iter().zip(args) {
            if !self.bindings.assign(found, &Type::Bool) {
                let found = self.bindings.resolve(found, true);
                self.mismatch(arg.id, &Type::Bool, &found);
                ty = Type::Error;
            }
        }
        self.references[id as usize] = Reference::Overloads(vec![0]);
        ty
    }

    fn no_overload(&mut self, id: ExprId, function: &str, args: &[Type], is_method: bool) -> Type {
        let args: Vec<Type> = args.iter().map(|ty| self.bindings.resolve(ty, true)).collect();
        let (target, rest) = args.split_at(usize::from(is_method));
        let mut signature = target.first().map(|ty| format!("{ty}.")).unwrap_or_default();
        signature.push('(');
        write_list(&mut signature, rest).expect("writing to a string succeeds");
        signature.push(')');
        self.report(id, format!("found no matching overload for '{function}' applied to '{signature}'"));
        Type::Error
    }

    fn struct_literal(&mut self, expr: &mut Expr) -> Type {
        let id = expr.id;
        let ExprKind::Struct(literal) = &mut expr.kind else { return Type::Error };
        let name: Arc<str> = Arc::from(literal.type_name.trim_start_matches('.'));
        literal.type_name = name.clone();
        let ty = match self.type_named(&name) {
            None => return self.undeclared(id, &name),
            Some(Type::Object(_)) if self.declarations.provider.is_constructible(&name) => {
                Type::Object(name.clone())
            }
            Some(_) => {
                self.report(id, format!("'{name}' is not a message type"));
                Type::Error
            }
        };
        for field in &mut literal.fields {
            self.check(&mut field.value);
            let wanted =
                if ty == Type::Error { Type::Error } else { self.object_field(field.id, &name, &field.name) };
            let found = self.entry_type(&field.value, field.optional);
            if !self.bindings.assign(&wanted, &found) {
                let (field_name, found) = (&field.name, self.bindings.resolve(&found, true));
                let message = format!(
                    "expected type of field '{field_name}' is '{wanted}' but provided type is '{found}'"
                );
                self.report(field.id, message);
            }
        }
        ty
    }

    fn comprehension(&mut self, c: &mut Comprehension) -> Type {
        self.check(&mut c.range);
        self.check(&mut c.init);
        let range = self.bindings.resolve(self.ty(&c.range), false);
        let accu = self.ty(&c.init).clone();
        let (first, second) = self.iteration_types(c.range.id, &range, c.var2.is_some());
        let outside = self.scopes.len();
        self.scopes.push((c.accu.clone(), accu.clone()));
        self.scopes.push((c.var.clone(), first));
        if let Some(var2) = &c.var2 {
            self.scopes.push((var2.clone(), second));
        }
        self.check(&mut c.condition);
        self.require(&c.condition, &Type::Bool);
        self.check(&mut c.step);
        self.require(&c.step, &accu);
        self.scopes.truncate(outside + 1);
        self.check(&mut c.result);
        self.scopes.truncate(outside);
        self.bindings.resolve(self.ty(&c.result), false)
    }

    /// The types of the one or two iteration variables of a comprehension over a range.
    fn iteration_types(&mut self, id: ExprId, range: &Type, two: bool) -> (Type, Type) {
        match range {
            Type::List(element) if two => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Error),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Var(_) => {
                self.bindings.assign(&Type::Dyn, range);
                (Type::Dyn, Type::Dyn)
            }
            _ => {
                self.report(id, format!(
                    "expression of type '{range}' cannot be range of a comprehension (must be list, map, or dynamic)"
                ));
                (Type::Error, Type::Error)
            }
        }
    }

    fn require(&mut self, expr: &Expr, wanted: &Type) {
        let found = self.ty(expr).clone();
        if !self.bindings.assign(wanted, &found) {
            let (wanted, found) =
                (self.bindings.resolve(wanted, false), self.bindings.resolve(&found, false));
            self.mismatch(expr.id, &wanted, &found);
        }
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}
