//! Label and field selectors, which select the objects of a request, controller or service.

pub mod field;
pub mod label;
