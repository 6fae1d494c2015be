//! CRC-32C (Castagnoli), as the firmware mailbox uses it: reflected, initial value and final XOR all ones.

const POLYNOMIAL: u32 = 0x82f6_3b78;

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// CRC-32C of `bytes`.
pub(crate) fn crc32c(bytes: impl IntoIterator<Item = u8>) -> u32 {
    !bytes.into_iter().fold(!0, |crc, byte| TABLE[usize::from(crc as u8 ^ byte)] ^ crc >> 8)
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    #[test]
    fn matches_the_published_check_values() {
        assert_eq!(crc32c(*b"123456789"), 0xe306_9283);
        assert_eq!(crc32c([]), 0);
        // RFC 3720 B.4: 32 bytes of zeros, of ones, ascending.
        assert_eq!(crc32c([0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c([0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(0..32), 0x46dd_794e);
    }
}
