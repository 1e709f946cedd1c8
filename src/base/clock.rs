//! Time as a value. The shell reads the clocks once per turn of the loop and passes a [`Now`] to all other code.

/// One reading of both clocks: `mono_ms` for deadlines, `unix_ms` for timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Now {
    pub mono_ms: u64,
    pub unix_ms: u64,
}

/// `9999-12-31T23:59:59.999Z`. RFC 3339 and HTTP have four digits for the year, so a later time (of a wrong clock) is written as this
/// one, which is valid and sorts after all others.
const LATEST_MS: u64 = 253_402_300_799_999;

/// `2026-03-01T09:30:00.125Z`, the format of all times we send.
pub fn rfc3339(unix_ms: u64) -> String {
    let unix_ms = unix_ms.min(LATEST_MS);
    let Civil { year, month, day, hour, minute, second, .. } = civil(unix_ms);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", unix_ms % 1000)
}

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// `Sun, 01 Mar 2026 09:30:00 GMT`, for `Date` and `Last-Modified`.
pub fn http_date(unix_ms: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let Civil { days, year, month, day, hour, minute, second } = civil(unix_ms.min(LATEST_MS));
    let (weekday, month) = (DAYS[(days % 7) as usize], MONTHS[month as usize - 1]);
    format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}

/// Parses a date as [`http_date`] writes it.
pub fn read_http_date(text: &str) -> Option<u64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, day, month, year, time, "GMT"] = words[..] else {
        return None;
    };
    let month = MONTHS.iter().position(|known| *known == month)? + 1;
    read_rfc3339(&format!("{year}-{month:02}-{day}T{time}Z"))
}

/// Parses a time with any offset and any fraction, in milliseconds. Fractions of a millisecond are rounded up; times before 1970
/// become 0.
pub fn read_rfc3339(text: &str) -> Option<u64> {
    let (date, time) = text.split_once(['T', 't'])?;
    let offset_at = time.find(['Z', 'z', '+', '-'])?;
    let (time, offset) = time.split_at(offset_at);
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(time, ':', [2, 2, 2])?;
    let west = offset.starts_with('-');
    let [off_hour, off_minute] = match offset {
        "Z" | "z" => [0, 0],
        _ => numbers(&offset[1..], ':', [2, 2])?,
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let in_month = match month {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    let is_clock = hour < 24 && minute < 60 && second <= 60 && off_hour < 24 && off_minute < 60;
    if !(1..=in_month).contains(&day) || !is_clock {
        return None;
    }
    if fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (ms, finer) = fraction.split_at(fraction.len().min(3));
    let ms: u64 = format!("{ms:0<3}").parse().ok()?;
    let ms = ms + u64::from(finer.bytes().any(|b| b != b'0'));
    let seconds = ((days(year, month, day) * 24 + hour as i64) * 60 + minute as i64) * 60;
    let offset = (off_hour * 60 + off_minute) as i64 * if west { -60 } else { 60 };
    let unix = (seconds + second as i64 - offset) * 1000 + ms as i64;
    Some(u64::try_from(unix).unwrap_or(0))
}

/// Parses `N` numbers with exactly these numbers of digits.
fn numbers<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> Option<[u64; N]> {
    let mut pieces = text.split(separator);
    let mut found = [0; N];
    for (number, digits) in found.iter_mut().zip(digits) {
        let piece = pieces.next()?;
        if piece.len() != digits || !piece.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *number = piece.parse().ok()?;
    }
    pieces.next().is_none().then_some(found)
}

/// Days from 1970 to a date: the inverse of [`civil`].
fn days(year: u64, month: u64, day: u64) -> i64 {
    let year = year as i64 - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let march_month = (month as i64 + 9) % 12;
    let day_of_year = (153 * march_month + 2) / 5 + day as i64 - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

struct Civil {
    days: u64,
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

/// Converts a time to date and time of day. Years are counted from March, so that the leap day is the last day.
fn civil(unix_ms: u64) -> Civil {
    let seconds = unix_ms / 1000;
    let days = seconds / 86_400;
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    Civil { days, year, month, day, hour: seconds / 3600 % 24, minute: seconds / 60 % 60, second: seconds % 60 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_instants() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_827_696_789), "2000-02-29T12:34:56.789Z");
        assert_eq!(rfc3339(1_772_357_400_125), "2026-03-01T09:30:00.125Z");
        assert_eq!(rfc3339(4_107_542_399_999), "2100-02-28T23:59:59.999Z");
        assert_eq!(http_date(784_111_777_000), "Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn years_have_four_digits() {
        let latest = "9999-12-31T23:59:59.999Z";
        assert_eq!(rfc3339(LATEST_MS - 1), "9999-12-31T23:59:59.998Z");
        for unix_ms in [LATEST_MS, LATEST_MS + 1, 1 << 60, u64::MAX] {
            assert_eq!(rfc3339(unix_ms), latest, "{unix_ms}");
            assert_eq!(http_date(unix_ms), "Fri, 31 Dec 9999 23:59:59 GMT", "{unix_ms}");
        }
        assert_eq!(read_rfc3339(latest), Some(LATEST_MS));
    }

    #[test]
    fn written_http_dates_are_parsed_back() {
        for unix_ms in [0, 951_827_696_000, 1_772_357_400_000] {
            assert_eq!(read_http_date(&http_date(unix_ms)), Some(unix_ms));
        }
        for text in ["", "Sun, 01 Mar 2026 09:30:00", "Sun, 01 Mai 2026 09:30:00 GMT", "Sun, 1 Mar 2026 09:30:00 GMT"] {
            assert_eq!(read_http_date(text), None, "{text}");
        }
    }

    #[test]
    fn times_in_every_valid_form_are_parsed() {
        for unix_ms in [0, 951_827_696_789, 1_772_357_400_125, 4_107_542_399_999] {
            assert_eq!(read_rfc3339(&rfc3339(unix_ms)), Some(unix_ms));
        }
        for (text, expected) in [
            ("2026-03-01T09:30:00Z", 1_772_357_400_000),
            ("2026-03-01t09:30:00.1z", 1_772_357_400_100),
            ("2026-03-01T09:30:00.125000000Z", 1_772_357_400_125),
            ("2026-03-01T09:30:00.1250001Z", 1_772_357_400_126),
            ("2026-03-01T11:00:00.125+01:30", 1_772_357_400_125),
            ("2026-02-28T23:30:00-10:00", 1_772_357_400_000),
            ("1969-12-31T23:59:59Z", 0),
            ("2000-02-29T12:34:56.789Z", 951_827_696_789),
        ] {
            assert_eq!(read_rfc3339(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "2026-03-01",
            "2026-03-01T09:30:00",
            "2026-03-01 09:30:00Z",
            "2026-3-01T09:30:00Z",
            "2026-02-29T09:30:00Z",
            "2026-13-01T09:30:00Z",
            "2026-03-00T09:30:00Z",
            "2026-03-01T24:00:00Z",
            "2026-03-01T09:30Z",
            "2026-03-01T09:30:00.Z",
            "2026-03-01T09:30:00.xZ",
            "2026-03-01T09:30:00ZZ",
            "2026-03-01T09:30:00+1:00",
            "2026-03-01T09:30:00+é:00",
            "1772357400",
        ] {
            assert_eq!(read_rfc3339(text), None, "{text}");
        }
    }
}
