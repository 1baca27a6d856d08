//! Types for controllers that are ported from client-go: a registry of shared informers ([`Factory`]), read-only handles
//! to a cache ([`Lister`]), and writes that a cache does not show yet ([`Expectations`]).
//!
//! New code does not need them: a [`crate::Builder`] starts an informer, a [`crate::View`] is a consistent read, and
//! [`crate::Context::wrote`] waits until the cache shows a write. Nothing else in this crate depends on this module.

mod expectations;
mod factory;
mod lister;

pub use expectations::{Creation, Deletion, Expectations};
pub use factory::{AlreadyRegistered, Factory, Missing};
pub use lister::{Lister, NamespaceLister};
