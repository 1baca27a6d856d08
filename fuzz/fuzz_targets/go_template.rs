//! Fuzz target: Go's text/template.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_gotemplate::fuzzing::template(bytes));
