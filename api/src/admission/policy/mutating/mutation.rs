//! [`Mutation`]: one mutation of a policy: an apply configuration or a JSON patch from an expression.

use crate::admission::attributes::GroupVersionKind;
use crate::admission::policy::checks::CheckError;
use crate::admission::policy::request::Cluster;
use crate::admission_expression::{
    Budget, CompileFailure, Environment, Evaluation, Inputs, Program, ResultType,
};
use crate::object::{api_version, kind, text};
use crate::patch::{apply, json as json_patch};
use crate::status::Status;
use kstore_cel::{List, Map, Object, Val};
use serde_json::{Value, json};

/// Depth of lists, maps and objects that the check of type names visits; the conversion to JSON refuses
/// deeper values.
const DEPTH_MAX: usize = 128;

/// Compiled mutation of a policy.
#[derive(Debug)]
pub(super) enum Mutation {
    /// The expression evaluates to fields to set, which are merged like a server-side apply.
    ApplyConfiguration(Result<Program, CompileFailure>),
    /// The expression evaluates to operations of a JSON patch.
    JsonPatch(Result<Program, CompileFailure>),
}

/// Error of a mutation.
#[derive(Debug)]
pub(super) enum MutationError {
    /// A failure that the failure policy decides about.
    Failed(String),
    /// A refusal that the failure policy does not affect.
    Refused(Box<Status>),
}

impl MutationError {
    /// Error type for metrics.
    pub(super) fn check_error(&self) -> CheckError {
        match self {
            Self::Failed(why) => CheckError::of_message(why),
            Self::Refused(status) => CheckError::of_message(&status.message),
        }
    }
}

impl From<Status> for MutationError {
    fn from(status: Status) -> Self {
        Self::Refused(Box::new(status))
    }
}

impl Mutation {
    /// Compiles an entry of `mutations` in a stored policy.
    pub(super) fn read(mutation: &Value, environment: &Environment) -> Self {
        if mutation["patchType"] == "JSONPatch" {
            let expression = text(&mutation["jsonPatch"]["expression"]);
            Self::JsonPatch(environment.compile(expression, ResultType::Patches))
        } else {
            let expression = text(&mutation["applyConfiguration"]["expression"]);
            Self::ApplyConfiguration(environment.compile(expression, ResultType::Object))
        }
    }

    /// The object after the mutation, decoded and defaulted.
    pub(super) fn apply(
        &self,
        object: &Value,
        inputs: Inputs<'_>,
        environment: &Environment,
        cluster: &dyn Cluster,
        kind: GroupVersionKind<'_>,
    ) -> Result<Value, MutationError> {
        let Some(ty) = cluster.object_type(kind) else {
            return Err(Status::service_unavailable(format!(
                "Resource kind {kind} not found. There can be a delay between when CustomResourceDefinitions are created and when they are available."
            ))
            .into());
        };
        let evaluation = Evaluation::new(environment, inputs);
        let changed = match self {
            Self::ApplyConfiguration(program) => configure(object, compiled(program)?, &evaluation, ty)?,
            Self::JsonPatch(program) => match patch(object, compiled(program)?, &evaluation)? {
                Some(changed) => changed,
                // A failed `test` operation means that the patch does not apply to this object.
                None => return Ok(object.clone()),
            },
        };
        Ok(cluster.complete(kind, changed)?)
    }
}

fn compiled(program: &Result<Program, CompileFailure>) -> Result<&Program, MutationError> {
    program.as_ref().map_err(|failure| MutationError::Failed(format!("compilation error: {failure}")))
}

/// Merges the evaluated apply configuration into the object.
fn configure<'p>(
    object: &Value,
    program: &'p Program,
    evaluation: &Evaluation<'p>,
    ty: apply::ObjectType<'_>,
) -> Result<Value, MutationError> {
    let failed = |why: String| MutationError::Failed(why);
    let value =
        evaluation.value(program, &mut Budget::for_object()).map_err(|error| failed(error.to_string()))?;
    let mut mismatches = Vec::new();
    check_type_names(&value, "Object", DEPTH_MAX, &mut mismatches);
    if !mismatches.is_empty() {
        return Err(failed(format!("type mismatch: {}", mismatches.join("\n"))));
    }
    let mut configuration = value.to_json().map_err(|error| failed(error.to_string()))?;
    if !configuration.is_object() {
        configuration = json!({});
    }
    configuration["apiVersion"] = api_version(object).into();
    configuration["kind"] = kind(object).into();
    let merged = apply::merge_configuration(object, &configuration, ty);
    merged.map_err(|why| failed(format!("error applying patch: {why}")))
}

/// Applies the evaluated patch operations; `None` if a `test` failed.
fn patch<'p>(
    object: &Value,
    program: &'p Program,
    evaluation: &Evaluation<'p>,
) -> Result<Option<Value>, MutationError> {
    let operations = evaluation.json(program, &mut Budget::for_object());
    let operations = operations.map_err(|error| MutationError::Failed(error.to_string()))?;
    match json_patch::apply(object, &operations) {
        Ok(changed) => Ok(Some(changed)),
        Err(error) if error.is_failed_test() => Ok(None),
        Err(error) => Err(MutationError::Failed(format!("JSON Patch: {error}"))),
    }
}

/// Checks that objects have the type of their field: `Object.spec` for the field `spec` of `Object`, and so
/// on. Lists and maps in between do not count.
fn check_type_names(value: &Val<'_>, expected: &str, depth: usize, found: &mut Vec<String>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    match value {
        Val::Object(Object::Owned(name, fields)) => {
            if **name != *expected {
                found.push(format!(
                    "unexpected type name \"{name}\", expected \"{expected}\", which matches field name path from root Object type"
                ));
            }
            for (field, value) in fields.iter() {
                check_type_names(value, &format!("{expected}.{field}"), depth, found);
            }
        }
        Val::List(List::Owned(items)) => {
            items.iter().for_each(|item| check_type_names(item, expected, depth, found));
        }
        Val::Map(Map::Owned(entries) | Map::Defaulted(entries, _)) => {
            entries.values().for_each(|(_, value)| check_type_names(value, expected, depth, found));
        }
        Val::Optional(Some(value)) => check_type_names(value, expected, depth, found),
        _ => {}
    }
}
