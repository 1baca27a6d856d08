//! The Watch service: many watches on one stream. `session` is a stream, `subscription` one watch on it, `progress` decides
//! when the stream may say that nothing is outstanding, `response` makes bytes. The transport is `http2`'s: it drives a
//! session only as fast as the client reads; what the client does not read waits in the store's bounded queues.

mod progress;
mod response;
mod session;
mod subscription;

pub(crate) use session::{Requests, Session};
