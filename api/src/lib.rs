//! Kubernetes objects and their rules, pure

pub mod field;
pub mod kind;
pub mod limits;
pub mod status;
