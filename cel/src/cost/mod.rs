//! Costs of expressions: estimates before an evaluation, counts of actual cost during it.
//!
//! One unit is about the work of a comparison of numbers. Estimates are intervals, computed from the checked tree and the sizes
//! that variables may have; actual costs are counted while an expression runs. All arithmetic saturates at the largest `u64`.

pub(crate) mod rows;

use crate::types::Type;
use crate::value::Val;
use std::sync::Arc;

/// Cost of traversing one byte, code point or element.
pub(crate) const TRAVERSAL: f64 = 0.1;
/// Cost of a character of a regular expression, to be multiplied by the traversal cost of the string.
pub(crate) const PATTERN: f64 = 0.25;
/// Cost of making a list.
pub(crate) const LIST: u64 = 10;
/// Cost of making a map.
pub(crate) const MAP: u64 = 30;
/// Cost of making an object.
pub(crate) const OBJECT: u64 = 40;

/// An interval of costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CostEstimate {
    /// The lowest cost of an evaluation without error.
    pub min: u64,
    /// The highest cost of an evaluation.
    pub max: u64,
}

/// An interval of sizes: code points of strings, bytes, elements of lists, entries of maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeEstimate {
    /// The lowest size.
    pub min: u64,
    /// The highest size.
    pub max: u64,
}

/// `size × factor`, rounded up, saturating.
pub(crate) fn scaled(size: u64, factor: f64) -> u64 {
    let product = (size as f64 * factor).ceil();
    if product >= u64::MAX as f64 { u64::MAX } else { product as u64 }
}

impl CostEstimate {
    /// The interval of one cost.
    #[must_use]
    pub const fn fixed(cost: u64) -> Self {
        Self { min: cost, max: cost }
    }

    /// The sum of the two intervals.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    /// The product of the two intervals.
    #[must_use]
    pub const fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// The interval times a factor, rounded up.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self { min: scaled(self.min, factor), max: scaled(self.max, factor) }
    }

    /// The smallest interval around both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

impl SizeEstimate {
    /// The interval of an unknown size: all sizes.
    pub const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    /// The interval of one size.
    #[must_use]
    pub const fn fixed(size: u64) -> Self {
        Self { min: size, max: size }
    }

    /// The sum of the two intervals.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    /// The product of the two intervals.
    #[must_use]
    pub const fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// The cost of the size times a factor, rounded up.
    #[must_use]
    pub fn cost(self, factor: f64) -> CostEstimate {
        CostEstimate { min: scaled(self.min, factor), max: scaled(self.max, factor) }
    }

    /// The size times a cost.
    #[must_use]
    pub const fn times_cost(self, cost: CostEstimate) -> CostEstimate {
        CostEstimate { min: self.min, max: self.max }.times(cost)
    }

    /// The smallest interval around both.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// Gives the sizes that values of variables may have, for cost estimates.
pub trait SizeProvider {
    /// The size of the value at a path; none if unknown.
    ///
    /// The path is the name of a variable and the selections from it: fields, and `@items`, `@indices`, `@keys` and `@values` for
    /// the parts of lists and maps. A path without a variable begins with the part. The path of an unknown origin is empty.
    fn size(&self, path: &[Arc<str>], ty: &Type) -> Option<SizeEstimate>;
}

/// A provider that knows no size.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnknownSizes;

impl SizeProvider for UnknownSizes {
    fn size(&self, _path: &[Arc<str>], _ty: &Type) -> Option<SizeEstimate> {
        None
    }
}

/// The cost of a call without its arguments, and the size of its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallEstimate {
    /// The cost of the call itself.
    pub cost: CostEstimate,
    /// The size of the result; none if unknown.
    pub result: Option<SizeEstimate>,
}

impl CallEstimate {
    /// An estimate whose result has an unknown size.
    #[must_use]
    pub const fn of(cost: CostEstimate) -> Self {
        Self { cost, result: None }
    }

    /// An estimate with the size of the result.
    #[must_use]
    pub const fn sized(cost: CostEstimate, result: SizeEstimate) -> Self {
        Self { cost, result: Some(result) }
    }
}

/// An argument of a call whose cost is estimated.
#[derive(Debug, Clone)]
pub struct ArgEstimate {
    /// The type.
    pub ty: Type,
    /// The origin of the value, as a path of a [`SizeProvider`].
    pub path: Vec<Arc<str>>,
    /// The size; none if unknown.
    pub known_size: Option<SizeEstimate>,
    /// The value, if the argument is an integer literal.
    pub int_literal: Option<i64>,
    /// Whether the argument is a literal.
    pub is_literal: bool,
}

