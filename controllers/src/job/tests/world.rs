//! The properties of Jobs.
