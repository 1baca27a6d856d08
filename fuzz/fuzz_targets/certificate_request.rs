//! Fuzz target: CertificateSigningRequests.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kstore_apiserver::fuzzing::run("certificate_request", bytes));
