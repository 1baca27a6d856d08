//! Decoding of HPACK's static Huffman code; this server encodes strings without it. Pure. The code is canonical, so the
//! lengths of its words define it (RFC 7541, appendix B).

/// Word length of each byte, followed by that of the end-of-string symbol, which must not occur.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6,
    6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5,
    6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24,
    23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21,
    23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26,
    26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21,
    26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26,
    26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

const END: u16 = 256;
const LONGEST: usize = 30;

/// Symbols ordered by their words, and the number of words of each length.
struct Code {
    symbols: [u16; 257],
    /// Number of words of each length.
    counts: [u32; LONGEST + 1],
}

const CODE: Code = code();

const fn code() -> Code {
    let mut code = Code { symbols: [0; 257], counts: [0; LONGEST + 1] };
    let (mut length, mut at) = (1, 0);
    while length <= LONGEST {
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == length {
                code.symbols[at] = symbol as u16;
                code.counts[length] += 1;
                at += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    code
}

/// Appends the decoded bytes; returns false if `coded` is malformed.
pub(super) fn decode(coded: &[u8], out: &mut Vec<u8>) -> bool {
    static TABLE: Code = CODE;
    // The current word, the first word of its length, and the number of symbols with shorter words.
    let (mut word, mut first, mut before, mut length) = (0u32, 0u32, 0u32, 0usize);
    let mut ones = true;
    for bit in coded.iter().flat_map(|byte| (0..8).rev().map(move |at| u32::from(byte >> at & 1))) {
        word = word << 1 | bit;
        first <<= 1;
        length += 1;
        ones &= bit == 1;
        if length > LONGEST {
            return false;
        }
        let count = TABLE.counts[length];
        if word - first < count {
            let symbol = TABLE.symbols[(before + word - first) as usize];
            if symbol == END {
                return false;
            }
            out.push(symbol as u8);
            (word, first, before, length, ones) = (0, 0, 0, 0, true);
        } else {
            first += count;
            before += count;
        }
    }
    // The last byte is padded with ones.
    length < 8 && ones
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standards_examples_decode() {
        for (coded, text) in [
            (
                &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff][..],
                "www.example.com",
            ),
            (&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], "no-cache"),
            (&[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xb8, 0xe8, 0xb4, 0xbf], "custom-value"),
            (&[], ""),
        ] {
            let mut out = Vec::new();
            assert!(decode(coded, &mut out));
            assert_eq!(out, text.as_bytes());
        }
    }

    #[test]
    fn invalid_padding_is_refused() {
        for coded in
            [&[0xff, 0xff, 0xff, 0xff][..], &[0xf1, 0xe2 & 0xfe], &[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf, 0xff]]
        {
            assert!(!decode(coded, &mut Vec::new()), "{coded:x?}");
        }
    }
}
