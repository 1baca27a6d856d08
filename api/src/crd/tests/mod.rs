//! Tests of definitions.

mod properties;
mod replay;
mod served;
mod validation;
