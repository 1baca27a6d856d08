//! What the libraries of functions share: arguments by type, and rules of cost.

use std::any::Any;
use std::fmt;

use kstore_cel::{ActualCall, CallEstimate, EstimateCall, EvalError, Opaque, Overload, SizeEstimate, Val};

/// A row of a library: the name of a function, and one overload of it with its cost.
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

/// `size × factor`, rounded up.
pub(super) fn scaled(size: u64, factor: f64) -> u64 {
    SizeEstimate::fixed(size).cost(factor).max
}

/// The estimate of one reading of the first argument, which is not the object of a method call.
pub(super) fn traverse(call: &EstimateCall<'_>) -> Option<CallEstimate> {
    Some(CallEstimate::of(call.arg_size(0).cost(TRAVERSAL)))
}

/// The cost of one reading of the first argument.
pub(super) fn traversed(call: &ActualCall<'_, '_>) -> Option<u64> {
    Some(scaled(call.size(0), TRAVERSAL))
}

/// A value of a Kubernetes type: its type's name, and the size that costs count.
pub(super) trait Named: fmt::Debug + PartialEq + Send + Sync + 'static {
    /// The name of the type.
    const TYPE: &'static str;

    /// The size that costs count.
    fn size(&self) -> u64 {
        1
    }
}

/// A [`Named`] value as an opaque one.
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

/// A value of a Kubernetes type.
pub(super) fn value<'a>(value: impl Named) -> Val<'a> {
    Val::opaque(Wrapped(value))
}
