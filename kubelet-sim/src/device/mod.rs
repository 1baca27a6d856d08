//! Devices of simulated nodes: what the drivers of dynamic resource allocation publish about them as ResourceSlices. Pure: `spec` reads
//! `template.devices` of a NodeGroup, `profile` knows the devices of each driver, `health` what faults do to them, `pool` cuts them into
//! slices, and `publication` compares these with the slices in the API.

pub(crate) mod class;
pub(crate) mod health;
mod mig;
mod model;
pub(crate) mod pool;
mod profile;
pub(crate) mod publication;
pub(crate) mod spec;
