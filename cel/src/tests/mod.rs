//! Tests of the crate: values, messages, costs, and properties against slow references.

mod costs;
mod fast_paths;
mod fixture;
mod functions;
mod language;
mod messages;
mod properties;
mod reference;
mod values;
