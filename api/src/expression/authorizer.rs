//! The variable `authorizer`: expressions check permissions of the requester or of a service account. The
//! apiserver decides through [`Authorizer`]. This module has the functions of the library `kubernetes.authz`
//! and a cache of the decisions for one request.

use super::row::{self, Named, Row};
use crate::name;
use crate::object::text;
use kstore_cel::{CallEstimate, CostEstimate, CostRule, EvalError, Overload, SizeEstimate, Type, Val};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Decides whether a subject may do something. Implementations answer from memory, since expressions cannot
/// wait.
pub trait Authorizer: Send + Sync {
    /// Decides one check. It is called at most once for equal checks of one request.
    fn decide(&self, check: &AccessCheck) -> Decision;
}

/// Permission check of an expression: whether a subject may use a verb on a target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccessCheck {
    /// User of the check.
    pub subject: Subject,
    /// Verb of the API, such as `create`, or HTTP verb for paths.
    pub verb: String,
    /// Path or resource.
    pub target: AccessTarget,
}

/// User of an [`AccessCheck`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The user of the admission request.
    Requester,
    /// A service account, with the groups of all service accounts in its namespace.
    ServiceAccount {
        /// Namespace of the account.
        namespace: String,
        /// Name of the account.
        name: String,
    },
}

/// Target of an [`AccessCheck`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessTarget {
    /// A path that belongs to no resource, such as `/healthz`.
    Path(String),
    /// A resource of the API.
    Resource(ResourceAccess),
}

/// Resource of an [`AccessCheck`]. Empty texts mean "not given"; the version is always `*`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceAccess {
    /// API group.
    pub group: String,
    /// Lower-case plural.
    pub resource: String,
    /// Subresource.
    pub subresource: String,
    /// Namespace; empty for all namespaces.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Text of the field selector, possibly malformed.
    pub field_selector: String,
    /// Text of the label selector, possibly malformed.
    pub label_selector: String,
}

/// Decision on an [`AccessCheck`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether the access is allowed. "No opinion" is not.
    pub allowed: bool,
    /// Reason of the decision; may be empty.
    pub reason: String,
    /// Error of the authorizer.
    pub error: Option<String>,
}

/// Authorizer for the expressions of one request, with a cache of its decisions. Clones share the cache.
#[derive(Clone)]
pub struct RequestAuthorizer {
    authorizer: Arc<dyn Authorizer>,
    decisions: Arc<Mutex<BTreeMap<AccessCheck, Decision>>>,
}

impl RequestAuthorizer {
    /// A request authorizer with an empty cache.
    #[must_use]
    pub fn new(authorizer: Arc<dyn Authorizer>) -> Self {
        Self { authorizer, decisions: Arc::default() }
    }

    /// The decision on a check, from the cache if possible.
    #[must_use]
    pub fn decide(&self, check: &AccessCheck) -> Decision {
        let mut decisions = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = decisions.get(check) {
            return known.clone();
        }
        let decision = self.authorizer.decide(check);
        decisions.insert(check.clone(), decision.clone());
        decision
    }
}

impl fmt::Debug for RequestAuthorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestAuthorizer").finish_non_exhaustive()
    }
}

impl PartialEq for RequestAuthorizer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.decisions, &other.decisions)
    }
}

impl RequestAuthorizer {
    /// Value of the variable `authorizer`.
    pub(crate) fn as_value<'a>(&self) -> Val<'a> {
        row::value(AuthorizerValue { authorizer: self.clone(), subject: Subject::Requester })
    }

    /// Value of `authorizer.requestResource`: a check of the resource in the admission request.
    pub(crate) fn request_resource<'a>(&self, request: &Value) -> Val<'a> {
        let resource = &request["requestResource"];
        let target = ResourceAccess {
            group: text(&resource["group"]).to_owned(),
            resource: text(&resource["resource"]).to_owned(),
            subresource: text(&request["requestSubResource"]).to_owned(),
            namespace: text(&request["namespace"]).to_owned(),
            name: text(&request["name"]).to_owned(),
            ..ResourceAccess::default()
        };
        let by = AuthorizerValue { authorizer: self.clone(), subject: Subject::Requester };
        row::value(ResourceCheck { by, target })
    }
}

