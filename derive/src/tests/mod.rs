//! Tests of [`expand`]: every key of the attribute, and every error with its text and position.

mod refusals;
mod values;

use crate::expand::expand;
use syn::{DeriveInput, Result, parse_str};

/// Source of a spec type with these attributes.
fn spec(attributes: &str) -> String {
    format!("{attributes} pub(crate) struct CronTabSpec {{ schedule: String }}")
}

/// Code that the macro generates, without spaces.
fn expanded(source: &str) -> Result<String> {
    let input: DeriveInput = parse_str(source)?;
    let code = expand(&input)?.to_string();
    assert!(syn::parse_str::<syn::File>(&code).is_ok(), "not Rust: {code}");
    Ok(code.replace(' ', ""))
}
