//! SPDY/3.1, in the subset that Kubernetes' clients use: many streams on one connection, which may be inside
//! a WebSocket. Without priorities, push and flow control, which these clients do not use.

mod connection;
mod frame;
mod headers;
#[cfg(test)]
mod tests;

pub(super) use connection::{Connection, Event, Sender};
