//! Tests of policies on a minimal server: recorded answers (`replay`), and rules without recordings
//! (`rules`).

mod replay;
mod rules;

use super::NO_EXTRA;
use crate::admission::attributes::{Attributes, GroupVersionKind, GroupVersionResource, Operation, UserInfo};
use crate::admission::equivalent::equivalents;
use crate::admission::policy::mutating::MutatingPolicies;
use crate::admission::policy::validating::ValidatingPolicies;
use crate::admission::policy::{Cluster, Outcome, ParamKind, ParamScope, PolicyRequest, complete_built_in};
use crate::admission::reinvocation::Reinvocation;
use crate::admission::selection::ClusterFacts;
use crate::expression::authorizer::{AccessCheck, Authorizer, Decision, RequestAuthorizer, Subject};
use crate::group_version::split_api_version;
use crate::kind::{Kinds, lookup_kind};
use crate::object::text;
use crate::patch::apply::ObjectType;
use crate::resource::Resource;
use crate::selector::label::Selector;
use crate::status::Status;
use crate::{convert, meta, schema};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1/";

/// Configuration, and objects for parameters and old objects.
#[derive(Default)]
struct Server {
    /// Configuration objects by plural and name.
    configuration: BTreeMap<(String, String), Value>,
    namespaces: BTreeMap<String, Value>,
    /// Objects by plural, namespace and name.
    objects: BTreeMap<(String, String, String), Value>,
}

impl Cluster for Server {
    fn convert(&self, object: &Value, to: GroupVersionKind<'_>) -> Result<Value, String> {
        let row = lookup_kind(to.group, to.version, to.kind).ok_or("no such kind")?;
        let mut object = object.clone();
        convert::to_version(row, &mut object).map_err(|error| error.to_string())?;
        Ok(object)
    }

    fn object_type(&self, kind: GroupVersionKind<'_>) -> Option<ObjectType<'_>> {
        schema::of(kind.group, kind.version, kind.kind).map(ObjectType::BuiltIn)
    }

    fn complete(&self, kind: GroupVersionKind<'_>, object: Value) -> Result<Value, Status> {
        complete_built_in(lookup_kind(kind.group, kind.version, kind.kind).unwrap(), object)
    }

    fn param_scope(&self, kind: &ParamKind) -> Option<ParamScope> {
        let (group, version) = split_api_version(&kind.api_version);
        let row = lookup_kind(group, version, &kind.kind)?;
        Some(if row.namespaced { ParamScope::Namespaced } else { ParamScope::Cluster })
    }

    fn param(&self, _: &ParamKind, namespace: &str, name: &str) -> Option<Value> {
        let key = ("configmaps".to_owned(), namespace.to_owned(), name.to_owned());
        self.objects.get(&key).cloned()
    }

    fn params(&self, _: &ParamKind, namespace: &str, selector: &Selector) -> Vec<Value> {
        let own =
            self.objects.iter().filter(|((plural, own, _), _)| plural == "configmaps" && own == namespace);
        own.map(|(_, object)| object)
            .filter(|object| selector.matches(&meta::labels(object)))
            .cloned()
            .collect()
    }
}

/// Authorizer that allows everything to `admin` and nothing to service accounts.
struct AdminOnly;

impl Authorizer for AdminOnly {
    fn decide(&self, check: &AccessCheck) -> Decision {
        Decision { allowed: check.subject == Subject::Requester, ..Decision::default() }
    }
}

/// One request to the server.
struct Call<'a> {
    operation: Operation,
    row: &'static Resource,
    subresource: &'a str,
    namespace: &'a str,
    name: &'a str,
    dry_run: bool,
    object: Option<Value>,
    old_object: Option<Value>,
}

impl Server {
    fn of(&self, plural: &str) -> Vec<&Value> {
        self.configuration.iter().filter(|((own, _), _)| own == plural).map(|(_, object)| object).collect()
    }

    fn admit(&self, call: Call<'_>) -> (Option<Value>, Outcome) {
        let list = equivalents(&Kinds::built_in(), call.row, call.subresource);
        let kind = call.row.subresource(call.subresource).map_or_else(|| call.row.into(), Into::into);
        let groups = ["system:masters", "system:authenticated"].map(str::to_owned);
        let authorizer = RequestAuthorizer::new(Arc::new(AdminOnly));
        let mut object = call.object;
        let mut state = Reinvocation::new();
        let policies = MutatingPolicies::new(
            self.of("mutatingadmissionpolicies"),
            self.of("mutatingadmissionpolicybindings"),
        );
        let attributes = Attributes {
            operation: call.operation,
            resource: GroupVersionResource::from(call.row),
            subresource: call.subresource,
            kind,
            namespace: call.namespace,
            name: call.name,
            user: UserInfo { username: "admin", uid: "admin", groups: &groups, extra: &NO_EXTRA },
            dry_run: call.dry_run,
            options: None,
            object: None,
            old_object: call.old_object.as_ref(),
        };
        let facts = ClusterFacts { namespace: self.namespaces.get(call.namespace), equivalents: &list };
        loop {
            let attributes = Attributes { object: object.as_ref(), ..attributes };
            let request = PolicyRequest {
                attributes,
                facts,
                cluster: self,
                authorizer: Some(&authorizer),
                checks: &(),
            };
            match policies.admit(&request, &mut state) {
                Ok(Some(new)) => object = Some(new),
                Ok(None) => {}
                Err(status) => return (object, Outcome { denial: Some(status), ..Outcome::default() }),
            }
            if !state.start_second_round() {
                break;
            }
        }
        let policies = ValidatingPolicies::new(
            self.of("validatingadmissionpolicies"),
            self.of("validatingadmissionpolicybindings"),
        );
        let attributes = Attributes { object: object.as_ref(), ..attributes };
        let request =
            PolicyRequest { attributes, facts, cluster: self, authorizer: Some(&authorizer), checks: &() };
        let outcome = policies.admit(&request);
        (object, outcome)
    }

    /// Applies a recorded line to the configuration. `true`: the line was about the configuration.
    fn configure(&mut self, line: &Value) -> bool {
        let (method, path) = (text(&line["method"]), text(&line["path"]));
        let response = &line["response"];
        if let Some(rest) = path.strip_prefix(REGISTRATION) {
            let plural = rest.split(['/', '?']).next().unwrap().to_owned();
            let succeeded = line["status"].as_u64().is_some_and(|status| status < 300);
            if succeeded && !path.contains("dryRun") && !path.ends_with("/status") && method != "GET" {
                match (method, rest.split_once('/')) {
                    ("DELETE", Some((_, name))) => {
                        drop(self.configuration.remove(&(plural, name.to_owned())));
                    }
                    _ => drop(
                        self.configuration
                            .insert((plural, meta::name(response).to_owned()), response.clone()),
                    ),
                }
            }
            return true;
        }
        if path == "/api/v1/namespaces" && method == "POST" {
            let mut namespace = response.clone();
            meta::set_label(&mut namespace, "kubernetes.io/metadata.name", meta::name(response));
            self.namespaces.insert(meta::name(response).to_owned(), namespace);
            return true;
        }
        false
    }
}
