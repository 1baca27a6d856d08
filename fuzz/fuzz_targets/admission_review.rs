//! Fuzz target: decoding of AdmissionReview answers.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_api::fuzzing::run("admission_review", bytes));
