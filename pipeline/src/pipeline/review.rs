//! SubjectAccessReviews and their relatives: questions about permissions and identity, posted like objects
//! and answered at once. Pure functions that fill in a review's status; nothing is stored. TokenReviews are
//! not handled here, since they need the state of the cluster.

use jiff::Timestamp;
use kstore_access::authz::node::node_of;
use kstore_access::authz::rule::Rule;
use kstore_access::authz::{Attributes, Authorizer, Decision, Mode, More, Target as AccessTarget};
use kstore_api::field::{ErrorList, Path};
use kstore_api::status::Status;
use kstore_api::{meta, object, validate};
use kstore_registry::request::Target;
use kstore_registry::user::UserInfo;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Fills in the status of a review that `caller` posted.
///
/// # Errors
/// 422 if the review is invalid; 405 for other kinds.
pub(super) async fn answer(
    authorizer: &Authorizer,
    caller: &UserInfo,
    target: &Target,
    mut review: Value,
    now: Timestamp,
) -> Result<Value, Status> {
    let kind = target.resource.kind;
    if !review["metadata"].is_object() {
        review["metadata"] = json!({});
    }
    if kind == "LocalSubjectAccessReview" && meta::namespace(&review).is_empty() {
        review["metadata"]["namespace"] = json!(target.namespace);
    }
    if kind == "SelfSubjectRulesReview" && object::text(&review["spec"]["namespace"]).is_empty() {
        return Err(Status::bad_request("no namespace on request"));
    }
    let mut errors = validate::review(target.resource, &review);
    if !errors.is_empty() {
        return Err(Status::invalid(target.resource.group, kind, "", &errors));
    }
    let status = match kind {
        "SelfSubjectReview" => json!({ "userInfo": caller }),
        "SelfSubjectRulesReview" => rules(authorizer, caller, &review["spec"], &mut errors),
        "SelfSubjectAccessReview" => access(authorizer, caller, &review["spec"]).await,
        "LocalSubjectAccessReview" if meta::namespace(&review) != target.namespace => {
            let message =
                format!("spec.resourceAttributes.namespace must match namespace: {}", target.namespace);
            return Err(Status::bad_request(message));
        }
        "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            access(authorizer, &subject(&review["spec"]), &review["spec"]).await
        }
        _ => return Err(Status::method_not_allowed(target.resource, "create")),
    };
    if !errors.is_empty() {
        return Err(Status::invalid(target.resource.group, kind, "", &errors));
    }
    review["status"] = status;
    meta::metadata_mut(&mut review);
    // Kubernetes answers these with a new object instead of the posted one. One of them has a creation time, unlike all other reviews.
    match kind {
        "SelfSubjectReview" => {
            review["metadata"] = json!({ "creationTimestamp": meta::format_time(now) });
        }
        "SelfSubjectRulesReview" => {
            review["metadata"] = json!({});
            review["spec"] = json!({});
        }
        _ => {}
    }
    Ok(review)
}

/// The user that a SubjectAccessReview or LocalSubjectAccessReview names.
fn subject(spec: &Value) -> UserInfo {
    let strings = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
    let extra: BTreeMap<String, Vec<String>> = spec["extra"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, values)| (key.clone(), strings(values)))
        .collect();
    UserInfo { username: text("user"), uid: text("uid"), groups: strings(&spec["groups"]), extra }
}

async fn access(authorizer: &Authorizer, user: &UserInfo, spec: &Value) -> Value {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let of = |object: &'_ Value, field: &str| object[field].as_str().unwrap_or_default().to_owned();
    let verb = of(if resource.is_object() { resource } else { path }, "verb");
    let fields = ["group", "resource", "subresource", "namespace", "name"].map(|field| of(resource, field));
    let non_resource_path = of(path, "path");
    let target = if resource.is_object() {
        let [group, resource, subresource, namespace, name] = &fields;
        AccessTarget::Resource { group, resource, subresource, namespace, name }
    } else {
        AccessTarget::Path(&non_resource_path)
    };
    let version = of(resource, "version");
    let more = More { version: &version, selects: None };
    let decision = authorizer.decide(&Attributes { user, verb: &verb, target, more }).await;
    let mut status = json!({ "allowed": matches!(decision, Decision::Allow(_)) });
    let reason = match decision {
        Decision::Deny(reason) => {
            status["denied"] = json!(true);
            reason
        }
        Decision::Allow(reason) | Decision::NoOpinion(reason) => reason,
    };
    if !reason.is_empty() {
        status["reason"] = json!(reason);
    }
    status
}

