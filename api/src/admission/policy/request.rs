//! [`PolicyRequest`]: a request with all facts that policies need.

use super::checks::CheckObserver;
use super::params::{ParamKind, ParamScope};
use crate::admission::attributes::{Attributes, GroupVersionKind};
use crate::admission::review::request_value;
use crate::admission::selection::{ClusterFacts, MatchedForm};
use crate::admission_expression::Inputs;
use crate::defaults;
use crate::expression::authorizer::RequestAuthorizer;
use crate::patch::apply::ObjectType;
use crate::resource::Resource;
use crate::schema::decode::{Mode, normalize};
use crate::selector::label::Selector;
use crate::status::Status;
use serde_json::Value;
use std::borrow::Cow;

/// Facts about the cluster that policies need, from memory and of one moment.
pub trait Cluster {
    /// Converts an object of the request to another version of its kind, for policies that match an
    /// equivalent resource.
    ///
    /// # Errors
    /// Why it cannot be converted.
    fn convert(&self, object: &Value, to: GroupVersionKind<'_>) -> Result<Value, String>;

    /// Schema for merging configurations into objects of a kind; `None` if it does not exist (yet).
    fn object_type(&self, kind: GroupVersionKind<'_>) -> Option<ObjectType<'_>>;

    /// Decodes an object that a policy changed, and sets its defaults.
    ///
    /// # Errors
    /// The refusal for the client if the object is not of the kind: 500, also for unknown members
    /// ([`complete_built_in`]).
    fn complete(&self, kind: GroupVersionKind<'_>, object: Value) -> Result<Value, Status>;

    /// Scope of a parameter kind; `None` if it is not served.
    fn param_scope(&self, kind: &ParamKind) -> Option<ParamScope>;

    /// One parameter object with `apiVersion` and `kind`. `namespace` is empty for cluster-scoped kinds.
    fn param(&self, kind: &ParamKind, namespace: &str, name: &str) -> Option<Value>;

    /// Parameter objects that match the selector, sorted by name, with `apiVersion` and `kind`.
    fn params(&self, kind: &ParamKind, namespace: &str, selector: &Selector) -> Vec<Value>;
}

/// Decodes an object of a built-in kind that a policy changed, and sets its defaults: [`Cluster::complete`]
/// for such kinds.
///
/// # Errors
/// 500: a member is unknown or has the wrong type.
pub fn complete_built_in(row: &Resource, mut object: Value) -> Result<Value, Status> {
    let Some(ty) = row.object_type() else { return Ok(object) };
    let problems = normalize(&mut object, ty, Mode::Whole).map_err(Status::internal)?;
    if !problems.is_empty() {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        return Err(Status::internal(format!("strict decoding error: {}", problems.join(", "))));
    }
    defaults::apply(row, &mut object);
    Ok(object)
}

/// One request to policies.
#[derive(Clone, Copy)]
pub struct PolicyRequest<'a> {
    /// Attributes of the request.
    pub attributes: Attributes<'a>,
    /// Namespace and equivalent resources of the request.
    pub facts: ClusterFacts<'a>,
    /// Further facts about the cluster.
    pub cluster: &'a dyn Cluster,
    /// Authorizer for the expressions, for the user of the request.
    pub authorizer: Option<&'a RequestAuthorizer>,
    /// Observer of checks for metrics; `&()` ignores them.
    pub checks: &'a dyn CheckObserver,
}

/// The request in the form that one policy matches.
#[derive(Debug)]
pub(super) struct VersionedRequest<'a> {
    /// Value of `request` in match conditions, which has the resource of the request itself.
    stated: Value,
    /// Value of `request` in other expressions.
    matched: Value,
    pub(super) object: Option<Cow<'a, Value>>,
    pub(super) old_object: Option<Cow<'a, Value>>,
}

static NULL: Value = Value::Null;

impl<'a> PolicyRequest<'a> {
    /// The request in a matched form.
    ///
    /// # Errors
    /// An object cannot be converted.
    pub(super) fn versioned(&self, form: MatchedForm<'a>) -> Result<VersionedRequest<'a>, String> {
        let convert = |object: Option<&'a Value>| match object {
            Some(object) if form.kind != self.attributes.kind => {
                let converted = self.cluster.convert(object, form.kind);
                converted
                    .map(|object| Some(Cow::Owned(object)))
                    .map_err(|why| format!("failed to convert object version: {why}"))
            }
            object => Ok(object.map(Cow::Borrowed)),
        };
        let own = MatchedForm { resource: self.attributes.resource, kind: form.kind };
        Ok(VersionedRequest {
            stated: request_value(&self.attributes, own),
            matched: request_value(&self.attributes, form),
            object: convert(self.attributes.object)?,
            old_object: convert(self.attributes.old_object)?,
        })
    }

    /// The Namespace object for expressions: null for requests about namespaces and for cluster-scoped
    /// objects.
    ///
    /// # Errors
    /// 404: the namespace of the request does not exist.
    pub(super) fn namespace(&self) -> Result<&'a Value, Status> {
        let own = GroupVersionKind { group: "", version: "v1", kind: "Namespace" };
        if self.attributes.kind == own || self.attributes.namespace.is_empty() {
            return Ok(&NULL);
        }
        let missing = || Status::not_found(("", "namespaces"), self.attributes.namespace);
        self.facts.namespace.ok_or_else(missing)
    }

    /// Name of the object in refusals.
    pub(super) fn shown_name(&self) -> &'a str {
        if !self.attributes.name.is_empty() {
            return self.attributes.name;
        }
        let Some(object) = self.attributes.object else { return "Unknown" };
        if !object["metadata"].is_object() {
            return "Unknown/errorGettingName";
        }
        let names = [crate::meta::name(object), crate::meta::generate_name(object)];
        names.into_iter().find(|name| !name.is_empty()).unwrap_or("Unknown")
    }
}

impl VersionedRequest<'_> {
    /// Variables of match conditions, which have no namespace.
    pub(super) fn condition_inputs<'i>(
        &'i self,
        params: &'i Value,
        authorizer: Option<&RequestAuthorizer>,
    ) -> Inputs<'i> {
        Inputs { request: &self.stated, namespace: &NULL, ..self.inputs(params, &NULL, authorizer) }
    }

    /// Variables of all other expressions.
    pub(super) fn inputs<'i>(
        &'i self,
        params: &'i Value,
        namespace: &'i Value,
        authorizer: Option<&RequestAuthorizer>,
    ) -> Inputs<'i> {
        Inputs {
            object: self.object.as_deref().unwrap_or(&NULL),
            old_object: self.old_object.as_deref().unwrap_or(&NULL),
            request: &self.matched,
            params,
            namespace,
            authorizer: authorizer.cloned(),
        }
    }
}
