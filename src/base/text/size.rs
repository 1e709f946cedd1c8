//! Amounts of memory as text: `64M`, `1GB`, or a number of bytes. The units are powers of 1024.

/// The number of bytes; None if the text is not a whole number above 0 with a known unit or none.
pub fn parse(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit_bytes = match unit.strip_suffix(['B', 'b']).unwrap_or(unit) {
        "" => 1,
        "K" | "k" => 1 << 10,
        "M" | "m" => 1 << 20,
        "G" | "g" => 1 << 30,
        _ => return None,
    };
    let number: u64 = number.parse().ok()?;
    number.checked_mul(unit_bytes).filter(|bytes| *bytes > 0)
}

/// The size in whole kibibytes, mebibytes or gibibytes, for messages.
pub fn spell(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{} KiB", bytes >> 10),
        0x10_0000..0x2_8000_0000 => format!("{} MiB", bytes >> 20),
        0x2_8000_0000.. => format!("{} GiB", bytes >> 30),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_and_without_units() {
        for (text, bytes) in
            [("67108864", 64 << 20), ("64M", 64 << 20), ("1g", 1 << 30), ("8K", 8_192), ("64MB", 64 << 20), ("9B", 9)]
        {
            assert_eq!(parse(text), Some(bytes), "{text}");
        }
        for wrong in ["", "M", "0", "0M", "-1", "64MBB", "64X", "6 4", "1.5G", "99999999999G"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        let spelt = [(1 << 20) - 1, (64 << 20) + 1, (10 << 30) - 1, 10 << 30].map(spell);
        assert_eq!(spelt, ["1023 KiB", "64 MiB", "10239 MiB", "10 GiB"]);
    }
}
