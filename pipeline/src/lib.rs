//! The verbs: how one authenticated request is admitted to a seat, authorized, decoded, admitted, validated and stored.
//!
//! Both front ends call it, so each verb is written once. It knows no HTTP and no gRPC.

pub mod bootstrap;
pub mod fairness;
pub mod pipeline;
#[cfg(test)]
mod racing;
