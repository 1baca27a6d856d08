//! What instruction counts depend on beside the program: processor, compiler, C library and valgrind.

use std::process::Command;

/// The vector and bit instructions that this process may use, in one line. Under valgrind these are fewer than the
/// processor has.
pub(super) fn extensions() -> String {
    let mut words = vec![std::env::consts::ARCH];
    words.extend(detected().into_iter().filter_map(|(name, is_present)| is_present.then_some(name)));
    words.join(" ")
}

#[cfg(target_arch = "x86_64")]
fn detected() -> Vec<(&'static str, bool)> {
    vec![
        ("ssse3", is_x86_feature_detected!("ssse3")),
        ("sse4.2", is_x86_feature_detected!("sse4.2")),
        ("popcnt", is_x86_feature_detected!("popcnt")),
        ("aes", is_x86_feature_detected!("aes")),
        ("pclmulqdq", is_x86_feature_detected!("pclmulqdq")),
        ("avx", is_x86_feature_detected!("avx")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("bmi2", is_x86_feature_detected!("bmi2")),
        ("adx", is_x86_feature_detected!("adx")),
        ("sha", is_x86_feature_detected!("sha")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
    ]
}

#[cfg(not(target_arch = "x86_64"))]
fn detected() -> Vec<(&'static str, bool)> {
    Vec::new()
}

/// The platform of counts that children with these extensions made.
pub(super) fn describe(extensions: &str) -> String {
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let versions =
        [(compiler.as_str(), "--version"), ("getconf", "GNU_LIBC_VERSION"), ("valgrind", "--version")]
            .map(|(program, flag)| first_line(program, flag).unwrap_or_else(|| format!("unknown {program}")));
    format!("{extensions}, {}", versions.join(", "))
}

fn first_line(program: &str, flag: &str) -> Option<String> {
    let output = Command::new(program).arg(flag).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).lines().next()?.trim().to_owned())
}
