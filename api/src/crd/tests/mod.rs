//! Tests of definitions.

mod columns;
mod lives;
mod properties;
mod replay;
mod served;
mod validation;
