//! Time as a value. The shell reads the clocks once per turn of the loop; everybody else is handed a [`Now`].

/// One reading of both clocks: `mono_ms` for deadlines, `unix_ms` for timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Now {
    pub mono_ms: u64,
    pub unix_ms: u64,
}

/// `2026-03-01T09:30:00.125Z`, the only form of time we send. Digit by digit: every streamed event has one.
pub fn rfc3339(unix_ms: u64) -> String {
    let at = civil(unix_ms);
    let mut text = String::with_capacity(24);
    for (value, digits, then) in [
        (at.year, 4, '-'),
        (at.month, 2, '-'),
        (at.day, 2, 'T'),
        (at.hour, 2, ':'),
        (at.minute, 2, ':'),
        (at.second, 2, '.'),
        (unix_ms % 1000, 3, 'Z'),
    ] {
        for place in (0..digits).rev() {
            let digit = value as u32 / 10_u32.pow(place) % 10;
            text.push(char::from(b'0' + digit as u8));
        }
        text.push(then);
    }
    text
}

/// `Sun, 01 Mar 2026 09:30:00 GMT`, for `Date` and `Last-Modified`.
pub fn http_date(unix_ms: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let at = civil(unix_ms);
    format!(
        "{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT",
        DAYS[(at.days % 7) as usize],
        at.day,
        MONTHS[at.month as usize - 1],
        at.year,
        at.hour,
        at.minute,
        at.second
    )
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

/// Days since 1970 into year, month and day, counting years from March so that the leap day comes last.
fn civil(unix_ms: u64) -> Civil {
    let seconds = unix_ms / 1000;
    let days = seconds / 86_400;
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    Civil {
        days,
        year,
        month,
        day,
        hour: seconds / 3600 % 24,
        minute: seconds / 60 % 60,
        second: seconds % 60,
    }
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
}
