//! MD5, SHA-1 and the checksum of POSIX' `cksum`. SHA-2 is the crate `sha2`'s; these three have no other use in the tree.

/// Pads a message as MD5 and SHA-1 do: a bit, zeros, and the length in bits. Returns what follows the last whole block.
fn padded(bytes: &[u8], is_big_endian: bool) -> Vec<u8> {
    let whole = bytes.len() / 64 * 64;
    let mut last = bytes[whole..].to_vec();
    last.push(0x80);
    while last.len() % 64 != 56 {
        last.push(0);
    }
    let bits = (bytes.len() as u64).wrapping_mul(8);
    last.extend(if is_big_endian { bits.to_be_bytes() } else { bits.to_le_bytes() });
    last
}

/// The words of a block of 64 bytes.
fn words(block: &[u8], word: fn([u8; 4]) -> u32) -> [u32; 16] {
    let mut words = [0; 16];
    for (to, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
        *to = word([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    words
}

/// The MD5 sum (RFC 1321).
pub(super) fn md5(bytes: &[u8]) -> [u8; 16] {
    const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
    // The integer parts of 2^32 times the sines of 1 to 64.
    let sines: Vec<u32> = (1..=64u32).map(|n| (f64::from(n).sin().abs() * 4_294_967_296.0) as u32).collect();
    let mut state = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let last = padded(bytes, false);
    for block in bytes.chunks_exact(64).chain(last.chunks_exact(64)) {
        let words = words(block, u32::from_le_bytes);
        let [mut a, mut b, mut c, mut d] = state;
        for (round, sine) in sines.iter().enumerate() {
            let (mixed, word) = match round / 16 {
                0 => ((b & c) | (!b & d), round),
                1 => ((d & b) | (!d & c), (5 * round + 1) % 16),
                2 => (b ^ c ^ d, (3 * round + 5) % 16),
                _ => (c ^ (b | !d), (7 * round) % 16),
            };
            let sum = a.wrapping_add(mixed).wrapping_add(*sine).wrapping_add(words[word]);
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(sum.rotate_left(SHIFTS[round / 16][round % 4]));
        }
        for (total, part) in state.iter_mut().zip([a, b, c, d]) {
            *total = total.wrapping_add(part);
        }
    }
    let mut sum = [0; 16];
    for (to, word) in sum.chunks_exact_mut(4).zip(state) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    sum
}

/// The SHA-1 sum (RFC 3174).
pub(super) fn sha1(bytes: &[u8]) -> [u8; 20] {
    let mut state = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    let last = padded(bytes, true);
    for block in bytes.chunks_exact(64).chain(last.chunks_exact(64)) {
        let mut schedule = [0u32; 80];
        schedule[..16].copy_from_slice(&words(block, u32::from_be_bytes));
        for at in 16..80 {
            let mixed = schedule[at - 3] ^ schedule[at - 8] ^ schedule[at - 14] ^ schedule[at - 16];
            schedule[at] = mixed.rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (round, word) in schedule.iter().enumerate() {
            let (mixed, constant) = match round / 20 {
                0 => ((b & c) | (!b & d), 0x5a82_7999u32),
                1 => (b ^ c ^ d, 0x6ed9_eba1),
                2 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6),
            };
            let sum = a.rotate_left(5).wrapping_add(mixed).wrapping_add(e);
            let sum = sum.wrapping_add(constant).wrapping_add(*word);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, sum);
        }
        for (total, part) in state.iter_mut().zip([a, b, c, d, e]) {
            *total = total.wrapping_add(part);
        }
    }
    let mut sum = [0; 20];
    for (to, word) in sum.chunks_exact_mut(4).zip(state) {
        to.copy_from_slice(&word.to_be_bytes());
    }
    sum
}

/// The checksum of POSIX' `cksum`: a cyclic redundancy check of the bytes and of their number.
pub(super) fn cksum(bytes: &[u8]) -> u32 {
    let mut table = [0u32; 256];
    for (byte, entry) in (0u32..).zip(&mut table) {
        *entry = byte << 24;
        for _ in 0..8 {
            *entry = (*entry << 1) ^ if *entry >> 31 == 1 { 0x04c1_1db7 } else { 0 };
        }
    }
    let step = |sum: u32, byte: u8| (sum << 8) ^ table[(sum >> 24) as usize ^ usize::from(byte)];
    let sum = bytes.iter().fold(0, |sum, byte| step(sum, *byte));
    let length = bytes.len().to_le_bytes();
    let used = length.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    !length[..used].iter().fold(sum, |sum, byte| step(sum, *byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn sums_are_those_of_the_standards() {
        assert_eq!(hex(&md5(b"")), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex(&md5(b"message digest")), "f96b697d7cb7938d525a2f31aaf161d0");
        assert_eq!(hex(&md5(&b"1234567890".repeat(8))), "57edf4a22be3c955ac49da2e2107b67a");
        assert_eq!(hex(&sha1(b"abc")), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(hex(&sha1(&b"a".repeat(1_000_000))), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
        assert_eq!(cksum(b""), 4_294_967_295);
        assert_eq!(cksum(b"a\nb\nc\n"), 2_923_054_182);
    }
}
