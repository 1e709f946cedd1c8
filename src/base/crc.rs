//! CRC-32 (IEEE 802.3) with tables, eight bytes at a time. Each journal line has one, to detect damaged and missing bytes. A line can be
//! ten megabytes, and the loop computes its checksum before it appends it.

/// `TABLES[n]` is the effect of a byte that is followed by `n` zero bytes.
const TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut i = 0;
    while i < 256 {
        let mut value = i as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { 0xedb8_8320 ^ (value >> 1) } else { value >> 1 };
            bit += 1;
        }
        tables[0][i] = value;
        i += 1;
    }
    let mut n = 1;
    while n < 8 {
        let mut i = 0;
        while i < 256 {
            let before: u32 = tables[n - 1][i];
            tables[n][i] = tables[0][(before & 0xff) as usize] ^ (before >> 8);
            i += 1;
        }
        n += 1;
    }
    tables
}

pub fn crc32(bytes: &[u8]) -> u32 {
    let (blocks, rest) = bytes.as_chunks::<8>();
    let crc = blocks.iter().fold(!0u32, |crc, block| {
        let value = u64::from_le_bytes(*block) ^ u64::from(crc);
        let looked_up = value.to_le_bytes().into_iter().zip(TABLES.iter().rev());
        looked_up.fold(0, |sum, (byte, table)| sum ^ table[usize::from(byte)])
    });
    !rest.iter().fold(crc, |crc, byte| TABLES[0][((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_check_value() {
        assert_eq!(super::crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(super::crc32(b""), 0);
    }

    #[test]
    fn blocks_give_the_same_as_single_bytes() {
        let bytes: Vec<u8> = (0..100u32).map(|n| (n * 37 % 251) as u8).collect();
        for end in 0..bytes.len() {
            let single =
                |crc: u32, byte: &u8| super::TABLES[0][((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8);
            assert_eq!(super::crc32(&bytes[..end]), !bytes[..end].iter().fold(!0, single), "{end} bytes");
        }
    }
}
