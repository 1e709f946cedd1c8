//! URLs that look like others: for a host with characters beyond ASCII, the ASCII name (Punycode, RFC 3492) is shown, too.

/// The ASCII name of a URL's host; None if the host is ASCII already.
pub fn ascii_host(url: &str) -> Option<String> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = rest.rsplit('@').next().unwrap_or_default();
    let host = host
        .rsplit_once(':')
        .filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()))
        .map_or(host, |(host, _)| host);
    if host.is_ascii() {
        return None;
    }
    let labels = host.split(['.', '\u{3002}', '\u{ff0e}', '\u{ff61}']).map(|label| match label.is_ascii() {
        true => Some(label.to_owned()),
        false => Some(format!("xn--{}", punycode(&label.to_lowercase())?)),
    });
    Some(labels.collect::<Option<Vec<_>>>()?.join("."))
}

/// A URL, followed by the ASCII name of its host if that differs.
pub fn with_ascii_host(url: &str) -> String {
    ascii_host(url).map_or_else(|| url.to_owned(), |host| format!("{url} ({host})"))
}

/// The URLs in a text whose host is not ASCII, each with the ASCII name of the host.
pub fn non_ascii_hosts(text: &str) -> impl Iterator<Item = (&str, String)> {
    let words =
        text.split(|c: char| c.is_whitespace() || "<>\"'`()|;&".contains(c)).filter(|word| word.contains("://"));
    words.filter_map(|word| Some((word, ascii_host(word)?)))
}

const BASE: u32 = 36;

/// A label of a host name in Punycode. None if it is too long for a label.
fn punycode(label: &str) -> Option<String> {
    let chars: Vec<u32> = label.chars().map(u32::from).collect();
    let mut out: String = label.chars().filter(char::is_ascii).collect();
    let basic = u32::try_from(out.len()).ok().filter(|_| label.len() < 256)?;
    if basic > 0 {
        out.push('-');
    }
    let (mut next, mut delta, mut bias, mut done) = (128, 0_u32, 72, basic);
    while (done as usize) < chars.len() {
        let least = chars.iter().copied().filter(|c| *c >= next).min()?;
        delta = delta.checked_add((least - next).checked_mul(done + 1)?)?;
        next = least;
        for c in &chars {
            delta += u32::from(*c < next);
            if *c == next {
                digits(delta, bias, &mut out);
                bias = adapted(delta, done + 1, if done == basic { 700 } else { 2 });
                (delta, done) = (0, done + 1);
            }
        }
        (delta, next) = (delta + 1, next + 1);
    }
    Some(out)
}

/// Appends a number as a variable-length integer: each digit says whether more digits follow (RFC 3492, section 3.3).
fn digits(mut number: u32, bias: u32, out: &mut String) {
    for position in 1.. {
        let threshold = (BASE * position).saturating_sub(bias).clamp(1, 26);
        let (digit, last) = match number < threshold {
            true => (number, true),
            false => (threshold + (number - threshold) % (BASE - threshold), false),
        };
        out.push(char::from_digit(if digit < 26 { digit + 10 } else { digit - 26 }, BASE).unwrap_or('?'));
        if last {
            return;
        }
        number = (number - threshold) / (BASE - threshold);
    }
}

/// The bias for the next number (RFC 3492, section 3.4). `damp` is larger for the first number.
fn adapted(delta: u32, points: u32, damp: u32) -> u32 {
    let mut delta = delta / damp;
    delta += delta / points;
    let mut bias = 0;
    while delta > (BASE - 1) * 26 / 2 {
        delta /= BASE - 1;
        bias += BASE;
    }
    bias + BASE * delta / (delta + 38)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_beyond_ascii_have_an_ascii_name() {
        for (url, expected) in [
            ("https://example.org/\u{e9}", None),
            ("https://ex\u{430}mple.org", Some("xn--exmple-4nf.org")),
            ("http://m\u{fc}nchen.de:8080/x", Some("xn--mnchen-3ya.de")),
            ("https://user@日本語.jp?q", Some("xn--wgv71a119e.jp")),
            ("https://google.com@ドメイン名例\u{3002}example", Some("xn--eckwd4c7cu47r2wf.example")),
            ("ws://M\u{dc}NCHEN", Some("xn--mnchen-3ya")),
            ("", None),
        ] {
            assert_eq!(ascii_host(url).as_deref(), expected, "{url}");
        }
        assert_eq!(ascii_host(&format!("https://{}", "\u{10ffff}".repeat(500))), None, "no host is so long");
        let found: Vec<_> = non_ascii_hosts("curl 'https://\u{430}.org/x' | sh; wget http://a.org").collect();
        assert_eq!(found, [("https://\u{430}.org/x", "xn--80a.org".to_owned())]);
    }
}
