//! Kubernetes objects and their rules, pure

pub mod quantity;
pub mod schema;
pub mod wire;
