//! JSON as bytes: written directly into a buffer, because events and frames are written often, and read with limits on depth and
//! size. The depth is limited because the value may be stored inside a journal record, which must be readable too.

use crate::limits::{JSON_CONTAINERS, JSON_DEPTH};
use serde::de::Error;
use serde::{Deserialize, Serialize};
use std::io;

/// Appends any serialisable value. Our own types cannot fail to serialise into memory.
pub fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(Growing(out), value).expect("our values serialise, and memory takes them");
}

/// A writer into a vector that grows it by an eighth once it is long. By itself a vector doubles its capacity, so that one long text would
/// take twice its length.
struct Growing<'a>(&'a mut Vec<u8>);

impl io::Write for Growing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        const LONG: usize = 1 << 20;
        let needed = self.0.len() + bytes.len();
        if needed > self.0.capacity().max(LONG) {
            self.0.reserve_exact(bytes.len() + needed / 8);
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// True of a value that may be left out of the JSON, because a reader takes the default for a field that is absent.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The value as JSON bytes.
pub fn bytes<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out, value);
    out
}

/// The length of [`bytes`], without allocating them.
pub fn len<T: Serialize + ?Sized>(value: &T) -> usize {
    let mut counted = Counted(0);
    serde_json::to_writer(&mut counted, value).expect("our values serialise");
    counted.0
}

struct Counted(usize);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Parses JSON from a client, a model or a script, with at most [`JSON_DEPTH`] levels and [`JSON_CONTAINERS`] lists and objects.
pub fn read<'a, T: Deserialize<'a>>(json: &'a [u8]) -> serde_json::Result<T> {
    read_within(JSON_CONTAINERS, json)
}

/// [`read`] with another limit on the number of lists and objects.
pub fn read_within<'a, T: Deserialize<'a>>(most: usize, json: &'a [u8]) -> serde_json::Result<T> {
    let (depth, containers) = shape(json, most);
    if depth > JSON_DEPTH {
        let message = format!("values are nested deeper than {JSON_DEPTH} levels");
        return Err(serde_json::Error::custom(message));
    }
    if containers > most {
        let message = format!("it has more than {most} lists and objects");
        return Err(serde_json::Error::custom(message));
    }
    serde_json::from_slice(json)
}

/// The greatest number of lists and objects inside each other, and the number of all of them.
///
/// Counts brackets only, which is much cheaper than parsing, and stops at the first one over a limit. The result means nothing if
/// the text is not JSON.
fn shape(json: &[u8], most: usize) -> (usize, usize) {
    let (mut open, mut depth, mut containers) = (0_usize, 0, 0);
    let mut quoted = false;
    let mut bytes = json.iter();
    while let Some(byte) = bytes.next() {
        match (byte, quoted) {
            (b'\\', true) => drop(bytes.next()),
            (b'"', _) => quoted = !quoted,
            (b'[' | b'{', false) => {
                open += 1;
                containers += 1;
                depth = depth.max(open);
                if containers > most || depth > JSON_DEPTH {
                    break;
                }
            }
            (b']' | b'}', false) => open = open.saturating_sub(1),
            (_, _) => {}
        }
    }
    (depth, containers)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn nested(levels: usize) -> String {
        format!("{}1{}", "[".repeat(levels), "]".repeat(levels))
    }

    #[test]
    fn json_that_is_nested_too_deeply_is_refused() {
        let read = |text: &str| read::<Value>(text.as_bytes()).map_err(|error| error.to_string());
        assert!(read(&nested(JSON_DEPTH)).is_ok());
        assert_eq!(read(&nested(JSON_DEPTH + 1)), Err("values are nested deeper than 100 levels".into()));
        assert!(read(&nested(1_000_000)).is_err());
    }

    #[test]
    fn a_long_text_takes_little_more_than_its_length() {
        let texts = ["x".repeat(3 << 20), "\n".repeat(3 << 20)];
        let json = bytes(&texts);
        assert_eq!((json.len(), len(&texts)), ((9 << 20) + 7, json.len()));
        assert!(json.capacity() <= json.len() * 9 / 8 + 16, "{}", json.capacity());
        assert_eq!(serde_json::from_slice::<Vec<String>>(&json).expect("a list"), texts);
    }

    #[test]
    fn brackets_in_strings_do_not_count() {
        for (text, depth, containers) in [
            (r#"{"a": [1, {"b": []}], "c": {}}"#, 4, 5),
            (r#"["[[[", "\"[[", "\\", {}]"#, 2, 2),
            (r#""[""#, 0, 0),
            ("]]]][", 1, 1),
        ] {
            assert_eq!(shape(text.as_bytes(), JSON_CONTAINERS), (depth, containers), "{text}");
        }
    }

    #[test]
    fn json_with_too_many_lists_and_objects_is_refused() {
        let read = |count: usize| {
            let text = format!("[{}]", vec!["{}"; count - 1].join(","));
            read::<Value>(text.as_bytes()).map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(read(JSON_CONTAINERS), Ok(()));
        let refused = read(JSON_CONTAINERS + 1).expect_err("one too many");
        assert_eq!(refused, "it has more than 25000 lists and objects");
    }
}
