//! Kubernetes objects and their rules, pure
