//! [`Environment`]: declarations with which the expressions of one policy or webhook are compiled.
//! `evaluation` runs them.

use super::kind_types::KindTypes;
use super::types::{self, OBJECT_TYPE, PATCH_TYPE, Types, VARIABLES_TYPE};
use crate::expression::{authorizer, base, json_patch};
use kstore_cel::{Env, Type};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Variables of an [`Environment`] besides `object`, `oldObject` and `request`, which always exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Whether `params` exists: the policy has a `paramKind`.
    pub params: bool,
    /// Whether `authorizer` and `authorizer.requestResource` exist: everywhere except in `messageExpression`
    /// of policies.
    pub authorizer: bool,
    /// Whether `namespaceObject` exists: for policies, and for webhooks, where it is always null.
    pub namespace: bool,
    /// Whether `variables` exists: for policies, except in match conditions. [`Environment::declare`] sets it
    /// too.
    pub variables: bool,
    /// Whether the types `Object`, `Object.<path>` and `JSONPatch` and the function `jsonpatch.escapeKey`
    /// exist: for mutations of MutatingAdmissionPolicies.
    pub patch_types: bool,
}

impl Uses {
    /// Variables of match conditions.
    pub(crate) const fn of_match_conditions(params: bool) -> Self {
        Self { params, authorizer: true, namespace: true, variables: false, patch_types: false }
    }

    /// Variables of the expressions in validating policies, except match conditions. Message expressions have no
    /// authorizer; validation of the policy checks that.
    pub(crate) const fn of_validating_policy(params: bool) -> Self {
        Self { variables: true, ..Self::of_match_conditions(params) }
    }

    /// Variables and types of mutation expressions.
    pub(crate) const fn of_mutating_policy(params: bool) -> Self {
        Self { patch_types: true, ..Self::of_validating_policy(params) }
    }
}

/// Required result type of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultType {
    /// Boolean: match conditions and validations.
    Bool,
    /// String: `messageExpression`.
    String,
    /// String or null: `valueExpression` of audit annotations.
    StringOrNull,
    /// Object: `applyConfiguration.expression`.
    Object,
    /// List of patch operations: `jsonPatch.expression`.
    Patches,
    /// Any type: variables.
    Any,
}

impl ResultType {
    fn allowed(self) -> Vec<Type> {
        match self {
            Self::Bool => vec![Type::Bool],
            Self::String => vec![Type::String],
            Self::StringOrNull => vec![Type::String, Type::Null],
            Self::Object => vec![Type::object(OBJECT_TYPE)],
            Self::Patches => vec![Type::list(Type::object(PATCH_TYPE))],
            Self::Any => Vec::new(),
        }
    }

    /// Kubernetes' message if a type is not allowed.
    fn mismatch(self, found: &Type) -> Option<String> {
        let allowed = self.allowed();
        if allowed.is_empty() || allowed.contains(found) {
            return None;
        }
        // Kubernetes prints the type as `null`, and as type of a value as `null_type`.
        let name = |ty: &Type| if *ty == Type::Null { "null_type".to_owned() } else { ty.to_string() };
        let found = name(found);
        Some(match &allowed[..] {
            [one] => format!("must evaluate to {} but got {found}", name(one)),
            many => {
                let names: Vec<String> = many.iter().map(name).collect();
                format!("must evaluate to one of [{}] but got {found}", names.join(" "))
            }
        })
    }
}

/// Why an expression was refused. `Display` is Kubernetes' error detail for the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileFailure {
    /// The expression is wrong. Report an invalid value: the expression.
    #[error("{0}")]
    Invalid(String),
    /// The expression is valid but cannot be compiled, for example because a pattern is not a regular
    /// expression. Report an internal error.
    #[error("{0}")]
    Internal(String),
}

/// Compiled expression of one [`Environment`]. Concurrent evaluations can share it.
#[derive(Debug)]
pub struct Program {
    pub(super) text: Arc<str>,
    pub(super) program: kstore_cel::Program,
}

impl Program {
    /// The text of the expression.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Declarations for the expressions of one policy or webhook, with the programs of its variables.
#[derive(Debug)]
pub struct Environment {
    env: Env,
    uses: Uses,
    kinds: KindTypes,
    /// Variables in order of declaration; each can use only earlier ones.
    pub(super) variables: Vec<Variable>,
    costly: AtomicBool,
}

/// Declared variable `variables.NAME`.
#[derive(Debug)]
pub(super) struct Variable {
    /// Full name `variables.NAME`, as programs look it up.
    pub(super) key: Arc<str>,
    pub(super) name: Arc<str>,
    ty: Type,
    pub(super) program: Result<Program, CompileFailure>,
}

impl Environment {
    /// An environment without declared variables.
    #[must_use]
    pub fn new(uses: Uses) -> Self {
        Self::typed(uses, KindTypes::default())
    }

