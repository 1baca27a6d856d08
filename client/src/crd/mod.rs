//! CustomResourceDefinitions from Rust types: the trait [`CustomResource`], which `derive(CustomResource)` of the crate `kstore-derive`
//! implements, [`Definition`] with what a derive says beside the types, and [`schema`]. With the feature `crd`.

mod definition;
pub mod schema;

pub use definition::{Column, Definition, Rule, Scale};

use crate::Kind;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use schema::SchemaError;

/// The objects of a custom kind that can say how it is defined.
pub trait CustomResource: Kind {
    /// Names, scope, subresources and columns of the kind.
    const DEFINITION: Definition;

    /// The definition, with this one version, served and stored.
    ///
    /// # Errors
    /// If `spec` or `status` have no structural schema.
    fn try_crd() -> Result<CustomResourceDefinition, SchemaError>;

    /// As [`Self::try_crd`], for types that are known to have a schema: a test that calls this once shows it.
    ///
    /// # Panics
    /// If `spec` or `status` have no structural schema. The message names the field and says what to change.
    fn crd() -> CustomResourceDefinition {
        match Self::try_crd() {
            Ok(crd) => crd,
            Err(error) => panic!("{} has no structural schema: {error}", Self::KIND),
        }
    }
}
