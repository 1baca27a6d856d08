//! What a stage writes: its steps, compiled, and the effects that they have on an object. Pure.

use crate::document::{
    ApplyDocument, EventDocument, FinalizersDocument, NextDocument, PatchDocument, PatchType, StepDocument,
};
use crate::functions::{Names, StageFunctions};
use crate::limits::{TEMPLATE_BYTES, TEMPLATE_STEPS};
use kstore_gotemplate::{Limits, Missing, Template};
use serde_json::{Map, Value, json};

/// The format of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchForm {
    /// JSON Patch.
    Json,
    /// JSON Merge Patch.
    Merge,
    /// Kubernetes' strategic merge.
    Strategic,
    /// Server-side apply.
    Apply,
}

/// One effect of a stage on the object that follows it.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// An event about the object.
    Event {
        /// `Normal` or `Warning`.
        event_type: String,
        /// The reason.
        reason: String,
        /// The message.
        message: String,
    },
    /// A patch of the object, or of a subresource of it; empty for the object itself.
    Patch {
        /// The subresource.
        subresource: String,
        /// The format.
        form: PatchForm,
        /// The patch.
        body: Value,
    },
    /// The deletion of the object, without grace.
    Delete,
    /// Another object, which is created, or patched if it exists; with a subresource it must exist.
    Apply {
        /// The subresource.
        subresource: String,
        /// The format of the patch.
        form: PatchForm,
        /// The object.
        body: Value,
    },
}

/// A compiled step.
#[derive(Debug)]
pub(crate) enum Step {
    Event(EventDocument),
    Finalizers(FinalizersDocument),
    Patch { subresource: String, root: String, form: PatchForm, template: NamedTemplate },
    Apply { subresource: String, form: PatchForm, template: NamedTemplate },
    Delete,
}

/// A template with its path in the stage, for errors.
#[derive(Debug)]
pub(crate) struct NamedTemplate {
    path: String,
    template: Template,
}

impl NamedTemplate {
    fn compile(path: String, text: &str) -> Result<Self, String> {
        match Template::parse(text.trim(), &Names) {
            Ok(template) => Ok(Self { path, template }),
            Err(error) => Err(format!("{path}:{error}")),
        }
    }

    /// The value that the template's YAML describes.
    fn render(&self, object: &Value, functions: &StageFunctions<'_>) -> Result<Value, String> {
        let limits = Limits { steps: TEMPLATE_STEPS, bytes: TEMPLATE_BYTES, missing: Missing::Null };
        let text = self.template.render(object, functions, limits);
        let text = text.map_err(|error| format!("{}:{error}", self.path))?;
        serde_yaml_ng::from_str(&text).map_err(|error| format!("{}: its text is no YAML: {error}", self.path))
    }
}

/// The steps of a stage. `is_typed`: whether patches without a format merge strategically, as for Pods and Nodes.
pub(crate) fn compile(
    steps: Vec<StepDocument>,
    next: Option<NextDocument>,
    is_typed: bool,
) -> Result<Vec<Step>, String> {
    let mut all = Vec::new();
    if steps.is_empty() {
        compile_next(next.unwrap_or_default(), is_typed, &mut all)?;
    }
    for (index, step) in steps.into_iter().enumerate() {
        let path = format!("steps[{index}]");
        all.extend(step.event.map(Step::Event));
        all.extend(step.finalizers.map(Step::Finalizers));
        if step.delete {
            all.push(Step::Delete);
            continue;
        }
        if let Some(patch) = step.patch {
            all.push(compile_patch(&format!("{path}.patch"), patch, is_typed)?);
        }
        if let Some(apply) = step.apply {
            all.push(compile_apply(&format!("{path}.apply"), apply)?);
        }
    }
    Ok(all)
}

/// The older form of steps: event, finalizers, patches or a template of the status, deletion, in this order.
fn compile_next(next: NextDocument, is_typed: bool, all: &mut Vec<Step>) -> Result<(), String> {
    let NextDocument {
        event,
        finalizers,
        delete,
        patches,
        status_template,
        status_subresource,
        status_patch_as,
    } = next;
    all.extend(event.map(Step::Event));
    all.extend(finalizers.map(Step::Finalizers));
    let has_patches = !patches.is_empty();
    for (index, patch) in patches.into_iter().enumerate() {
        all.push(compile_patch(&format!("next.patches[{index}]"), patch, is_typed)?);
    }
    if !status_template.is_empty() && !has_patches {
        if status_patch_as.is_some() && !is_typed {
            return Err(format!("next.statusPatchAs: {IMPERSONATION}"));
        }
        all.push(Step::Patch {
            subresource: status_subresource.unwrap_or_else(|| "status".to_owned()),
            root: "status".to_owned(),
            form: if is_typed { PatchForm::Strategic } else { PatchForm::Merge },
            template: NamedTemplate::compile("next.statusTemplate".to_owned(), &status_template)?,
        });
    }
    if delete {
        all.push(Step::Delete);
    }
    Ok(())
}

