//! The one way in: REST and gRPC doors, authentication, authorization, admission, registry, watch cache

pub mod authn;
pub mod authz;
pub mod lookup;
pub mod rest;
#[cfg(test)]
mod testing;
