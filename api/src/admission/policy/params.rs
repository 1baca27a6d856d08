//! Parameters of policies: the objects that a binding passes to its policy's expressions.

use super::request::Cluster;
use crate::admission::attributes::GroupVersionKind;
use crate::group_version::split_api_version;
use crate::object::text;
use crate::selector::label::{Selector, SelectorError};
use serde_json::Value;

/// Kind of a policy's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamKind {
    /// `apiVersion` of the parameter objects.
    pub api_version: Box<str>,
    /// Kind of the parameter objects.
    pub kind: Box<str>,
}

impl ParamKind {
    /// Parses a `paramKind`; `None` if the policy has none.
    pub(super) fn read(kind: &Value) -> Option<Self> {
        let read =
            || Self { api_version: text(&kind["apiVersion"]).into(), kind: text(&kind["kind"]).into() };
        kind.is_object().then(read)
    }

    /// The kind as errors name it.
    fn shown(&self) -> String {
        let (group, version) = split_api_version(&self.api_version);
        GroupVersionKind { group, version, kind: &self.kind }.to_string()
    }

    /// Error message for parameters of a kind that is not served.
    pub(super) fn unknown(&self) -> String {
        format!("failed to find resource referenced by paramKind: '{}'", self.shown())
    }
}

/// Scope of a parameter kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamScope {
    /// Parameters are namespaced.
    Namespaced,
    /// Parameters are cluster-scoped.
    Cluster,
}

/// Objects that a `paramRef` selects.
#[derive(Clone, Debug)]
enum ParamTarget {
    Name(Box<str>),
    Selector(Result<Selector, SelectorError>),
    /// Neither name nor selector, which validation refuses.
    Nothing,
}

/// Parsed `paramRef` of a binding.
#[derive(Clone, Debug)]
pub(super) struct ParamRef {
    namespace: Box<str>,
    target: ParamTarget,
    deny_if_missing: bool,
}

impl ParamRef {
    /// Parses a `paramRef`; `None` if the binding has none.
    pub(super) fn read(reference: &Value) -> Option<Self> {
        if !reference.is_object() {
            return None;
        }
        let (name, selector) = (text(&reference["name"]), &reference["selector"]);
        let target = match name {
            "" if selector.is_null() => ParamTarget::Nothing,
            "" => ParamTarget::Selector(Selector::from_object(selector)),
            name => ParamTarget::Name(name.into()),
        };
        let deny_if_missing = reference["parameterNotFoundAction"] == "Deny";
        Some(Self { namespace: text(&reference["namespace"]).into(), target, deny_if_missing })
    }
}

/// Parameters for one binding and request; the policy is evaluated with each. Null stands for a policy or
/// binding without parameters. An empty list means that there is nothing to evaluate.
///
/// # Errors
/// Why the binding cannot be used for the request.
pub(super) fn collect(
    kind: Option<&ParamKind>,
    reference: Option<&ParamRef>,
    cluster: &dyn Cluster,
    namespace: &str,
) -> Result<Vec<Value>, String> {
    let (Some(kind), Some(reference)) = (kind, reference) else { return Ok(vec![Value::Null]) };
    let scope = cluster.param_scope(kind).ok_or_else(|| kind.unknown())?;
    let namespace = match (scope, &*reference.namespace, namespace) {
        (ParamScope::Cluster, "", _) => "",
        (ParamScope::Cluster, _, _) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
        (ParamScope::Namespaced, "", "") => {
            let text =
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Err(text.to_owned());
        }
        (ParamScope::Namespaced, "", own) => own,
        (ParamScope::Namespaced, given, _) => given,
    };
    let params = match &reference.target {
        ParamTarget::Name(name) => cluster.param(kind, namespace, name).into_iter().collect(),
        ParamTarget::Selector(Ok(selector)) => cluster.params(kind, namespace, selector),
        ParamTarget::Selector(Err(error)) => return Err(error.to_string()),
        ParamTarget::Nothing => return Err("one of name or selector must be provided".to_owned()),
    };
    if params.is_empty() && reference.deny_if_missing {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(params)
}
