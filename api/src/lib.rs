//! Kubernetes objects and their rules: pure functions without I/O.

/// The README, whose example compiles as a documentation test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod admission;
pub mod admission_expression;
mod check;
pub mod cidr;
pub mod convert;
pub mod crd;
pub mod defaults;
#[cfg(any(test, feature = "fuzzing"))]
mod dice;
mod diff;
mod distinct;
pub mod expression;
pub mod field;
pub mod flowcontrol;
pub mod format;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
pub mod gate;
mod go_json;
pub mod group_version;
#[cfg(test)]
mod growth_tests;
pub mod initializers;
pub mod json;
pub mod kind;
pub mod lenient;
pub mod limits;
pub mod meta;
pub mod name;
pub mod object;
pub mod openapi;
pub mod patch;
pub mod quantity;
pub mod quota;
pub mod resource;
pub mod revision_expression;
mod rules;
pub mod scale;
pub mod schedule;
pub mod schema;
pub mod selector;
pub mod status;
pub mod stored;
pub mod strategy;
pub mod structural;
pub mod table;
mod time;
pub mod validate;
pub mod version;
pub mod wire;
pub mod yaml;
