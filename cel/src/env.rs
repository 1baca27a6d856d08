//! [`Env`]: what expressions are compiled against, and how they are compiled.

use crate::check::check;
use crate::cost::CostRule;
use crate::declarations::{Declarations, Library, Overload};
use crate::library;
use crate::parse::{Syntax, parse};
use crate::program::Checked;
use crate::source::{Errors, Source};
use crate::types::{NoTypes, Type, TypeProvider};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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

/// Declarations of an [`Env`] under construction: variables, types, functions and libraries.
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

    /// Sets the cost of a function. It takes precedence over the costs of its overloads, also for calls with several possible overloads.
    ///
    /// The evaluator counts `==`, `!=`, `&&`, `||`, `?:` and selections itself: for these, only the estimate can be set.
    #[must_use]
    pub fn function_cost(mut self, name: &str, rule: CostRule) -> Self {
        self.declarations.cost_all(name, rule);
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
