//! Tests of the crate as its users see it.

mod costs;
mod fixture;
mod functions;
mod language;
mod messages;
mod properties;
mod reference;
mod values;