    /// An environment in which `object`, `oldObject` and `params` have known types. Its programs are for type
    /// checking only, since evaluation reads objects without their schemas.
    #[must_use]
    pub fn typed(uses: Uses, kinds: KindTypes) -> Self {
        let env = build(uses, &kinds, BTreeMap::new());
        Self { env, uses, kinds, variables: Vec::new(), costly: AtomicBool::new(false) }
    }

    /// Whether expressions have cost [`COSTLY`] or more for one object so far, so that the next object may
    /// cost as much.
    ///
    /// [`COSTLY`]: crate::expression::limits::COSTLY
    #[must_use]
    pub fn is_costly(&self) -> bool {
        self.costly.load(Ordering::Relaxed)
    }

    /// Records that expressions were costly.
    pub(super) fn set_costly(&self) {
        self.costly.store(true, Ordering::Relaxed);
    }

    /// Declares `variables.NAME` for expressions compiled later. The variable has the type of its expression;
    /// objects get the dynamic type. An [`Evaluation`] evaluates it at its first use, and only once.
    ///
    /// # Errors
    /// The expression does not compile. The variable is still declared, with the dynamic type, and evaluating
    /// it fails.
    ///
    /// [`Evaluation`]: super::Evaluation
    pub fn declare(&mut self, name: &str, expression: &str) -> Result<(), CompileFailure> {
        let (program, ty) = match self.check(expression, ResultType::Any) {
            Ok((program, ty)) => (Ok(program), variable_type(&ty)),
            Err(failure) => (Err(failure), Type::Dyn),
        };
        let failure = program.as_ref().err().cloned();
        self.variables.retain(|known| &*known.name != name);
        let key = Arc::from(format!("variables.{name}"));
        self.variables.push(Variable { key, name: Arc::from(name), ty, program });
        self.uses.variables = true;
        let types = self.variables.iter().map(|variable| (variable.name.clone(), variable.ty.clone()));
        self.env = build(self.uses, &self.kinds, types.collect());
        failure.map_or(Ok(()), Err)
    }

    /// Compiles an expression with a required result type.
    ///
    /// # Errors
    /// Syntax or types of the expression are wrong, or its type is not the required one.
    pub fn compile(&self, expression: &str, result: ResultType) -> Result<Program, CompileFailure> {
        self.check(expression, result).map(|(program, _)| program)
    }

    /// Syntax and type errors of an expression of any type, as the checker formats them; `None` if there are
    /// none.
    #[must_use]
    pub fn type_errors(&self, expression: &str) -> Option<String> {
        self.env.compile(expression).err().map(|errors| errors.to_string())
    }

    fn check(&self, expression: &str, result: ResultType) -> Result<(Program, Type), CompileFailure> {
        let checked = self.env.compile(expression);
        let checked =
            checked.map_err(|errors| CompileFailure::Invalid(format!("compilation failed: {errors}")))?;
        if let Some(mismatch) = result.mismatch(checked.result_type()) {
            return Err(CompileFailure::Invalid(mismatch));
        }
        let program = checked.program();
        let program = program
            .map_err(|error| CompileFailure::Internal(format!("program instantiation failed: {error}")))?;
        Ok((Program { text: Arc::from(expression), program }, checked.result_type().clone()))
    }
}

/// Type of a variable in other expressions: the type of its expression. Objects and opaque types become
/// dynamic, as in Kubernetes.
fn variable_type(ty: &Type) -> Type {
    match ty {
        Type::List(element) => Type::list(variable_type(element)),
        Type::Map(key, value) => Type::map(variable_type(key), variable_type(value)),
        Type::Object(_) | Type::Opaque(..) | Type::Type(_) => Type::Dyn,
        other => other.clone(),
    }
}

fn build(uses: Uses, kinds: &KindTypes, variables: BTreeMap<Arc<str>, Type>) -> Env {
    let mut builder = base::environment()
        .extend()
        .variable("object", kinds.object())
        .variable("oldObject", kinds.object())
        .variable("request", types::request().ty());
    if uses.params {
        builder = builder.variable("params", kinds.params());
    }
    if uses.authorizer {
        builder = builder
            .variable("authorizer", authorizer::authorizer_type())
            .variable("authorizer.requestResource", authorizer::resource_check_type());
    }
    if uses.namespace {
        builder = builder.variable("namespaceObject", types::namespace().ty());
    }
    if uses.variables {
        builder = builder.lazy_object("variables", Type::object(VARIABLES_TYPE));
    }
    if uses.patch_types {
        builder = json_patch::overloads()
            .into_iter()
            .fold(builder, |builder, (name, overload)| builder.function(name, overload));
    }
    builder.types(Arc::new(Types { variables, patch_types: uses.patch_types, kinds: kinds.clone() })).build()
}
