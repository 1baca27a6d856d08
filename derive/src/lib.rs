//! The derive macro `CustomResource`. What its attribute means is in the text below; the schemas are `kstore_client::crd::schema`'s.
//!
#![doc = include_str!("../README.md")]

mod attributes;
mod check;
mod expand;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;

/// Makes the type of a custom kind's objects from the type of their `spec`, and the kind's CustomResourceDefinition.
///
/// The attribute is `#[kstore(…)]`; the crate's documentation has the table of what stands in it. The type derives `Serialize`,
/// `Deserialize`, `JsonSchema`, `Clone` and `Debug` as well, or implements them; so does the type of the status.
#[proc_macro_derive(CustomResource, attributes(kstore))]
pub fn custom_resource(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    expand::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
