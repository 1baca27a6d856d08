//! The pure function behind the macro: every key of the attribute, and every refusal with its text and place.

mod refusals;
mod values;

use crate::expand::expand;
use syn::{DeriveInput, Result, parse_str};

/// A spec with these attributes.
fn spec(attributes: &str) -> String {
    format!("{attributes} pub(crate) struct CronTabSpec {{ schedule: String }}")
}

/// The code that the macro adds, without spaces.
fn expanded(source: &str) -> Result<String> {
    let input: DeriveInput = parse_str(source)?;
    let code = expand(&input)?.to_string();
    assert!(syn::parse_str::<syn::File>(&code).is_ok(), "not Rust: {code}");
    Ok(code.replace(' ', ""))
}
