//! Expressions (CEL) as Kubernetes uses them: the base environment with Kubernetes' libraries, one file each, and the environments of
//! admission ([`admission`]). The language itself is the crate `kstore-cel`, which knows no Kubernetes; the rules of custom resources
//! are `structural`'s and `crd`'s. Nothing here has a clock or a network: what an expression needs is an argument.

pub mod admission;
pub mod authorizer;
pub(crate) mod base;
mod cidr;
mod format;
mod ip;
mod json_patch;
pub mod limits;
pub mod plain;
mod quantity;
mod row;
mod semver;
mod url;

#[cfg(test)]
pub(crate) mod tests;
