//! End-to-end and property tests in one binary
