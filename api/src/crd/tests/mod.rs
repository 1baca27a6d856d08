//! Tests of definitions.
