//! Admission: checks and changes of objects that depend on the cluster.

pub mod admission;
