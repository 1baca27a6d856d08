//! The derive macro `CustomResource`. The text below documents its attribute; `kstore_client::crd::schema`
//! generates the schemas.
// The example is a documentation test of `kstore-tests`: as one of this crate, cargo would compile the client, its TLS and gRPC once more,
// for the compiler's side.
#![cfg_attr(not(doctest), doc = include_str!("../README.md"))]

mod attributes;
mod check;
mod expand;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Generates the object type of a custom kind from the type of its `spec`, and the kind's
/// CustomResourceDefinition.
///
/// The crate's documentation has a table of the keys of the attribute `#[kstore(…)]`. The type of the spec
/// must implement `Serialize`, `Deserialize`, `JsonSchema`, `Clone` and `Debug`, and so must the type of the
/// status.
#[proc_macro_derive(CustomResource, attributes(kstore))]
pub fn custom_resource(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    expand::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
