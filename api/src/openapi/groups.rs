//! [`Page`]: OpenAPI paths that belong to no resource, such as `/apis` or `/version`.

use super::form::{Bodies, Content, Form};
use super::operation::{OBJECTS, OK};
use super::{GroupVersion, common, group_tag, upper};
use serde_json::{Map, Value, json};

/// OpenAPI description of a path with one GET operation.
pub(super) struct Page {
    path: String,
    id: String,
    tag: String,
    description: &'static str,
    /// Name of the response schema; empty for text.
    schema: &'static str,
    media: &'static [&'static str],
    /// Media types of requests, by v2 alone; empty for paths that state none.
    consumes: &'static [&'static str],
}

/// The page of `/api`.
pub(super) fn versions() -> Page {
    Page {
        path: "/api/".into(),
        id: "getCoreAPIVersions".into(),
        tag: "core".into(),
        description: "get available API versions",
        schema: common::API_VERSIONS,
        media: &OBJECTS,
        consumes: &OBJECTS,
    }
}

/// The page of `/apis`.
pub(super) fn groups() -> Page {
    Page {
        path: "/apis/".into(),
        id: "getAPIVersions".into(),
        tag: "apis".into(),
        description: "get available API versions",
        schema: common::API_GROUP_LIST,
        media: &OBJECTS,
        consumes: &OBJECTS,
    }
}

/// The page of `/apis/<group>`.
pub(super) fn group(group: &str) -> Page {
    let tag = group_tag(group);
    Page {
        path: format!("/apis/{group}/"),
        id: format!("get{}APIGroup", upper(&tag)),
        tag,
        description: "get information of a group",
        schema: common::API_GROUP,
        media: &OBJECTS,
        consumes: &OBJECTS,
    }
}

/// The page of `/apis/<group>/<version>`.
pub(super) fn version_of_group(gv: &GroupVersion) -> Page {
    Page {
        path: format!("/{}/", gv.path()),
        id: format!("get{}APIResources", gv.camel()),
        tag: gv.tag(),
        description: "get available resources",
        schema: common::API_RESOURCE_LIST,
        media: &OBJECTS,
        consumes: &OBJECTS,
    }
}

/// The page of `/version`.
pub(super) fn version() -> Page {
    Page {
        path: "/version/".into(),
        id: "getCodeVersion".into(),
        tag: "version".into(),
        description: "get the version information for this server",
        schema: common::VERSION,
        media: &OBJECTS[..1],
        consumes: &OBJECTS[..1],
    }
}

/// The page of `/.well-known/openid-configuration`.
pub(super) fn issuer() -> Page {
    Page {
        path: "/.well-known/openid-configuration/".into(),
        id: "getServiceAccountIssuerOpenIDConfiguration".into(),
        tag: "WellKnown".into(),
        description: "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
        schema: "",
        media: &OBJECTS[..1],
        consumes: &[],
    }
}

/// The page of `/openid/v1/jwks`.
pub(super) fn keys() -> Page {
    Page {
        path: "/openid/v1/jwks/".into(),
        id: "getServiceAccountIssuerOpenIDKeyset".into(),
        tag: "openid".into(),
        description: "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
        schema: "",
        media: &["application/jwk-set+json"],
        consumes: &[],
    }
}

impl Page {
    /// Name of the response schema; `None` for text.
    pub(super) fn root(&self) -> Option<&'static str> {
        Some(self.schema).filter(|name| !name.is_empty())
    }

    /// The path with its operation.
    pub(super) fn paths(&self, form: &mut dyn Form) -> Map<String, Value> {
        let members = [
            ("tags", json!([self.tag])),
            ("operationId", self.id.as_str().into()),
            ("description", self.description.into()),
        ];
        let mut members = members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let answer = Content { schema: self.root(), media: self.media.to_vec() };
        form.add_bodies(
            &mut members,
            &Bodies { request: None, answer, codes: &[OK], consumes: self.consumes },
        );
        Map::from_iter([(self.path.clone(), json!({"get": members}))])
    }
}
