//! What an API server stands on: the storage of encoded objects, encryption at rest, metrics and limits.
//!
//! It moves bytes under keys and knows no object: what is stored is decoded in the crates above.

pub mod encryption;
pub mod limits;
pub mod load_progress;
pub mod metrics;
pub mod observed_body;
pub mod restart;
pub mod series;
pub mod storage;
pub mod storage_key;
pub mod version;
