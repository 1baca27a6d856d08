//! The Common Expression Language: parser, type checker, cost estimator and counting evaluator.
//!
//! An [`Env`] declares variables, types and functions, and compiles expressions. Syntax and type errors point at their position in the
//! text. A [`Checked`] expression has a type, the variables it mentions and an estimate of its cost. Its [`Program`] evaluates it on
//! values that borrow from JSON documents, and stops when it exceeds a limit of cost.
//!
//! The crate has no I/O, no clock and no global state.

#![doc = include_str!("../README.md")]

mod ast;
mod check;
mod cost;
mod declarations;
mod env;
mod error;
mod estimate;
mod library;
pub mod limits;
mod parse;
mod program;
mod source;
mod types;
mod value;

#[cfg(test)]
mod tests;

pub use cost::{
    ActualCall, ArgEstimate, CallEstimate, CostEstimate, CostRule, EstimateCall, SizeEstimate, SizeProvider,
    UnknownSizes,
};
pub use declarations::{Implementation, Library, Overload};
pub use env::{Env, EnvBuilder};
pub use error::EvalError;
pub use program::{Activation, Checked, Program};
pub use source::{ErrorEntry, Errors};
pub use types::{NoTypes, Type, TypeProvider};
pub use value::{
    FieldShape, Key, List, ListKind, Map, MapValue, Object, ObjectShape, Opaque, Shape, Text, Val,
};
