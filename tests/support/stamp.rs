//! A timestamp in streamed text: `@@<unix nanoseconds>@@ <index> `. The fake model writes it just before it sends the chunk. A client
//! that reads it knows how long the server took, and whether chunks are missing or out of order.

use std::time::SystemTime;

const MARK: &str = "@@";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    pub written_ns: u64,
    pub index: u64,
}

pub fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.expect("the clock is past 1970").as_nanos() as u64
}

/// Appends a stamp with the current time.
pub fn write(index: u64, out: &mut String) {
    use std::fmt::Write;
    write!(out, "{MARK}{}{MARK} {index} ", now_ns()).expect("writing to a string");
}

/// Every stamp in `text`, in order.
pub fn find(text: &str) -> impl Iterator<Item = Stamp> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let (_, after) = rest.split_once(MARK)?;
            rest = after;
            if let Some(stamp) = read(after) {
                return Some(stamp);
            }
        }
    })
}

fn read(text: &str) -> Option<Stamp> {
    let (time, rest) = text.split_once(MARK)?;
    let (index, _) = rest.strip_prefix(' ')?.split_once(' ')?;
    Some(Stamp { written_ns: time.parse().ok()?, index: index.parse().ok()? })
}
