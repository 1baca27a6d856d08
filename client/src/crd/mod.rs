//! CustomResourceDefinitions from Rust types (feature `crd`): the trait [`CustomResource`], which
//! `derive(CustomResource)` of the crate `kstore-derive` implements; [`Definition`] with the attributes of
//! the derive; and [`schema`].

mod definition;
pub mod schema;

use crate::Kind;
pub use definition::{Column, Definition, Rule, Scale};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use schema::SchemaError;

/// A custom kind with its definition.
pub trait CustomResource: Kind {
    /// The names, scope, subresources and columns of the kind.
    const DEFINITION: Definition;

    /// The CustomResourceDefinition with this one version, served and stored.
    ///
    /// # Errors
    ///
    /// `spec` or `status` has no structural schema.
    fn try_crd() -> Result<CustomResourceDefinition, SchemaError>;

    /// Like [`Self::try_crd`], for types with a known schema. A test that calls this function once proves
    /// that.
    ///
    /// # Panics
    ///
    /// If `spec` or `status` has no structural schema. The message names the field and the fix.
    fn crd() -> CustomResourceDefinition {
        match Self::try_crd() {
            Ok(crd) => crd,
            Err(error) => panic!("{} has no structural schema: {error}", Self::KIND),
        }
    }
}
