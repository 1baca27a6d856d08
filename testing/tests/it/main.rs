//! Tests of this library as the tests of an operator use it. One program, because each links a whole server.

mod cases;
#[cfg(feature = "kube")]
mod cluster;
#[cfg(feature = "kube")]
mod derived;
#[cfg(feature = "kube")]
mod faults;
mod fork;
mod network;
mod settled;