impl ArgEstimate {
    /// The size, or [`SizeEstimate::UNKNOWN`].
    #[must_use]
    pub fn size(&self) -> SizeEstimate {
        self.known_size.unwrap_or(SizeEstimate::UNKNOWN)
    }

    /// The value of an integer literal, 0 if it is negative; `otherwise` if the argument is no integer literal.
    #[must_use]
    pub fn literal_or(&self, otherwise: u64) -> u64 {
        self.int_literal.map_or(otherwise, |value| u64::try_from(value).unwrap_or(0))
    }
}

/// A call whose cost a [`CostRule`] estimates.
pub struct EstimateCall<'c> {
    /// The id of the overload.
    pub overload: &'c str,
    /// The target of a method call.
    pub target: Option<&'c ArgEstimate>,
    /// The arguments, without the target.
    pub args: &'c [ArgEstimate],
    /// The sizes of variables.
    pub sizes: &'c dyn SizeProvider,
}

impl EstimateCall<'_> {
    /// The size of the target of a method call.
    #[must_use]
    pub fn target_size(&self) -> SizeEstimate {
        self.target.map_or(SizeEstimate::UNKNOWN, ArgEstimate::size)
    }

    /// The size of an argument.
    #[must_use]
    pub fn arg_size(&self, index: usize) -> SizeEstimate {
        self.args.get(index).map_or(SizeEstimate::UNKNOWN, ArgEstimate::size)
    }

    /// The type and size of the elements of a list.
    #[must_use]
    pub fn element(&self, list: &ArgEstimate) -> Option<(Type, SizeEstimate)> {
        let element = match &list.ty {
            Type::List(element) | Type::Map(element, _) => (**element).clone(),
            Type::Opaque(_, parameters) => parameters.first()?.clone(),
            _ => return None,
        };
        let mut path = list.path.clone();
        if !path.is_empty() {
            path.push(Arc::from("@items"));
        }
        let size = self.sizes.size(&path, &element).unwrap_or(SizeEstimate::UNKNOWN);
        Some((element, size))
    }
}

/// A finished call whose cost a [`CostRule`] counts. Target and arguments are separate, as in [`EstimateCall`].
pub struct ActualCall<'c, 'a> {
    /// The id of the overload, if the type checker left only one.
    pub overload: Option<&'c str>,
    /// The target of a method call.
    pub target: Option<&'c Val<'a>>,
    /// The arguments, without the target.
    pub args: &'c [Val<'a>],
    /// The result.
    pub result: &'c Val<'a>,
}

impl ActualCall<'_, '_> {
    /// The size of the target of a method call; 1 without a target.
    #[must_use]
    pub fn target_size(&self) -> u64 {
        self.target.map_or(1, Val::size)
    }

    /// The size of an argument; 1 if there is no such argument.
    #[must_use]
    pub fn arg_size(&self, index: usize) -> u64 {
        self.args.get(index).map_or(1, Val::size)
    }
}

/// Estimates the cost of a call. None leaves it to the rule of the overload, or else to the cost 1.
type Estimator = dyn Fn(&EstimateCall<'_>) -> Option<CallEstimate> + Send + Sync;
/// Counts the cost of a call. None leaves it to the rule of the overload, or else to the cost 1.
type Counter = dyn Fn(&ActualCall<'_, '_>) -> Option<u64> + Send + Sync;

/// What a call costs beside its arguments: the estimate before an evaluation, and the count after the call.
#[derive(Clone)]
pub struct CostRule {
    estimator: Arc<Estimator>,
    counter: Arc<Counter>,
}

impl CostRule {
    /// A rule. A function that returns none leaves the cost to the rule of the overload, or else to the cost 1.
    #[must_use]
    pub fn new(
        estimator: impl Fn(&EstimateCall<'_>) -> Option<CallEstimate> + Send + Sync + 'static,
        counter: impl Fn(&ActualCall<'_, '_>) -> Option<u64> + Send + Sync + 'static,
    ) -> Self {
        Self { estimator: Arc::new(estimator), counter: Arc::new(counter) }
    }

    /// The estimate of a call.
    pub(crate) fn estimate(&self, call: &EstimateCall<'_>) -> Option<CallEstimate> {
        (self.estimator)(call)
    }

    /// The cost of a finished call.
    pub(crate) fn count(&self, call: &ActualCall<'_, '_>) -> Option<u64> {
        (self.counter)(call)
    }
}
