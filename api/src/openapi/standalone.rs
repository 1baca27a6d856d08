//! [`StandaloneDocs`]: OpenAPI documents of an API server that has one group and version, and whose models are not
//! in the field table.

use super::definition::Fragment;
use super::swagger::{self, Parameters};
use super::{DocumentScope, fingerprint, index, with_custom};
use serde_json::{Map, Value, json};

/// Description of a server's only group and version.
#[derive(Clone, Debug)]
pub struct StandaloneDocs {
    /// The group and version with its resources.
    pub scope: DocumentScope,
    /// Models of the objects, by name, as OpenAPI v3. Lists and the metadata of objects have models already.
    pub models: Map<String, Value>,
}

impl StandaloneDocs {
    /// The document `/openapi/v3`, which has the path of [`Self::v3`].
    #[must_use]
    pub fn index(&self) -> Value {
        let facts = format!("{}{:?}", self.scope.fingerprint(), self.models);
        index([(self.scope.name().as_str(), fingerprint(&facts).as_str())])
    }

    /// The OpenAPI v3 document of the group and version.
    #[must_use]
    pub fn v3(&self) -> Value {
        let models = Fragment { schemas: self.models.clone(), ..Fragment::default() };
        with_custom(self.scope.document(), &[models])
    }

    /// The document `/openapi/v2`.
    #[must_use]
    pub fn v2(&self) -> Value {
        let mut document = self.v3();
        let mut definitions = document["components"]["schemas"].take();
        definitions.as_object_mut().into_iter().flatten().for_each(|(_, model)| swagger::schema(model));
        let mut parameters = Parameters::default();
        let paths = self.scope.paths(&mut parameters);
        json!({"swagger": "2.0", "info": document["info"].take(), "paths": paths, "definitions": definitions,
            "parameters": parameters.shared})
    }
}
