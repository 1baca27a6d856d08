//! [`Page`]: a path that is not of a resource, such as `/apis` or `/version`, as a small document says it.

use serde_json::{Map, Value, json};

use super::operation::{OBJECTS, any_media};
use super::{common, group_tag, reference, upper};

/// A path with one GET.
pub(super) struct Page {
    path: String,
    id: String,
    tag: String,
    description: &'static str,
    /// The schema of the answer; empty where that is text.
    schema: &'static str,
    media: &'static [&'static str],
}

/// `/api`.
pub(super) fn versions() -> Page {
    Page {
        path: "/api/".into(),
        id: "getCoreAPIVersions".into(),
        tag: "core".into(),
        description: "get available API versions",
        schema: common::API_VERSIONS,
        media: &OBJECTS,
    }
}

/// `/apis`.
pub(super) fn groups() -> Page {
    Page {
        path: "/apis/".into(),
        id: "getAPIVersions".into(),
        tag: "apis".into(),
        description: "get available API versions",
        schema: common::API_GROUP_LIST,
        media: &OBJECTS,
    }
}

/// `/apis/<group>`.
pub(super) fn group(group: &str) -> Page {
    let tag = group_tag(group);
    Page {
        path: format!("/apis/{group}/"),
        id: format!("get{}APIGroup", upper(&tag)),
        tag,
        description: "get information of a group",
        schema: common::API_GROUP,
        media: &OBJECTS,
    }
}

/// `/version`.
pub(super) fn version() -> Page {
    Page {
        path: "/version/".into(),
        id: "getCodeVersion".into(),
        tag: "version".into(),
        description: "get the version information for this server",
        schema: common::VERSION,
        media: &OBJECTS[..1],
    }
}

/// `/.well-known/openid-configuration`.
pub(super) fn issuer() -> Page {
    Page {
        path: "/.well-known/openid-configuration/".into(),
        id: "getServiceAccountIssuerOpenIDConfiguration".into(),
        tag: "WellKnown".into(),
        description: "get service account issuer OpenID configuration, also known as the 'OIDC discovery doc'",
        schema: "",
        media: &OBJECTS[..1],
    }
}

/// `/openid/v1/jwks`.
pub(super) fn keys() -> Page {
    Page {
        path: "/openid/v1/jwks/".into(),
        id: "getServiceAccountIssuerOpenIDKeyset".into(),
        tag: "openid".into(),
        description: "get service account issuer OpenID JSON Web Key Set (contains public token verification keys)",
        schema: "",
        media: &["application/jwk-set+json"],
    }
}

impl Page {
    /// The name of the schema of its answer, unless that is text.
    pub(super) fn root(&self) -> Option<&'static str> {
        Some(self.schema).filter(|name| !name.is_empty())
    }

    /// The path with its operation.
    pub(super) fn paths(&self) -> Map<String, Value> {
        let schema = self.root().map_or_else(|| json!({"type": "string"}), reference);
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
        Map::from_iter([(self.path.clone(), json!({"get": operation}))])
    }
}
