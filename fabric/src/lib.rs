//! A network in memory: hosts with addresses, listeners, and streams between them, without sockets, threads or packets.
//!
//! [`Fabric`] is the network, [`Host`] a place in it, [`Listener`] and [`Stream`] what programs use. The README has an example:
//!
#![doc = include_str!("../README.md")]

mod duplex;
mod error;
mod fabric;
mod limits;
mod stream;
mod table;
#[cfg(test)]
mod tests;

pub use error::NetError;
pub use fabric::{Attachment, Fabric, Host, Listener};
pub use stream::Stream;
