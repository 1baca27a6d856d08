//! Runs pods to completion, as a Job says.

mod backoff;
mod indexes;
mod plan;
mod pods;
mod policy;
mod status;
#[cfg(test)]
mod tests;
