//! Tests of definitions.

mod lives;
mod properties;
mod replay;
mod served;
mod validation;
