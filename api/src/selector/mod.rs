//! Label and field selectors: which objects a request, a controller or a service means.

pub mod field;
pub mod label;
