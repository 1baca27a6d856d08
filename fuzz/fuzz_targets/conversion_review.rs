//! Fuzz target: decoding of ConversionReview answers.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_api::fuzzing::run("conversion_review", bytes));
