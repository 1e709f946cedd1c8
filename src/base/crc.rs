//! CRC-32 (IEEE 802.3) and CRC-32C (Castagnoli), computed eight bytes at a time with tables, because a line can have ten megabytes and the
//! event loop computes its checksum.
//!
//! Lines of journals and of their index are JSON objects that end with the CRC-32 of the bytes before `,"crc"`: `{…,"crc":"9ae0f1c2"}`. It
//! shows whether bytes of a line are damaged or missing.

use crate::base::json;
use serde::Serialize;
use std::io::Write;

/// Appends an object as a line with its checksum, line break included.
pub fn write_line<T: Serialize>(out: &mut Vec<u8>, object: &T) {
    let start = out.len();
    json::write(out, object);
    out.pop();
    let crc = crc32(&out[start..]);
    writeln!(out, ",\"crc\":\"{crc:08x}\"}}").expect("memory takes it");
}

/// Whether a line, without its line break, is complete and undamaged, as [`write_line`] wrote it.
pub fn is_whole(line: &[u8]) -> bool {
    const TAIL: usize = r#","crc":"00000000"}"#.len();
    line.split_at_checked(line.len().wrapping_sub(TAIL))
        .is_some_and(|(head, tail)| tail == format!(",\"crc\":\"{:08x}\"}}", crc32(head)).as_bytes())
}

/// Table `n` has the checksum of each byte value when `n` zero bytes follow it.
type Tables = [[u32; 256]; 8];

static IEEE: Tables = tables(0xedb8_8320);
static CASTAGNOLI: Tables = tables(0x82f6_3b78);

/// The tables for a polynomial, which is given with its bits reversed.
const fn tables(polynomial: u32) -> Tables {
    let mut tables = [[0; 256]; 8];
    let mut i = 0;
    while i < 256 {
        let mut value = i as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { polynomial ^ (value >> 1) } else { value >> 1 };
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
    checksum(&IEEE, bytes)
}

/// The checksum of iSCSI and of Google Cloud Storage.
pub fn crc32c(bytes: &[u8]) -> u32 {
    checksum(&CASTAGNOLI, bytes)
}

/// The eight table lookups are written out, because a loop over the tables takes twice as long when compiled for size.
fn checksum(tables: &Tables, bytes: &[u8]) -> u32 {
    let [t0, t1, t2, t3, t4, t5, t6, t7] = tables;
    let (blocks, rest) = bytes.as_chunks::<8>();
    let crc = blocks.iter().fold(!0u32, |crc, block| {
        let [a, b, c, d, e, f, g, h] = (u64::from_le_bytes(*block) ^ u64::from(crc)).to_le_bytes();
        let first_half = t7[a as usize] ^ t6[b as usize] ^ t5[c as usize] ^ t4[d as usize];
        first_half ^ t3[e as usize] ^ t2[f as usize] ^ t1[g as usize] ^ t0[h as usize]
    });
    !rest.iter().fold(crc, |crc, byte| t0[((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_check_value() {
        assert_eq!(super::crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(super::crc32(b""), 0);
    }

    /// The values of RFC 3720, appendix B.4, and the usual check value.
    #[test]
    fn known_values_of_castagnoli() {
        let ascending: Vec<u8> = (0..32).collect();
        let descending: Vec<u8> = (0..32).rev().collect();
        for (bytes, crc) in [
            (&b"123456789"[..], 0xe306_9283),
            (b"", 0),
            (&[0; 32], 0x8a91_36aa),
            (&[0xff; 32], 0x62a8_ab43),
            (&ascending, 0x46dd_794e),
            (&descending, 0x113f_db5c),
        ] {
            assert_eq!(super::crc32c(bytes), crc, "{bytes:?}");
        }
    }

    #[test]
    fn blocks_give_the_same_as_single_bytes() {
        let bytes: Vec<u8> = (0..100u32).map(|n| (n * 37 % 251) as u8).collect();
        for end in 0..bytes.len() {
            let single = |crc: u32, byte: &u8| super::IEEE[0][((crc ^ u32::from(*byte)) & 0xff) as usize] ^ (crc >> 8);
            assert_eq!(super::crc32(&bytes[..end]), !bytes[..end].iter().fold(!0, single), "{end} bytes");
        }
    }
}
