//! wip
#![allow(dead_code)]
mod ast;
mod error;
pub mod limits;
mod parse;
mod source;
mod types;
mod value;
pub use error::EvalError;
pub use source::{Errors, ErrorEntry};
pub use types::{NoTypes, Type, TypeProvider};
pub use value::{FieldShape, Key, List, ListKind, Map, MapValue, Object, ObjectShape, Opaque, Shape, Text, Val};