fn rules(authorizer: &Authorizer, caller: &UserInfo, spec: &Value, errors: &mut ErrorList) -> Value {
    let namespace = spec["namespace"].as_str().unwrap_or_default();
    if namespace.is_empty() {
        errors.required(&Path::new("spec").child("namespace"), "");
        return Value::Null;
    }
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    let mut unknown = Vec::new();
    for mode in authorizer.modes().iter() {
        match mode {
            Mode::Rbac => {
                for rule in authorizer.policy().rules_of(caller, namespace) {
                    add_rule(rule, &mut resources, &mut paths);
                }
            }
            Mode::AlwaysAllow => {
                push_once(&mut resources, json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
                push_once(&mut paths, json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
            }
            Mode::Node if node_of(caller).is_some() => {
                unknown.push("node authorizer does not support user rule resolution");
            }
            Mode::Webhook(_) => unknown.push("webhook authorizer does not support user rule resolution"),
            Mode::Abac(_) => unknown.push("ABAC authorizer does not support user rule resolution"),
            Mode::Node | Mode::AlwaysDeny => {}
        }
    }
    let mut status =
        json!({ "resourceRules": resources, "nonResourceRules": paths, "incomplete": !unknown.is_empty() });
    if !unknown.is_empty() {
        status["evaluationError"] = json!(unknown.join(", "));
    }
    status
}

fn add_rule(rule: &Rule, resources: &mut Vec<Value>, paths: &mut Vec<Value>) {
    if !rule.resources.is_empty() {
        push_once(resources, Rule { urls: Vec::new(), ..rule.clone() }.to_value());
    }
    if !rule.urls.is_empty() {
        let only = Rule { verbs: rule.verbs.clone(), urls: rule.urls.clone(), ..Rule::default() };
        push_once(paths, only.to_value());
    }
}

fn push_once(list: &mut Vec<Value>, value: Value) {
    if !list.contains(&value) {
        list.push(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use kstore_access::authz::bootstrap;
    use kstore_api::kind;
    use kstore_registry::testing::MapLookup;
    use kstore_registry::user::MASTERS;

    fn post(caller: &UserInfo, plural: &str, namespace: &str, spec: Value) -> Result<Value, Status> {
        let authorizer = Authorizer::new(MapLookup::of(bootstrap::objects()));
        let group =
            if plural == "selfsubjectreviews" { "authentication.k8s.io" } else { "authorization.k8s.io" };
        let resource = kind::lookup(group, "v1", plural).unwrap();
        let target = Target {
            resource,
            custom: None,
            subresource: "",
            namespace: namespace.into(),
            name: String::new(),
        };
        let review = json!({ "kind": resource.kind, "spec": spec });
        let answered = answer(&authorizer, caller, &target, review, Timestamp::UNIX_EPOCH);
        answered.now_or_never().expect("no mode waits")
    }

    #[test]
    fn access_reviews_state_the_reason() {
        let scheduler = UserInfo::new("system:kube-scheduler", [""; 0]);
        let pods = |verb: &str| json!({ "resourceAttributes": { "verb": verb, "resource": "pods", "namespace": "a" } });
        let yes = post(&scheduler, "selfsubjectaccessreviews", "", pods("list")).unwrap();
        assert_eq!(yes["status"]["allowed"], true);
        assert!(yes["status"]["reason"].as_str().unwrap().starts_with("RBAC: allowed by ClusterRoleBinding"));
        assert_eq!(yes["metadata"], json!({}), "a time that is none is not written");
        let no = post(&scheduler, "selfsubjectaccessreviews", "", pods("create")).unwrap();
        assert_eq!(no["status"], json!({ "allowed": false }));
        let path = json!({ "nonResourceAttributes": { "verb": "get", "path": "/apis" } });
        assert_eq!(
            post(&scheduler, "selfsubjectaccessreviews", "", path).unwrap()["status"]["allowed"],
            true
        );
    }

    #[test]
    fn subject_access_reviews_require_a_subject() {
        let admin = UserInfo::new("admin", [MASTERS]);
        let ask = |user: &str| json!({ "user": user, "resourceAttributes": { "verb": "list", "resource": "pods", "namespace": "a" } });
        let review = post(&admin, "subjectaccessreviews", "", ask("system:kube-scheduler")).unwrap();
        assert_eq!(review["status"]["allowed"], true);
        assert_eq!(post(&admin, "subjectaccessreviews", "", ask("bob")).unwrap()["status"]["allowed"], false);
        assert_eq!(post(&admin, "subjectaccessreviews", "", ask("")).unwrap_err().code, 422);
        assert!(post(&admin, "localsubjectaccessreviews", "a", ask("bob")).is_ok());
        assert_eq!(post(&admin, "localsubjectaccessreviews", "b", ask("bob")).unwrap_err().code, 422);
        assert_eq!(post(&admin, "selfsubjectaccessreviews", "", json!({})).unwrap_err().code, 422);
    }

    #[test]
    fn callers_can_review_their_own_rules_and_identity() {
        let admin = UserInfo::new("admin", [MASTERS]);
        let rules = post(&admin, "selfsubjectrulesreviews", "", json!({ "namespace": "a" })).unwrap();
        let all = json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] });
        assert!(rules["status"]["resourceRules"].as_array().unwrap().contains(&all));
        assert_eq!(rules["status"]["incomplete"], false);
        assert_eq!(rules["spec"], json!({}), "the answer is a new object");
        let refused = post(&admin, "selfsubjectrulesreviews", "", json!({})).unwrap_err();
        assert_eq!((refused.code, &*refused.message), (400, "no namespace on request"));
        let who = post(&admin, "selfsubjectreviews", "", Value::Null).unwrap();
        assert_eq!(who["status"]["userInfo"]["username"], "admin");
        assert_eq!(who["metadata"], json!({ "creationTimestamp": "1970-01-01T00:00:00Z" }));
    }
}
