//! Tests of this controller's plan.
