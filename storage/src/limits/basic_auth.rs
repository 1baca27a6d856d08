//! Bounds of users with passwords.

use std::time::Duration;

/// Bytes of the longest user name in basic authentication.
pub const BASIC_AUTH_USER_BYTES: usize = 256;

/// Bytes of the longest password in basic authentication. Longer headers are refused before they are decoded.
pub const BASIC_AUTH_PASSWORD_BYTES: usize = 1024;

/// Checks of passwords that run at a time. Each occupies a processor, and the memory that its hash says: a flood of
/// wrong passwords must leave the server able to serve others.
pub const BASIC_AUTH_CHECKS: usize = 2;

/// Checks of passwords that run or wait. Further ones are refused with 429.
pub const BASIC_AUTH_WAITING: usize = 64;

/// Verified credentials that are remembered, so that the next request with them costs no check of the password.
pub const BASIC_AUTH_VERIFIED: usize = 1024;

/// How long they are remembered. A change of the file ends it earlier.
pub const BASIC_AUTH_VERIFIED_TIME: Duration = Duration::from_secs(60);

/// Memory in KiB that a hash of argon2 may use. Hashes with more are refused when the file is read.
pub const BASIC_AUTH_ARGON2_KIB: u32 = 256 * 1024;

/// Passes over this memory; twice what RFC 9106 recommends with little memory, and a margin.
pub const BASIC_AUTH_ARGON2_PASSES: u32 = 10;

/// Lanes of a hash of argon2, which are computed one after the other.
pub const BASIC_AUTH_ARGON2_LANES: u32 = 16;

/// Cost of a hash of bcrypt, as a power of two: about a second of a processor. `htpasswd -B` uses 5 by default.
pub const BASIC_AUTH_BCRYPT_COST: u32 = 14;