/// Type of `authorizer`.
pub(crate) fn authorizer_type() -> Type {
    Type::opaque(AuthorizerValue::TYPE)
}

/// Type of `authorizer.requestResource`.
pub(crate) fn resource_check_type() -> Type {
    Type::opaque(ResourceCheck::TYPE)
}

#[derive(Clone, Debug, PartialEq)]
struct AuthorizerValue {
    authorizer: RequestAuthorizer,
    subject: Subject,
}

#[derive(Clone, Debug, PartialEq)]
struct PathCheck {
    by: AuthorizerValue,
    path: String,
}

#[derive(Clone, Debug, PartialEq)]
struct GroupCheck {
    by: AuthorizerValue,
    group: String,
}

#[derive(Clone, Debug, PartialEq)]
struct ResourceCheck {
    by: AuthorizerValue,
    target: ResourceAccess,
}

impl Named for AuthorizerValue {
    const TYPE: &'static str = "kubernetes.authorization.Authorizer";
}

impl Named for PathCheck {
    const TYPE: &'static str = "kubernetes.authorization.PathCheck";
}

impl Named for GroupCheck {
    const TYPE: &'static str = "kubernetes.authorization.GroupCheck";
}

impl Named for ResourceCheck {
    const TYPE: &'static str = "kubernetes.authorization.ResourceCheck";
}

impl Named for Decision {
    const TYPE: &'static str = "kubernetes.authorization.Decision";
}

impl AuthorizerValue {
    fn decide<'a>(&self, verb: &str, target: AccessTarget) -> Val<'a> {
        let check = AccessCheck { subject: self.subject.clone(), verb: verb.to_owned(), target };
        row::value(self.authorizer.decide(&check))
    }
}

/// Functions of the library with their costs.
pub(crate) fn overloads() -> Vec<Row> {
    let mut rows = checks();
    rows.extend(parts());
    rows.extend(answers());
    rows
}

/// Cost of one authorizer call: two checks fit into one expression.
const CHECK_COST: u64 = 350_000;

/// Functions from an authorizer to a check.
fn checks() -> Vec<Row> {
    let authorizer = || Type::opaque(AuthorizerValue::TYPE);
    let text_to = |id: &str, from: &str, to: &str, make: BuildValue| {
        let args = [Type::opaque(from), Type::String];
        Overload::method(id, args, Type::opaque(to), move |args| make(args, row::text(args, 1)?))
    };
    let service_account = Overload::method(
        "authorizer_serviceaccount",
        [authorizer(), Type::String, Type::String],
        authorizer(),
        service_account,
    );
    vec![
        ("path", text_to("authorizer_path", AuthorizerValue::TYPE, PathCheck::TYPE, path_check)),
        ("group", text_to("authorizer_group", AuthorizerValue::TYPE, GroupCheck::TYPE, group_check)),
        ("resource", text_to("groupcheck_resource", GroupCheck::TYPE, ResourceCheck::TYPE, resource_check)),
        ("serviceAccount", service_account),
        ("check", costly(text_to("pathcheck_check", PathCheck::TYPE, Decision::TYPE, ask_path))),
        ("check", costly(text_to("resourcecheck_check", ResourceCheck::TYPE, Decision::TYPE, ask_resource))),
    ]
}

/// Body of a method with one text argument; the text is passed separately.
type BuildValue = for<'a> fn(&[Val<'a>], &str) -> Result<Val<'a>, EvalError>;

/// Adds the cost of an authorizer call to an overload.
fn costly(overload: Overload) -> Overload {
    let cost = CallEstimate::of(CostEstimate::fixed(CHECK_COST));
    overload.cost(CostRule::new(move |_| Some(cost), |_| Some(CHECK_COST)))
}

fn path_check<'a>(args: &[Val<'a>], path: &str) -> Result<Val<'a>, EvalError> {
    if path.trim().is_empty() {
        return Err(EvalError::other("path must not be empty"));
    }
    let by = row::opaque::<AuthorizerValue>(args, 0)?.clone();
    Ok(row::value(PathCheck { by, path: path.to_owned() }))
}

fn group_check<'a>(args: &[Val<'a>], group: &str) -> Result<Val<'a>, EvalError> {
    let by = row::opaque::<AuthorizerValue>(args, 0)?.clone();
    Ok(row::value(GroupCheck { by, group: group.to_owned() }))
}

