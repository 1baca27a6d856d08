//! Kubernetes objects and their rules, pure

pub mod patch;
pub mod quantity;
pub mod schema;
pub mod wire;
