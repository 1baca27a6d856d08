//! SPDY/3.1, in the subset that Kubernetes' streams use: many streams on one connection, which may be inside
//! a WebSocket. Without priorities, push and flow control, which these streams do not use.

/// The README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod channels;
mod connection;
mod frame;
mod headers;
pub mod limits;
mod ports;
#[cfg(test)]
mod tests;
pub mod websocket;

pub use channels::{ChannelStreams, WantedChannels};
pub use connection::{Connection, Event, Sender};
pub use frame::{Decoder, Frame, SpdyError, data, open, pong};
pub use ports::{PortPairs, PortStreams};
