//! The requests of the REST API for the messages of kstore's gRPC API. Pure.

use crate::error::to_grpc;
use bytes::Bytes;
use http::Method;
use kstore_api::status::Status;
use kstore_proto::kstore::v1 as pb;
use pb::patch_request::Type as PatchType;
use serde_json::json;
use std::fmt::Write as _;
use tonic::Status as GrpcStatus;

const JSON: &str = "application/json";

/// A request of the REST API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RestRequest {
    pub(super) method: Method,
    /// Path and query.
    pub(super) uri: String,
    pub(super) content_type: Option<&'static str>,
    pub(super) body: Bytes,
}

/// The parameters of a list or of the deletion of a collection.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    pub(super) labels: String,
    pub(super) fields: String,
    /// The largest number of objects; 0 for all.
    pub(super) limit: i64,
    /// The continue token.
    pub(super) next: String,
    /// The revision to read; 0 for the newest state.
    pub(super) at: i64,
}

/// Gets an object.
pub(super) fn get(message: pb::GetRequest) -> Result<RestRequest, GrpcStatus> {
    if message.revision != 0 {
        return Err(refuse("this API server reads no object as of a revision in the past"));
    }
    let reference = named(message.r#ref)?;
    Ok(RestRequest::read(Method::GET, Uri::of(&reference, &reference.name)?))
}

/// Lists objects of a resource.
pub(super) fn list(reference: &pb::Ref, selection: &Selection) -> Result<RestRequest, GrpcStatus> {
    let fields = fields(reference, &selection.fields);
    let mut uri = Uri::of(reference, "")?;
    uri.select(&Selection { fields, ..selection.clone() });
    Ok(RestRequest::read(Method::GET, uri))
}

/// The field selector that also selects the name of the reference, if it has one.
pub(super) fn fields(reference: &pb::Ref, selector: &str) -> String {
    match (reference.name.as_str(), selector) {
        ("", selector) => selector.to_owned(),
        (name, "") => format!("metadata.name={name}"),
        (name, selector) => format!("metadata.name={name},{selector}"),
    }
}

/// Creates an object, or posts to a subresource of one.
pub(super) fn create(message: pb::CreateRequest, manager: Option<&str>) -> Result<RestRequest, GrpcStatus> {
    let validation = message.field_validation();
    let reference = present(message.r#ref)?;
    let name = if reference.subresource.is_empty() { "" } else { &*reference.name };
    if name.is_empty() && !reference.subresource.is_empty() {
        return Err(refuse("`ref.name` is missing: a subresource is one of an object"));
    }
    let mut uri = Uri::of(&reference, name)?;
    uri.write(message.dry_run, validation, manager);
    Ok(RestRequest { method: Method::POST, uri: uri.0, content_type: Some(JSON), body: message.json })
}

/// Replaces an object or a subresource: `subresource`, or else that of the reference.
pub(super) fn update(
    message: pb::UpdateRequest,
    subresource: Option<&str>,
    manager: Option<&str>,
) -> Result<RestRequest, GrpcStatus> {
    let validation = message.field_validation();
    let mut reference = named(message.r#ref)?;
    if let Some(subresource) = subresource {
        subresource.clone_into(&mut reference.subresource);
    }
    let mut uri = Uri::of(&reference, &reference.name)?;
    uri.write(message.dry_run, validation, manager);
    Ok(RestRequest { method: Method::PUT, uri: uri.0, content_type: Some(JSON), body: message.json })
}

/// Patches an object or a subresource. An apply names its manager even if the call does not (`names_manager`).
pub(super) fn patch(
    message: pb::PatchRequest,
    manager: &str,
    names_manager: bool,
) -> Result<RestRequest, GrpcStatus> {
    let (validation, kind) = (message.field_validation(), message.r#type());
    let reference = named(message.r#ref)?;
    let content_type = match kind {
        PatchType::Merge => "application/merge-patch+json",
        PatchType::Json => "application/json-patch+json",
        PatchType::Strategic => "application/strategic-merge-patch+json",
        PatchType::Apply => "application/apply-patch+yaml",
    };
    let is_apply = kind == PatchType::Apply;
    let mut uri = Uri::of(&reference, &reference.name)?;
    uri.write(message.dry_run, validation, (names_manager || is_apply).then_some(manager));
    match (message.force, is_apply) {
        (true, true) => uri.query("force", "true"),
        (true, false) => return Err(refuse("`force` is for an apply alone")),
        (false, _) => {}
    }
    Ok(RestRequest {
        method: Method::PATCH,
        uri: uri.0,
        content_type: Some(content_type),
        body: message.patch,
    })
}

/// Deletes an object.
pub(super) fn delete(message: pb::DeleteRequest) -> Result<RestRequest, GrpcStatus> {
    let reference = named(message.r#ref)?;
    let uri = Uri::of(&reference, &reference.name)?;
    Ok(RestRequest::with_options(uri, message.options_json))
}

/// Deletes the objects of a resource that match.
pub(super) fn delete_collection(message: pb::DeleteCollectionRequest) -> Result<RestRequest, GrpcStatus> {
    let reference = present(message.r#ref)?;
    let mut uri = Uri::of(&reference, "")?;
    uri.select(&Selection {
        labels: message.label_selector,
        fields: message.field_selector,
        limit: message.limit,
        next: message.r#continue,
        at: 0,
    });
    Ok(RestRequest::with_options(uri, message.options_json))
}

/// Binds a pod to a node.
pub(super) fn bind(message: &pb::BindRequest) -> Result<RestRequest, GrpcStatus> {
    let pb::BindRequest { namespace, pod, uid, node } = message;
    let mut metadata = json!({ "namespace": namespace, "name": pod });
    if !uid.is_empty() {
        metadata["uid"] = json!(uid);
    }
    let target = json!({ "apiVersion": "v1", "kind": "Node", "name": node });
    let binding = json!({ "apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target });
    let reference = pb::Ref {
        version: "v1".to_owned(),
        resource: "pods".to_owned(),
        namespace: namespace.clone(),
        name: pod.clone(),
        subresource: "binding".to_owned(),
        ..pb::Ref::default()
    };
    let uri = Uri::of(&named(Some(reference))?, pod)?;
    let body = binding.to_string().into();
    Ok(RestRequest { method: Method::POST, uri: uri.0, content_type: Some(JSON), body })
}

/// The reference of a message.
pub(super) fn present(reference: Option<pb::Ref>) -> Result<pb::Ref, GrpcStatus> {
    reference.ok_or_else(|| refuse("`ref` is missing: it names the resource"))
}

fn named(reference: Option<pb::Ref>) -> Result<pb::Ref, GrpcStatus> {
    let reference = present(reference)?;
    match reference.name.is_empty() {
        true => Err(refuse("`ref.name` is missing: it names the object")),
        false => Ok(reference),
    }
}

fn refuse(message: &str) -> GrpcStatus {
    to_grpc(&Status::bad_request(message))
}

impl RestRequest {
    fn read(method: Method, uri: Uri) -> Self {
        Self { method, uri: uri.0, content_type: None, body: Bytes::new() }
    }

    fn with_options(uri: Uri, options: Bytes) -> Self {
        let content_type = (!options.is_empty()).then_some(JSON);
        Self { method: Method::DELETE, uri: uri.0, content_type, body: options }
    }
}

/// Path and query of a request.
struct Uri(String);

impl Uri {
    /// The path of the object of this name and of the reference's subresource; without a name, of the resource.
    fn of(reference: &pb::Ref, name: &str) -> Result<Self, GrpcStatus> {
        let pb::Ref { group, version, resource, namespace, subresource, .. } = reference;
        let root = if group.is_empty() { ["api", ""] } else { ["apis", group] };
        let namespaces = if namespace.is_empty() { ["", ""] } else { ["namespaces", namespace] };
        let subresource = if name.is_empty() { "" } else { subresource };
        let mut uri = String::new();
        for (what, required) in [("version", version), ("resource", resource)] {
            if required.is_empty() {
                return Err(refuse(&format!("`ref.{what}` is missing")));
            }
        }
        let segments = root.into_iter().chain([&**version]).chain(namespaces);
        for segment in segments.chain([&**resource, name, subresource]).filter(|segment| !segment.is_empty())
        {
            // The names that Kubernetes refuses as a segment of a path: they would name something else.
            if matches!(segment, "." | "..") || segment.contains(['/', '%']) {
                return Err(refuse(&format!(
                    "{segment:?} is no name: it may not be . or .. or contain / or %"
                )));
            }
            uri.push('/');
            escape(segment, &mut uri);
        }
        Ok(Self(uri))
    }

    fn query(&mut self, name: &str, value: &str) {
        self.0.push(if self.0.contains('?') { '&' } else { '?' });
        self.0.push_str(name);
        self.0.push('=');
        escape(value, &mut self.0);
    }

    fn write(&mut self, is_dry: bool, validation: pb::FieldValidation, manager: Option<&str>) {
        self.query(
            "fieldValidation",
            match validation {
                pb::FieldValidation::Ignore => "Ignore",
                pb::FieldValidation::Warn => "Warn",
                pb::FieldValidation::Strict => "Strict",
            },
        );
        if is_dry {
            self.query("dryRun", "All");
        }
        if let Some(manager) = manager {
            self.query("fieldManager", manager);
        }
    }

    fn select(&mut self, selection: &Selection) {
        let Selection { labels, fields, limit, next, at } = selection;
        for (name, value) in [("labelSelector", labels), ("fieldSelector", fields), ("continue", next)] {
            if !value.is_empty() {
                self.query(name, value);
            }
        }
        if *limit > 0 {
            self.query("limit", &limit.to_string());
        }
        // The token of a later page has the revision.
        if *at > 0 && next.is_empty() {
            self.query("resourceVersion", &at.to_string());
            self.query("resourceVersionMatch", "Exact");
        }
    }
}

fn escape(text: &str, into: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => into.push(byte.into()),
            _ => {
                let _ = write!(into, "%{byte:02X}");
            }
        }
    }
}
