//! Who asks, and what is allowed: authentication, authorization, tokens of service accounts, and the audit log.
//!
//! It decides about requests by their attributes and never changes an object.

pub mod access_file;
pub mod audit;
pub mod authn;
pub mod authz;
pub mod expiring;
pub mod peer;
pub mod percent_encoding;
mod persistent_index;
pub mod pod_references;
pub mod rate_limited;
pub mod reloaded;
pub mod resource_location;
mod single_flight;
pub mod token;
