//! CEL expressions of Kubernetes: the base environment with Kubernetes' libraries, one file each, and the
//! environment of selectors of devices ([`device`]); that of admission is in [`crate::admission_expression`]. The language is the crate
//! `kstore-cel`, which does not depend on Kubernetes; rules of custom resources are in `structural` and `crd`. This module has no clock and
//! no network: expressions get everything as arguments.

pub mod authorizer;
pub(crate) mod base;
mod cidr;
pub mod device;
mod format;
mod ip;
pub(crate) mod json_patch;
pub mod limits;
pub mod plain;
mod quantity;
mod row;
mod semver;
mod url;

#[cfg(test)]
pub(crate) mod tests;
