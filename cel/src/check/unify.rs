//! Assignability and unification of types, with the types that type variables are bound to.

use crate::limits::TYPE_PARTS;
use crate::types::{OPTIONAL, Type};
use std::sync::Arc;

/// The types that type variables are bound to so far.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    bound: Vec<Option<Type>>,
    /// Earlier bindings of changed variables, to roll back a failed attempt.
    trail: Vec<(u32, Option<Type>)>,
}

impl Bindings {
    /// A new type variable.
    pub(super) fn fresh(&mut self) -> Type {
        self.bound.push(None);
        Type::Var((self.bound.len() - 1) as u32)
    }

    fn find(&self, number: u32) -> Option<&Type> {
        self.bound.get(number as usize)?.as_ref()
    }

    fn bind(&mut self, number: u32, ty: Type) {
        let previous = self.bound[number as usize].replace(ty);
        self.trail.push((number, previous));
    }

    /// Whether each type of `from` is assignable to the type of `to` at the same index. Binds variables only if all are.
    pub(super) fn assign_all<'t>(&mut self, pairs: impl IntoIterator<Item = (&'t Type, &'t Type)>) -> bool {
        self.trail.clear();
        for (from, to) in pairs {
            if !self.assignable(from, to) {
                while let Some((number, previous)) = self.trail.pop() {
                    self.bound[number as usize] = previous;
                }
                return false;
            }
        }
        true
    }

    /// Whether a type is assignable to another.
    pub(super) fn assign(&mut self, from: &Type, to: &Type) -> bool {
        self.assign_all([(from, to)])
    }

    fn assignable(&mut self, a: &Type, b: &Type) -> bool {
        if let Type::Var(number) = b {
            let (fits, had_binding) = self.substitutes(a, *number);
            if fits || had_binding {
                return fits;
            }
        }
        if let Type::Var(number) = a {
            return self.substitutes(b, *number).0;
        }
        if a.is_dyn_or_error() || b.is_dyn_or_error() {
            return true;
        }
        match (a, b) {
            (Type::Null, other) | (other, Type::Null) => is_nullable(other),
            (Type::Type(_), other) => matches!(other, Type::Type(_)),
            (Type::List(a), Type::List(b)) => self.assignable(a, b),
            (Type::Map(ak, av), Type::Map(bk, bv)) => self.assignable(ak, bk) && self.assignable(av, bv),
            (Type::Opaque(a, ap), Type::Opaque(b, bp)) => {
                a == b && ap.len() == bp.len() && ap.iter().zip(&**bp).all(|(a, b)| self.assignable(a, b))
            }
            _ => a == b,
        }
    }

    /// Whether the variable can be bound to `ty`, and whether it was bound before.
    fn substitutes(&mut self, ty: &Type, variable: u32) -> (bool, bool) {
        if *ty == Type::Var(variable) {
            return (true, true);
        }
        if let Some(bound) = self.find(variable).cloned() {
            if *ty == bound {
                return (true, true);
            }
            if !self.assignable(ty, &bound) {
                return (false, true);
            }
            let general = most_general(ty, &bound);
            if self.is_free_of(variable, &general) {
                self.bind(variable, general);
            }
            return (true, true);
        }
        if self.is_free_of(variable, ty) {
            self.bind(variable, ty.clone());
            return (true, false);
        }
        (false, false)
    }

    /// Whether the type is free of the variable.
    fn is_free_of(&self, variable: u32, ty: &Type) -> bool {
        match ty {
            Type::Var(number) => {
                *number != variable && self.find(*number).is_none_or(|bound| self.is_free_of(variable, bound))
            }
            Type::List(element) => self.is_free_of(variable, element),
            Type::Map(key, value) => self.is_free_of(variable, key) && self.is_free_of(variable, value),
            Type::Opaque(_, parameters) => parameters.iter().all(|part| self.is_free_of(variable, part)),
            Type::Type(Some(inner)) => self.is_free_of(variable, inner),
            _ => true,
        }
    }

    /// The type with variables replaced by the types they are bound to; unbound variables become `dyn` on request.
    ///
    /// Parts beyond a bound become `dyn` too; the checker then refuses the type as too complex.
    pub(super) fn resolve(&self, ty: &Type, free_to_dyn: bool) -> Type {
        self.resolve_within(ty, free_to_dyn, &mut (2 * TYPE_PARTS))
    }

    fn resolve_within(&self, ty: &Type, free_to_dyn: bool, left: &mut usize) -> Type {
        let Some(rest) = left.checked_sub(1) else { return Type::Dyn };
        *left = rest;
        let mut part = |part: &Type| self.resolve_within(part, free_to_dyn, left);
        match ty {
            Type::Var(number) => match self.find(*number) {
                Some(bound) => part(bound),
                None if free_to_dyn => Type::Dyn,
                None => ty.clone(),
            },
            Type::List(element) => Type::list(part(element)),
            Type::Map(key, value) => {
                let key = part(key);
                Type::map(key, part(value))
            }
            Type::Opaque(name, parameters) if !parameters.is_empty() => {
                Type::Opaque(name.clone(), parameters.iter().map(part).collect())
            }
            Type::Type(Some(inner)) => Type::type_of(part(inner)),
            _ => ty.clone(),
        }
    }
}

/// A signature's type with its parameters replaced by variables.
pub(super) fn instantiate(ty: &Type, fresh: &mut dyn FnMut(&Arc<str>) -> Type) -> Type {
    match ty {
        Type::Param(name) => fresh(name),
        Type::List(element) => Type::list(instantiate(element, fresh)),
        Type::Map(key, value) => {
            let key = instantiate(key, fresh);
            Type::map(key, instantiate(value, fresh))
        }
        Type::Opaque(name, parameters) if !parameters.is_empty() => {
            Type::Opaque(name.clone(), parameters.iter().map(|one| instantiate(one, fresh)).collect())
        }
        Type::Type(Some(inner)) => Type::type_of(instantiate(inner, fresh)),
        _ => ty.clone(),
    }
}

fn is_nullable(ty: &Type) -> bool {
    matches!(ty, Type::Null | Type::Opaque(..) | Type::Object(_) | Type::Duration | Type::Timestamp)
}

/// The more general of two types that unify.
pub(super) fn most_general(a: &Type, b: &Type) -> Type {
    if is_equal_or_less_specific(a, b) { a.clone() } else { b.clone() }
}

fn is_equal_or_less_specific(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Dyn | Type::Var(_), _) => true,
        (_, Type::Dyn | Type::Var(_)) => false,
        (Type::List(a), Type::List(b)) => is_equal_or_less_specific(a, b),
        (Type::Map(ak, av), Type::Map(bk, bv)) => {
            is_equal_or_less_specific(ak, bk) && is_equal_or_less_specific(av, bv)
        }
        (Type::Opaque(a, ap), Type::Opaque(b, bp)) => {
            a == b
                && ap.len() == bp.len()
                && ap.iter().zip(&**bp).all(|(a, b)| is_equal_or_less_specific(a, b))
        }
        (Type::Type(_), Type::Type(_)) => true,
        _ => a == b,
    }
}

/// The optional type of a type; on request, an optional type is returned unchanged.
pub(super) fn optional_of(ty: Type) -> Type {
    Type::Opaque(Arc::from(OPTIONAL), Arc::from([ty]))
}
