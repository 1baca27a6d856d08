//! Kubernetes objects and their rules, pure

pub mod kind;
