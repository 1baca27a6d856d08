//! The small documents: of the lists of versions and groups, of one group, and of `/version`.

use serde_json::{Value, json};

use super::operation::{OBJECTS, any_media};
use super::{common, group_tag, reference, schemas, upper};

/// A path with one GET.
struct Page<'a> {
    path: String,
    id: String,
    tag: String,
    description: &'static str,
    /// "": text.
    schema: &'static str,
    media: &'a [&'static str],
}

/// `/api`.
pub(super) fn versions() -> Value {
    Page {
        path: "/api/".into(),
        id: "getCoreAPIVersions".into(),
        tag: "core".into(),
        description: "get available API versions",
        schema: common::API_VERSIONS,
        media: &OBJECTS,
    }
    .document()
}

/// `/apis`.
pub(super) fn groups() -> Value {
    Page {
        path: "/apis/".into(),
        id: "getAPIVersions".into(),
        tag: "apis".into(),
        description: "get available API versions",
        schema: common::API_GROUP_LIST,
        media: &OBJECTS,
    }
    .document()
}

/// `/apis/<group>`.
pub(super) fn group(group: &str) -> Value {
    let tag = group_tag(group);
    Page {
        path: format!("/apis/{group}/"),
        id: format!("get{}APIGroup", upper(&tag)),
        tag,
        description: "get information of a group",
        schema: common::API_GROUP,
        media: &OBJECTS,
    }
    .document()
}

/// `/version`.
pub(super) fn version() -> Value {
    Page {
        path: "/version/".into(),
        id: "getCodeVersion".into(),
        tag: "version".into(),
        description: "get the version information for this server",
        schema: common::VERSION,
        media: &OBJECTS[..1],
    }
    .document()
}

/// `/.well-known/openid-configuration`.
pub(super) fn issuer() -> Value {
    Page {
        path: "/.well-known/openid-configuration/".into(),
        id: "getServiceAccountIssuerOpenIDConfiguration".into(),
        tag: "WellKnown".into(),
        description: "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
        schema: "",
        media: &OBJECTS[..1],
    }
    .document()
}

/// `/openid/v1/jwks`.
pub(super) fn keys() -> Value {
    Page {
        path: "/openid/v1/jwks/".into(),
        id: "getServiceAccountIssuerOpenIDKeyset".into(),
        tag: "openid".into(),
        description: "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
        schema: "",
        media: &["application/jwk-set+json"],
    }
    .document()
}

impl Page<'_> {
    fn document(&self) -> Value {
        let text = self.schema.is_empty();
        let schema = if text { json!({"type": "string"}) } else { reference(self.schema) };
        let content = any_media(&schema, self.media);
        let operation = json!({
            "tags": [self.tag],
            "operationId": self.id,
            "description": self.description,
            "responses": {
                "200": {"description": "OK", "content": content},
                "401": {"description": "Unauthorized"},
            },
        });
        let schemas = schemas::named(std::iter::once(self.schema).filter(|_| !text));
        super::envelope(json!({&self.path: {"get": operation}}), schemas.into())
    }
}
