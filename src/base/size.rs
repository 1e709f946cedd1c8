//! Amounts of memory as people write them: `64M`, `1G`, or a number of bytes. The units are powers of 1024.

pub fn parse(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit_bytes = match unit {
        "" => 1,
        "K" | "k" => 1 << 10,
        "M" | "m" => 1 << 20,
        "G" | "g" => 1 << 30,
        _ => return None,
    };
    let number: u64 = number.parse().ok()?;
    number.checked_mul(unit_bytes).filter(|bytes| *bytes > 0)
}

/// In whole mebibytes, for messages.
pub fn spell(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_and_without_units() {
        for (text, bytes) in [("67108864", 64 << 20), ("64M", 64 << 20), ("1g", 1 << 30), ("8K", 8_192)] {
            assert_eq!(parse(text), Some(bytes), "{text}");
        }
        for wrong in ["", "M", "0", "0M", "-1", "64MB", "6 4", "1.5G", "99999999999G"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert_eq!(spell((64 << 20) + 1), "64 MiB");
    }
}
