//! The checksum of all data on disk: pages, long values, blocks of the log.

/// CRC-32C (Castagnoli) of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    u32::try_from(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes)).expect("a 32-bit checksum")
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    #[test]
    fn it_is_the_castagnoli_polynomial() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }
}
