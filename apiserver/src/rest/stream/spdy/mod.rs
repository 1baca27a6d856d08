//! SPDY/3.1 as far as Kubernetes' clients speak it: many streams on one connection, which may itself be a WebSocket. Without
//! priorities, push and flow control, none of which they use.

mod connection;
mod frame;
mod headers;
#[cfg(test)]
mod tests;

pub(super) use connection::{Connection, Event, Sender};