fn resource_check<'a>(args: &[Val<'a>], resource: &str) -> Result<Val<'a>, EvalError> {
    if resource.trim().is_empty() {
        return Err(EvalError::other("resource must not be empty"));
    }
    let GroupCheck { by, group } = row::opaque::<GroupCheck>(args, 0)?.clone();
    let target = ResourceAccess { group, resource: resource.to_owned(), ..ResourceAccess::default() };
    Ok(row::value(ResourceCheck { by, target }))
}

fn ask_path<'a>(args: &[Val<'a>], verb: &str) -> Result<Val<'a>, EvalError> {
    let check = row::opaque::<PathCheck>(args, 0)?;
    Ok(check.by.decide(verb, AccessTarget::Path(check.path.clone())))
}

fn ask_resource<'a>(args: &[Val<'a>], verb: &str) -> Result<Val<'a>, EvalError> {
    let check = row::opaque::<ResourceCheck>(args, 0)?;
    Ok(check.by.decide(verb, AccessTarget::Resource(check.target.clone())))
}

fn service_account<'a>(args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    let by = row::opaque::<AuthorizerValue>(args, 0)?;
    let (namespace, own) = (row::text(args, 1)?, row::text(args, 2)?);
    if !name::dns1123_subdomain(own).is_empty() {
        return Err(EvalError::other("Invalid service account name"));
    }
    if !name::dns1123_label(namespace).is_empty() {
        return Err(EvalError::other("Invalid service account namespace"));
    }
    let subject = Subject::ServiceAccount { namespace: namespace.to_owned(), name: own.to_owned() };
    Ok(row::value(AuthorizerValue { authorizer: by.authorizer.clone(), subject }))
}

/// Functions that set parts of a check's resource.
fn parts() -> Vec<Row> {
    let part = |id: &str, set: fn(&mut ResourceAccess, String)| {
        let ty = || Type::opaque(ResourceCheck::TYPE);
        Overload::method(id, [ty(), Type::String], ty(), move |args| {
            let mut check = row::opaque::<ResourceCheck>(args, 0)?.clone();
            set(&mut check.target, row::text(args, 1)?.to_owned());
            Ok(row::value(check))
        })
    };
    let selector = |overload: Overload| {
        overload.cost(CostRule::new(
            |call| Some(CallEstimate::of(selector_cost(call.arg_size(0)))),
            |call| Some(selector_cost(SizeEstimate::fixed(call.arg_size(0))).max),
        ))
    };
    vec![
        ("subresource", part("resourcecheck_subresource", |target, text| target.subresource = text)),
        ("namespace", part("resourcecheck_namespace", |target, text| target.namespace = text)),
        ("name", part("resourcecheck_name", |target, text| target.name = text)),
        (
            "fieldSelector",
            selector(part("authorizer_fieldselector", |target, text| target.field_selector = text)),
        ),
        (
            "labelSelector",
            selector(part("authorizer_labelselector", |target, text| target.label_selector = text)),
        ),
    ]
}

/// Cost of parsing a selector: a list, reading the text, and one requirement (a list in an object) for every
/// two characters.
fn selector_cost(size: SizeEstimate) -> CostEstimate {
    const LIST: u64 = 10;
    const REQUIREMENT: f64 = 50.0;
    let requirements = size.cost(0.5).scaled(REQUIREMENT);
    CostEstimate::fixed(LIST).plus(size.cost(row::TRAVERSAL)).plus(requirements)
}

/// Functions that read a decision.
fn answers() -> Vec<Row> {
    let answer = |id: &str, result: Type, read: fn(&Decision) -> Val<'static>| {
        Overload::method(id, [Type::opaque(Decision::TYPE)], result, move |args| {
            Ok(read(row::opaque::<Decision>(args, 0)?))
        })
    };
    vec![
        ("allowed", answer("decision_allowed", Type::Bool, |decision| Val::Bool(decision.allowed))),
        ("reason", answer("decision_reason", Type::String, |decision| Val::string(&*decision.reason))),
        ("errored", answer("decision_errored", Type::Bool, |decision| Val::Bool(decision.error.is_some()))),
        (
            "error",
            answer("decision_error", Type::String, |decision| {
                Val::string(decision.error.as_deref().unwrap_or_default())
            }),
        ),
    ]
}
