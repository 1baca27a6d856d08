//! The Watch service: many watches on one stream. `session` is a stream, `subscription` one watch on it. `progress`
//! decides when the stream may report progress, `response` encodes. `http2` drives a session only as fast as the client
//! reads; unread events wait in the store's bounded queues.

mod progress;
mod response;
mod session;
mod subscription;

pub(crate) use session::{Requests, Session};
