//! The variable `authorizer`: expressions ask whether the requester, or a service account, may do something. The apiserver decides,
//! through [`Authorizer`]; here are the functions of the library `kubernetes.authz` and the memory of the decisions of one request.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use kstore_cel::{CallEstimate, CostEstimate, EvalError, Overload, SizeEstimate, Type, Val};
use serde_json::Value;

use super::row::{self, Named, Row};
use crate::name;
use crate::object::text;

/// Decides whether a subject may do something. Implementations answer at once, from memory: expressions do not wait.
pub trait Authorizer: Send + Sync {
    /// The decision on one check. Called at most once for equal checks of one request.
    fn decide(&self, check: &AccessCheck) -> Decision;
}

/// What an expression wants to know: whether a subject may use a verb on a target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccessCheck {
    /// The user that the check is about.
    pub subject: Subject,
    /// The verb of the API, such as `create`, or of HTTP for paths.
    pub verb: String,
    /// The path or resource.
    pub target: AccessTarget,
}

/// The user of an [`AccessCheck`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// The user who sent the request.
    Requester,
    /// A service account, with the groups that all service accounts of its namespace have.
    ServiceAccount {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// The target of an [`AccessCheck`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessTarget {
    /// A path that is no resource, such as `/healthz`.
    Path(String),
    /// A resource of the API.
    Resource(ResourceAccess),
}

/// A resource of an [`AccessCheck`]. Empty texts mean "not given"; the version is always `*`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceAccess {
    /// API group.
    pub group: String,
    /// Lower-case plural.
    pub resource: String,
    /// Subresource.
    pub subresource: String,
    /// Namespace; empty for the whole cluster.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Field selector as written, which may be malformed.
    pub field_selector: String,
    /// Label selector as written, which may be malformed.
    pub label_selector: String,
}

/// The answer to an [`AccessCheck`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is allowed. "No opinion" is not.
    pub allowed: bool,
    /// Why; may be empty.
    pub reason: String,
    /// What went wrong while deciding.
    pub error: Option<String>,
}

/// An authorizer for the expressions of one request, which remembers its decisions. Clones share the memory.
#[derive(Clone)]
pub struct RequestAuthorizer {
    authorizer: Arc<dyn Authorizer>,
    decisions: Arc<Mutex<BTreeMap<AccessCheck, Decision>>>,
}

impl RequestAuthorizer {
    /// An authorizer that has decided nothing yet.
    #[must_use]
    pub fn new(authorizer: Arc<dyn Authorizer>) -> Self {
        Self { authorizer, decisions: Arc::default() }
    }

    /// The decision on a check, asked for only once.
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
    /// The value of `authorizer`.
    pub(super) fn as_value<'a>(&self) -> Val<'a> {
        row::value(AuthorizerValue { authorizer: self.clone(), subject: Subject::Requester })
    }

    /// The value of `authorizer.requestResource`: a check of what an admission request is about.
    pub(super) fn request_resource<'a>(&self, request: &Value) -> Val<'a> {
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

/// The type of `authorizer`.
pub(super) fn authorizer_type() -> Type {
    Type::opaque(AuthorizerValue::TYPE)
}

/// The type of `authorizer.requestResource`.
pub(super) fn resource_check_type() -> Type {
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

/// The functions, each with its cost.
pub(super) fn overloads() -> Vec<Row> {
    let mut rows = checks();
    rows.extend(parts());
    rows.extend(answers());
    rows
}

/// Cost of asking the authorizer: two checks fit into one expression.
const CHECK_COST: u64 = 350_000;

/// From an authorizer to a check.
fn checks() -> Vec<Row> {
    let authorizer = || Type::opaque(AuthorizerValue::TYPE);
    let text_to = |id: &str, from: &str, to: &str, make: Make| {
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

/// What a method with one text as argument makes of its arguments, the text being the last.
type Make = for<'a> fn(&[Val<'a>], &str) -> Result<Val<'a>, EvalError>;

/// An overload that asks the authorizer.
fn costly(overload: Overload) -> Overload {
    let cost = CallEstimate::of(CostEstimate::fixed(CHECK_COST));
    overload.estimated(move |_| Some(cost)).counted(|_| Some(CHECK_COST))
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

/// Parts of the resource of a check.
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
        overload
            .estimated(|call| Some(CallEstimate::of(selector_cost(call.arg_size(0)))))
            .counted(|call| Some(selector_cost(SizeEstimate::fixed(call.size(1))).max))
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

/// The cost of parsing a selector: a list, reading the text, and for every two characters a requirement, which is a list in an object.
fn selector_cost(size: SizeEstimate) -> CostEstimate {
    const LIST: u64 = 10;
    const REQUIREMENT: f64 = 50.0;
    let requirements = size.cost(0.5).scaled(REQUIREMENT);
    CostEstimate::fixed(LIST).plus(size.cost(row::TRAVERSAL)).plus(requirements)
}

/// What a decision says.
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
