//! [`Environment`]: the declarations that expressions of one policy or webhook are compiled with. Running them is `evaluation`'s.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kstore_cel::{Env, Type};

use super::kind_types::KindTypes;
use super::types::{self, OBJECT_TYPE, PATCH_TYPE, Types, VARIABLES_TYPE};
use crate::expression::{authorizer, base, json_patch};

/// Which variables an [`Environment`] has besides `object`, `oldObject` and `request`, which all have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// `params`: the policy has a `paramKind`.
    pub params: bool,
    /// `authorizer` and `authorizer.requestResource`: all but the `messageExpression` of policies.
    pub authorizer: bool,
    /// `namespaceObject`: policies; and webhooks, where it is always null.
    pub namespace: bool,
    /// `variables`: policies, but not their match conditions. [`Environment::declare`] switches it on too.
    pub variables: bool,
    /// The types `Object`, `Object.<path>` and `JSONPatch` and the function `jsonpatch.escapeKey`: mutations of
    /// MutatingAdmissionPolicies.
    pub patch_types: bool,
}

/// The type that the value of an expression must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultType {
    /// Conditions and validations.
    Bool,
    /// `messageExpression`.
    String,
    /// `valueExpression` of audit annotations.
    StringOrNull,
    /// `applyConfiguration.expression`.
    Object,
    /// `jsonPatch.expression`.
    Patches,
    /// Variables.
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

    /// Why a type is not the wanted one, in Kubernetes' words.
    fn mismatch(self, found: &Type) -> Option<String> {
        let allowed = self.allowed();
        if allowed.is_empty() || allowed.contains(found) {
            return None;
        }
        // A type as text is `null`, as the type of a value `null_type`.
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

/// Why an expression was refused; displayed, the detail of the error at its field, as Kubernetes words it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileFailure {
    /// The expression is wrong: report it as an invalid value, the value being the expression.
    #[error("{0}")]
    Invalid(String),
    /// The expression is right and no program can be made of it, such as one whose pattern is no regular expression: report it as an
    /// internal error.
    #[error("{0}")]
    Internal(String),
}

/// A compiled expression. It belongs to the [`Environment`] that compiled it; any number of evaluations may run it at a time.
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

/// The declarations of the expressions of one policy or webhook, and the programs of its variables.
#[derive(Debug)]
pub struct Environment {
    env: Env,
    uses: Uses,
    kinds: KindTypes,
    /// In the order of declaration: a variable mentions only earlier ones.
    pub(super) variables: Vec<Variable>,
    costly: AtomicBool,
}

/// A declared `variables.NAME`.
#[derive(Debug)]
pub(super) struct Variable {
    /// `variables.NAME`, by which programs ask for it.
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

    /// As [`Environment::new`], with `object`, `oldObject` and `params` of known types. Its programs are not for evaluation, which reads
    /// objects without their schemas.
    #[must_use]
    pub fn typed(uses: Uses, kinds: KindTypes) -> Self {
        let env = build(uses, &kinds, BTreeMap::new());
        Self { env, uses, kinds, variables: Vec::new(), costly: AtomicBool::new(false) }
    }

    /// Whether expressions have cost [`COSTLY`] or more for one object so far. The next object may cost as much.
    ///
    /// [`COSTLY`]: crate::expression::limits::COSTLY
    #[must_use]
    pub fn is_costly(&self) -> bool {
        self.costly.load(Ordering::Relaxed)
    }

    /// Remembers that expressions were costly.
    pub(super) fn set_costly(&self) {
        self.costly.store(true, Ordering::Relaxed);
    }

    /// Declares `variables.NAME` for what is compiled from here on. The variable has the type of its expression, but for objects, whose
    /// fields are not known beyond it. An [`Evaluation`] evaluates it when an expression first reads it, and no second time.
    ///
    /// # Errors
    /// The expression does not compile. The variable is declared all the same, with any type, and fails when it is read.
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

    /// Compiles an expression whose value must have a type.
    ///
    /// # Errors
    /// The syntax or the types of the expression are wrong, or its type is not the wanted one.
    pub fn compile(&self, expression: &str, result: ResultType) -> Result<Program, CompileFailure> {
        self.check(expression, result).map(|(program, _)| program)
    }

    /// What is wrong with the syntax or the types of an expression of any type, as the checker says it; `None` if nothing is.
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

/// The type by which other expressions know a variable: that of its own expression, where objects and what only functions understand are
/// of any type, as in Kubernetes.
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
