//! Validation of the kinds of all API groups except core, `apps` and `batch`. One file or folder
//! per group or concern; `rules` says which function is for which kind.

mod address;
pub(crate) mod admission;
pub(crate) mod autoscaling;
pub(crate) mod certificates;
pub(crate) mod coordination;
pub(crate) mod devices;
pub(crate) mod endpoint_slice;
pub(crate) mod events;
pub(crate) mod flowcontrol;
pub(crate) mod ingress;
pub(crate) mod network_policy;
pub(crate) mod pod_group;
pub(crate) mod policy;
pub(crate) mod rbac;
mod reference;
pub(crate) mod registration;
pub(crate) mod reviews;
pub(crate) mod scheduling;
pub(crate) mod service_address;
pub(crate) mod storage;
pub(crate) mod storage_migration;
pub mod trust_bundle;

#[cfg(test)]
mod tests;