/// Why impersonation is refused.
const IMPERSONATION: &str =
    "impersonation is supported for Pods and Nodes only, whose stages write with all rights";

fn compile_patch(path: &str, patch: PatchDocument, is_typed: bool) -> Result<Step, String> {
    if patch.impersonation.is_some() && !is_typed {
        return Err(format!("{path}.impersonation: {IMPERSONATION}"));
    }
    let form = match patch.form {
        Some(PatchType::Json) => PatchForm::Json,
        Some(PatchType::Merge) => PatchForm::Merge,
        Some(PatchType::Strategic) => PatchForm::Strategic,
        Some(PatchType::Apply) => {
            return Err(format!("{path}.type: \"apply\" is a type of apply, not of patch"));
        }
        None if is_typed => PatchForm::Strategic,
        None => PatchForm::Merge,
    };
    let template = NamedTemplate::compile(format!("{path}.template"), &patch.template)?;
    Ok(Step::Patch { subresource: patch.subresource, root: patch.root, form, template })
}

fn compile_apply(path: &str, apply: ApplyDocument) -> Result<Step, String> {
    if apply.impersonation.is_some() {
        return Err(format!("{path}.impersonation: {IMPERSONATION}"));
    }
    let form = match apply.form {
        Some(PatchType::Merge) => PatchForm::Merge,
        Some(PatchType::Strategic) => PatchForm::Strategic,
        Some(PatchType::Apply) | None => PatchForm::Apply,
        Some(PatchType::Json) => {
            return Err(format!("{path}.type: \"json\" is a type of patch, not of apply"));
        }
    };
    let template = NamedTemplate::compile(format!("{path}.template"), &apply.template)?;
    Ok(Step::Apply { subresource: apply.subresource, form, template })
}

impl Step {
    /// The effect of the step on an object; `None` if there is nothing to do.
    pub(crate) fn effect(
        &self,
        object: &Value,
        functions: &StageFunctions<'_>,
    ) -> Result<Option<Effect>, String> {
        Ok(Some(match self {
            Self::Event(EventDocument { event_type, reason, message }) => Effect::Event {
                event_type: event_type.clone(),
                reason: reason.clone(),
                message: message.clone(),
            },
            Self::Delete => Effect::Delete,
            Self::Finalizers(change) => {
                let finalizers = object["metadata"]["finalizers"].as_array();
                let present: Vec<&str> = finalizers.into_iter().flatten().filter_map(Value::as_str).collect();
                let (added, removed) = changes(&present, change);
                let mut metadata = Map::new();
                if !added.is_empty() {
                    metadata.insert("finalizers".to_owned(), json!(added));
                }
                if !removed.is_empty() {
                    metadata.insert(REMOVED_FINALIZERS.to_owned(), json!(removed));
                }
                if metadata.is_empty() {
                    return Ok(None);
                }
                // Strategic: what others add or remove meanwhile stays so.
                let body = json!({ "metadata": metadata });
                Effect::Patch { subresource: String::new(), form: PatchForm::Strategic, body }
            }
            Self::Patch { subresource, root, form, template } => {
                let body = below(root, *form, template.render(object, functions)?);
                Effect::Patch { subresource: subresource.clone(), form: *form, body }
            }
            Self::Apply { subresource, form, template } => {
                let body = template.render(object, functions)?;
                let text = |name: &str| body[name].as_str().unwrap_or_default();
                if text("apiVersion").is_empty() || text("kind").is_empty() {
                    return Err(format!("{}: its text needs apiVersion and kind", template.path));
                }
                Effect::Apply { subresource: subresource.clone(), form: *form, body }
            }
        }))
    }
}

/// The directive of strategic patches that removes finalizers.
const REMOVED_FINALIZERS: &str = "$deleteFromPrimitiveList/finalizers";

/// The finalizers that a change adds and removes.
fn changes<'f>(present: &[&'f str], change: &'f FinalizersDocument) -> (Vec<&'f str>, Vec<&'f str>) {
    let is_added = |name: &str| change.add.iter().any(|one| one.value == name);
    let is_removed = |name: &str| change.empty || change.remove.iter().any(|one| one.value == name);
    let added = change.add.iter().map(|one| &*one.value).filter(|name| !present.contains(name));
    let removed = present.iter().copied().filter(|name| is_removed(name) && !is_added(name));
    (added.collect(), removed.collect())
}

/// A patch below a member of the object; an empty name is the object.
fn below(root: &str, form: PatchForm, body: Value) -> Value {
    if root.is_empty() {
        return body;
    }
    let Value::Array(operations) = body else {
        return Value::Object(Map::from_iter([(root.to_owned(), body)]));
    };
    if form != PatchForm::Json {
        return Value::Object(Map::from_iter([(root.to_owned(), Value::Array(operations))]));
    }
    let moved = operations.into_iter().map(|mut operation| {
        for name in ["path", "from"] {
            if let Some(path) =
                operation.get(name).and_then(Value::as_str).map(|path| format!("/{root}{path}"))
            {
                operation[name] = Value::String(path);
            }
        }
        operation
    });
    moved.collect()
}
