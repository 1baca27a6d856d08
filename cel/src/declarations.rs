//! The declarations of an environment: variables, types, functions, and optional parts of the language.

use crate::cost::CostRule;
use crate::error::EvalError;
use crate::parse::Syntax;
use crate::types::{Type, TypeProvider};
use crate::value::Val;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Computes the result of a call. The target of a method call is the first argument.
pub type Implementation = Arc<dyn for<'a> Fn(&[Val<'a>]) -> Result<Val<'a>, EvalError> + Send + Sync>;

/// An optional part of the language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Library {
    /// Optional values: `a.?b`, `a[?k]`, `optional.of`, `orValue`, `optMap` and more.
    Optional,
    /// Macros with an index or key and a value: `all(i, v, p)`, `transformMap(k, v, e)` and more.
    TwoVariables,
    /// Functions of strings: `split`, `replace`, `substring`, `format` and more.
    Strings,
    /// `slice`, `flatten`, `sort`, `sortBy`, `lists.range`, `reverse`, `distinct`.
    Lists,
    /// `isSorted`, `sum`, `min`, `max`, and `indexOf`, `lastIndexOf` of lists.
    Aggregates,
    /// `sets.contains`, `sets.equivalent`, `sets.intersects`.
    Sets,
    /// `find` and `findAll`.
    Regex,
    /// `cel.bind`.
    Bind,
}

impl Library {
    /// All libraries.
    pub const ALL: [Self; 8] = [
        Self::Optional,
        Self::TwoVariables,
        Self::Strings,
        Self::Lists,
        Self::Aggregates,
        Self::Sets,
        Self::Regex,
        Self::Bind,
    ];
}

/// One signature of a function, with its implementation and its costs.
#[derive(Clone)]
pub struct Overload {
    pub(crate) id: Arc<str>,
    pub(crate) is_method: bool,
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
    pub(crate) implementation: Implementation,
    pub(crate) cost: Option<CostRule>,
}

impl Overload {
    /// An overload of a function that is called as `f(a, b)`.
    pub fn function(
        id: &str,
        args: impl Into<Vec<Type>>,
        result: Type,
        implementation: impl for<'a> Fn(&[Val<'a>]) -> Result<Val<'a>, EvalError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            id: Arc::from(id),
            is_method: false,
            args: args.into(),
            result,
            implementation: Arc::new(implementation),
            cost: None,
        }
    }

    /// An overload of a method that is called as `a.f(b)`; the type of `a` is the first argument.
    pub fn method(
        id: &str,
        args: impl Into<Vec<Type>>,
        result: Type,
        implementation: impl for<'a> Fn(&[Val<'a>]) -> Result<Val<'a>, EvalError> + Send + Sync + 'static,
    ) -> Self {
        Self { is_method: true, ..Self::function(id, args, result, implementation) }
    }

    /// Sets the cost of a call; the default is 1.
    ///
    /// The evaluator counts by the rule only calls for which the type checker left no other overload.
    #[must_use]
    pub fn cost(mut self, rule: CostRule) -> Self {
        self.cost = Some(rule);
        self
    }
}

/// A function: its overloads, and costs that apply to all overloads.
#[derive(Clone, Default)]
pub(crate) struct Function {
    pub(crate) overloads: Vec<Overload>,
    pub(crate) cost: Option<CostRule>,
    /// Whether the second argument is a regular expression. The planner compiles a constant one.
    pub(crate) matches_pattern: bool,
}

/// The declarations of an environment.
#[derive(Clone)]
pub(crate) struct Declarations {
    pub(crate) variables: BTreeMap<Arc<str>, Type>,
    pub(crate) type_names: BTreeMap<Arc<str>, Type>,
    pub(crate) functions: BTreeMap<Arc<str>, Arc<Function>>,
    pub(crate) provider: Arc<dyn TypeProvider>,
    pub(crate) lazy_objects: BTreeSet<Arc<str>>,
    pub(crate) syntax: Syntax,
}

impl Declarations {
    fn function_mut(&mut self, name: &str) -> &mut Function {
        Arc::make_mut(self.functions.entry(Arc::from(name)).or_default())
    }

    /// Adds an overload, or replaces the overload with the same id.
    pub(crate) fn add(&mut self, function: &str, overload: Overload) {
        let overloads = &mut self.function_mut(function).overloads;
        match overloads.iter_mut().find(|known| known.id == overload.id) {
            Some(known) => *known = overload,
            None => overloads.push(overload),
        }
    }

    /// Sets the cost of calls of a function. It takes precedence over the costs of its overloads.
    pub(crate) fn cost_all(&mut self, function: &str, rule: CostRule) {
        self.function_mut(function).cost = Some(rule);
    }

    pub(crate) fn pattern_function(&mut self, function: &str) {
        self.function_mut(function).matches_pattern = true;
    }
}
