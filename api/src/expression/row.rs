//! Helpers that the function libraries share: typed arguments and cost rules.

use kstore_cel::{CallEstimate, CostRule, EvalError, Opaque, Overload, SizeEstimate, Val};
use std::any::Any;
use std::fmt;

/// Function of a library: its name and one overload with its cost.
pub(super) type Row = (&'static str, Overload);

/// Cost of reading one character of a text.
pub(super) const TRAVERSAL: f64 = 0.1;
/// Cost of one character of a regular expression, times the cost of reading the text.
pub(super) const PATTERN: f64 = 0.25;

/// A text argument.
pub(super) fn text<'v>(args: &'v [Val<'_>], index: usize) -> Result<&'v str, EvalError> {
    args.get(index).and_then(Val::as_str).ok_or(EvalError::NoSuchOverload)
}

/// An argument of an opaque type.
pub(super) fn opaque<'v, T: 'static>(args: &'v [Val<'_>], index: usize) -> Result<&'v T, EvalError> {
    args.get(index).and_then(Val::as_opaque::<T>).ok_or(EvalError::NoSuchOverload)
}

/// Computes `size × factor`, rounded up.
pub(super) fn scaled(size: u64, factor: f64) -> u64 {
    SizeEstimate::fixed(size).cost(factor).max
}

/// Cost of reading the first argument once; the call is not a method call.
pub(super) fn traversal() -> CostRule {
    CostRule::new(
        |call| Some(CallEstimate::of(call.arg_size(0).cost(TRAVERSAL))),
        |call| Some(scaled(call.arg_size(0), TRAVERSAL)),
    )
}

/// Cost of reading the first argument once, with a result of the same size; the call is not a method call.
pub(super) fn conversion() -> CostRule {
    CostRule::new(
        |call| {
            let size = call.arg_size(0);
            Some(CallEstimate::sized(size.cost(TRAVERSAL), size))
        },
        |call| Some(scaled(call.arg_size(0), TRAVERSAL)),
    )
}

/// Value of a Kubernetes type: its type name, and its size for costs.
pub(super) trait Named: fmt::Debug + PartialEq + Send + Sync + 'static {
    /// Name of the type.
    const TYPE: &'static str;

    /// Size for costs.
    fn size(&self) -> u64 {
        1
    }
}

/// Opaque CEL value with a [`Named`] value inside.
#[derive(Debug)]
struct Wrapped<T>(T);

impl<T: Named> Opaque for Wrapped<T> {
    fn type_name(&self) -> &str {
        T::TYPE
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref::<T>().is_some_and(|other| self.0 == *other)
    }

    fn as_any(&self) -> &dyn Any {
        &self.0
    }

    fn size(&self) -> u64 {
        self.0.size()
    }
}

/// The CEL value for a Kubernetes value.
pub(super) fn value<'a>(value: impl Named) -> Val<'a> {
    Val::opaque(Wrapped(value))
}
