//! Durations as text: `500ms`, `30s`, `24h`.

/// Milliseconds; None if the text is not a whole number above 0 followed by a unit.
pub fn parse(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let number: u64 = number.parse().ok()?;
    number.checked_mul(unit_ms).filter(|ms| *ms > 0)
}

/// The shortest exact form, for messages.
pub fn spell(ms: u64) -> String {
    for (unit_ms, unit) in [(3_600_000, "h"), (60_000, "m"), (1_000, "s")] {
        if ms >= unit_ms && ms.is_multiple_of(unit_ms) {
            return format!("{}{unit}", ms / unit_ms);
        }
    }
    format!("{ms}ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_units_are_read() {
        for (text, ms) in [
            ("500ms", Some(500)),
            ("1s", Some(1_000)),
            ("90s", Some(90_000)),
            ("15m", Some(900_000)),
            ("24h", Some(86_400_000)),
            ("7d", Some(604_800_000)),
            ("007s", Some(7_000)),
            ("", None),
            ("5", None),
            ("s", None),
            ("0s", None),
            ("-1s", None),
            ("+1s", None),
            ("1.5s", None),
            ("1 s", None),
            ("1S", None),
            ("1s ", None),
            ("1h30m", None),
            ("1w", None),
            ("٣s", None),
            ("99999999999999999999s", None),
            ("18446744073709551615h", None),
        ] {
            assert_eq!(parse(text), ms, "{text:?}");
        }
    }

    #[test]
    fn written_durations_can_be_read() {
        for (ms, text) in [(1, "1ms"), (1_500, "1500ms"), (90_000, "90s"), (120_000, "2m"), (86_400_000, "24h")] {
            assert_eq!(spell(ms), text);
            assert_eq!(parse(text), Some(ms));
        }
    }
}
