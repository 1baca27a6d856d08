//! The environment of expressions: variables, types, functions, and optional parts of the language.

use crate::check::check;
use crate::cost::{ActualCall, CallEstimate, Counter, EstimateCall, Estimator};
use crate::error::EvalError;
use crate::library;
use crate::parse::{Syntax, parse};
use crate::program::Checked;
use crate::source::{Errors, Source};
use crate::types::{NoTypes, Type, TypeProvider};
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
    pub(crate) estimator: Option<Estimator>,
    pub(crate) counter: Option<Counter>,
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
            estimator: None,
            counter: None,
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

    /// Sets the cost estimate of a call; the default is 1.
    #[must_use]
    pub fn estimated(
        mut self,
        estimator: impl Fn(&EstimateCall<'_>) -> Option<CallEstimate> + Send + Sync + 'static,
    ) -> Self {
        self.estimator = Some(Arc::new(estimator));
        self
    }

    /// Sets the counter of the actual cost of a call; the default is 1.
    ///
    /// The evaluator uses the counter only for calls for which the type checker left no other overload.
    #[must_use]
    pub fn counted(
        mut self,
        counter: impl Fn(&ActualCall<'_, '_>) -> Option<u64> + Send + Sync + 'static,
    ) -> Self {
        self.counter = Some(Arc::new(counter));
        self
    }
}

/// A function: its overloads, and costs that apply to all overloads.
#[derive(Clone, Default)]
pub(crate) struct Function {
    pub(crate) overloads: Vec<Overload>,
    pub(crate) estimator: Option<Estimator>,
    pub(crate) counter: Option<Counter>,
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

    pub(crate) fn estimate_all(
        &mut self,
        function: &str,
        estimator: impl Fn(&EstimateCall<'_>) -> Option<CallEstimate> + Send + Sync + 'static,
    ) {
        self.function_mut(function).estimator = Some(Arc::new(estimator));
    }

    pub(crate) fn count_all(
        &mut self,
        function: &str,
        counter: impl Fn(&ActualCall<'_, '_>) -> Option<u64> + Send + Sync + 'static,
    ) {
        self.function_mut(function).counter = Some(Arc::new(counter));
    }

    pub(crate) fn pattern_function(&mut self, function: &str) {
        self.function_mut(function).matches_pattern = true;
    }
}

/// The declarations that expressions are compiled against. Cloning is cheap.
#[derive(Clone)]
pub struct Env {
    declarations: Arc<Declarations>,
}

impl std::fmt::Debug for Env {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let declarations = &self.declarations;
        f.debug_struct("Env")
            .field("variables", &declarations.variables)
            .field("functions", &declarations.functions.len())
            .finish_non_exhaustive()
    }
}

impl Env {
    /// A builder with the standard functions and macros.
    #[must_use]
    pub fn builder() -> EnvBuilder {
        let syntax = Syntax {
            macros: true,
            optional: false,
            two_variables: false,
            sort_by: false,
            bind: false,
            escaped_fields: false,
        };
        let mut declarations = Declarations {
            variables: BTreeMap::new(),
            type_names: library::standard_types(),
            functions: BTreeMap::new(),
            provider: Arc::new(NoTypes),
            lazy_objects: BTreeSet::new(),
            syntax,
        };
        library::standard(&mut declarations);
        EnvBuilder { declarations }
    }

    /// A builder that starts from this environment.
    #[must_use]
    pub fn extend(&self) -> EnvBuilder {
        EnvBuilder { declarations: Declarations::clone(&self.declarations) }
    }

    /// Parses and checks an expression.
    ///
    /// # Errors
    /// All syntax errors; if there are none, all type errors; if there are none, all invalid constants.
    pub fn compile(&self, text: &str) -> Result<Checked, Errors> {
        let source = Source::new(text);
        let ast = parse(&source, self.declarations.syntax)?;
        let tree = check(ast, &source, &self.declarations)?;
        Ok(Checked::new(tree, self.declarations.clone()))
    }
}

/// Builds an [`Env`].
#[derive(Clone)]
pub struct EnvBuilder {
    declarations: Declarations,
}

impl EnvBuilder {
    /// Declares a variable. The variable `a.b` takes precedence over the selection of `b` from `a`.
    #[must_use]
    pub fn variable(mut self, name: &str, ty: Type) -> Self {
        self.declarations.variables.insert(Arc::from(name), ty);
        self
    }

    /// Declares a variable of an object type whose fields the activation has one by one, as variables `name.field`.
    ///
    /// The evaluator asks the activation for a field only when an expression reads it.
    #[must_use]
    pub fn lazy_object(mut self, name: &str, ty: Type) -> Self {
        self.declarations.lazy_objects.insert(Arc::from(name));
        self.variable(name, ty)
    }

    /// Sets the provider of object types.
    #[must_use]
    pub fn types(mut self, provider: Arc<dyn TypeProvider>) -> Self {
        self.declarations.provider = provider;
        self
    }

    /// Declares the name of a type, which expressions may use as they use `int`.
    #[must_use]
    pub fn type_name(mut self, name: &str, ty: Type) -> Self {
        self.declarations.type_names.insert(Arc::from(name), ty);
        self
    }

    /// Adds an optional part of the language.
    #[must_use]
    pub fn library(mut self, part: Library) -> Self {
        library::add(&mut self.declarations, part);
        self
    }

    /// Adds an overload to a function. The first overload declares the function.
    #[must_use]
    pub fn function(mut self, name: &str, overload: Overload) -> Self {
        self.declarations.add(name, overload);
        self
    }

    /// Sets costs of a function that take precedence over those of its overloads, also for calls with several possible overloads.
    ///
    /// The evaluator counts `==`, `!=`, `&&`, `||`, `?:` and selections itself: for these, only the estimate can be set.
    #[must_use]
    pub fn function_costs(
        mut self,
        name: &str,
        estimator: impl Fn(&EstimateCall<'_>) -> Option<CallEstimate> + Send + Sync + 'static,
        counter: impl Fn(&ActualCall<'_, '_>) -> Option<u64> + Send + Sync + 'static,
    ) -> Self {
        self.declarations.estimate_all(name, estimator);
        self.declarations.count_all(name, counter);
        self
    }

    /// Sets whether macros such as `all` and `has` are expanded. The default is yes.
    #[must_use]
    pub fn macros(mut self, expanded: bool) -> Self {
        self.declarations.syntax.macros = expanded;
        self
    }

    /// Sets whether names of fields may be written in backquotes. The default is no.
    #[must_use]
    pub fn escaped_fields(mut self, allowed: bool) -> Self {
        self.declarations.syntax.escaped_fields = allowed;
        self
    }

    /// Builds the environment.
    #[must_use]
    pub fn build(self) -> Env {
        Env { declarations: Arc::new(self.declarations) }
    }
}
