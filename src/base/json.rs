//! Writing JSON straight into bytes, for what is written often: events and frames. And reading what others wrote: bounded in its
//! depth, because it may go into a journal, where it stands inside of other things and has to be read again.

use crate::limits::JSON_DEPTH;
use serde::de::Error;
use serde::{Deserialize, Serialize};

/// Appends any serialisable value. Our own types cannot fail to serialise into memory.
pub fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("our values serialise, and memory takes them");
}

/// The value as JSON bytes.
pub fn bytes<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, value);
    out
}

/// Reads what a client, a model or a script wrote.
pub fn read<'a, T: Deserialize<'a>>(json: &'a [u8]) -> serde_json::Result<T> {
    if depth(json) > JSON_DEPTH {
        let message = format!("values are nested deeper than {JSON_DEPTH} levels");
        return Err(serde_json::Error::custom(message));
    }
    serde_json::from_slice(json)
}

/// How many lists and objects are open at once, at most. Of what is not JSON it says nothing of use.
fn depth(json: &[u8]) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    let mut quoted = false;
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match (byte, quoted) {
            (b'\\', true) => drop(bytes.next()),
            (b'"', _) => quoted = !quoted,
            (b'[' | b'{', false) => {
                open += 1;
                most = most.max(open);
            }
            (b']' | b'}', false) => open = open.saturating_sub(1),
            (_, _) => {}
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn nested(levels: usize) -> String {
        format!("{}1{}", "[".repeat(levels), "]".repeat(levels))
    }

    #[test]
    fn what_is_nested_too_deeply_is_refused() {
        let read = |text: &str| read::<Value>(text.as_bytes()).map_err(|error| error.to_string());
        assert!(read(&nested(JSON_DEPTH)).is_ok());
        assert_eq!(read(&nested(JSON_DEPTH + 1)), Err("values are nested deeper than 100 levels".into()));
        assert!(read(&nested(1_000_000)).is_err());
    }

    #[test]
    fn brackets_in_strings_do_not_count() {
        for (text, levels) in
            [(r#"{"a": [1, {"b": []}], "c": {}}"#, 4), (r#"["[[[", "\"[[", "\\", {}]"#, 2), (r#""[""#, 0), ("]]]][", 1)]
        {
            assert_eq!(depth(text.as_bytes()), levels, "{text}");
        }
    }
}
