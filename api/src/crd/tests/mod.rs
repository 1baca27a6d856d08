//! Tests of definitions.

mod columns;
mod lifecycle;
mod properties;
mod replay;
mod served;
mod validation;
