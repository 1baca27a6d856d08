//! The REST door.

pub mod router;
