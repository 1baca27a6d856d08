//! Costs: how much work an expression may be, and how much it was.
//!
//! One unit is about the work of a comparison of numbers. Estimates are intervals, computed from the checked tree and the sizes
//! that variables may have; actual costs are counted while an expression runs. All arithmetic saturates at the largest `u64`.

pub(crate) mod estimate;
pub(crate) mod rows;

use crate::types::Type;
use crate::value::Val;
use std::sync::Arc;

/// Cost of a step of traversal over one byte, code point or element of a text or container.
pub(crate) const TRAVERSAL: f64 = 0.1;
/// Cost of a character of a regular expression, times the traversal of the text.
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
    /// The least that an evaluation without error costs.
    pub min: u64,
    /// The most that an evaluation costs.
    pub max: u64,
}

/// An interval of sizes: code points of texts, bytes, elements of lists, entries of maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeEstimate {
    /// The least size.
    pub min: u64,
    /// The largest size.
    pub max: u64,
}

/// `size × factor`, rounded up, saturating.
pub(crate) fn scaled(size: u64, factor: f64) -> u64 {
    let product = (size as f64 * factor).ceil();
    if product >= u64::MAX as f64 { u64::MAX } else { product as u64 }
}

impl CostEstimate {
    /// A cost without an interval.
    #[must_use]
    pub const fn fixed(cost: u64) -> Self {
        Self { min: cost, max: cost }
    }

    /// The sum.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    /// The product.
    #[must_use]
    pub const fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// The product with a factor, rounded up.
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
    /// A size that nothing is known of.
    pub const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    /// A known size.
    #[must_use]
    pub const fn fixed(size: u64) -> Self {
        Self { min: size, max: size }
    }

    /// The sum.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    /// The product.
    #[must_use]
    pub const fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// The product with a factor as cost, rounded up.
    #[must_use]
    pub fn cost(self, factor: f64) -> CostEstimate {
        CostEstimate { min: scaled(self.min, factor), max: scaled(self.max, factor) }
    }

    /// The product with a cost.
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

/// Knows how large the values that variables hold may be.
pub trait SizeProvider {
    /// The size of the value at a path, if anything is known.
    ///
    /// The path is a variable's name and what is selected from it: fields, and `@items`, `@indices`, `@keys` and `@values` for
    /// the parts of lists and maps. It begins with the part if that belongs to no variable, and is empty if nothing is known.
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
    /// The size of the result, if anything is known.
    pub result: Option<SizeEstimate>,
}

impl CallEstimate {
    /// A cost without a known size of the result.
    #[must_use]
    pub const fn of(cost: CostEstimate) -> Self {
        Self { cost, result: None }
    }

    /// A cost and the size of the result.
    #[must_use]
    pub const fn sized(cost: CostEstimate, result: SizeEstimate) -> Self {
        Self { cost, result: Some(result) }
    }
}

/// What an estimator knows of an argument.
#[derive(Debug, Clone)]
pub struct ArgEstimate {
    /// The type.
    pub ty: Type,
    /// Where the value comes from, as [`SizeProvider`] reads it.
    pub path: Vec<Arc<str>>,
    /// The size, if anything is known.
    pub known_size: Option<SizeEstimate>,
    /// The value of an integer literal.
    pub int_literal: Option<i64>,
    /// Whether the argument is a literal.
    pub is_literal: bool,
}

impl ArgEstimate {
    /// The size, or all sizes.
    #[must_use]
    pub fn size(&self) -> SizeEstimate {
        self.known_size.unwrap_or(SizeEstimate::UNKNOWN)
    }

    /// The value of a literal that is not negative; `otherwise` if the argument is no integer literal.
    #[must_use]
    pub fn literal_or(&self, otherwise: u64) -> u64 {
        self.int_literal.map_or(otherwise, |value| u64::try_from(value).unwrap_or(0))
    }
}

/// A call whose cost is to be estimated.
pub struct EstimateCall<'c> {
    /// The overload.
    pub overload: &'c str,
    /// The object of a method call.
    pub target: Option<&'c ArgEstimate>,
    /// The arguments without the object.
    pub args: &'c [ArgEstimate],
    /// The sizes of variables.
    pub sizes: &'c dyn SizeProvider,
}

impl EstimateCall<'_> {
    /// The size of the object of a method call.
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

/// A call that ran.
pub struct ActualCall<'c, 'a> {
    /// The overload, if only one fits the types that the check knew.
    pub overload: Option<&'c str>,
    /// The arguments, the object of a method call first.
    pub args: &'c [Val<'a>],
    /// The result.
    pub result: &'c Val<'a>,
}

impl ActualCall<'_, '_> {
    /// The size of an argument, the object of a method call being the first.
    #[must_use]
    pub fn size(&self, index: usize) -> u64 {
        self.args.get(index).map_or(1, Val::size)
    }
}

/// Estimates a call; none leaves it to the next rule.
pub type Estimator = Arc<dyn Fn(&EstimateCall<'_>) -> Option<CallEstimate> + Send + Sync>;
/// Counts a call; none leaves it to the next rule.
pub type Counter = Arc<dyn Fn(&ActualCall<'_, '_>) -> Option<u64> + Send + Sync>;
