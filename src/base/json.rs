//! Writing JSON straight into bytes, for what is written often: events and frames. Reading goes through serde_json.

use serde::Serialize;

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
