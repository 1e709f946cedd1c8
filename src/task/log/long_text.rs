//! A text in a log. A text that is longer than [`INLINE_BYTES`] is stored beside the log, which has only its hash and its length. It is
//! loaded into memory only while views may have to show it: see [`State::load_texts`].
//!
//! [`State::load_texts`]: crate::task::machine::state::State::load_texts

use crate::limits::{INLINE_BYTES, Limits};
use crate::task::log::blob::{BlobRef, Blobs, is_lost};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::{fmt, io};

/// In JSON it is a string, or `{"sha256":"…","bytes":70000}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum LongText {
    Inline(String),
    Stored(Box<StoredText>),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredText {
    #[serde(flatten)]
    blob: BlobRef,
    #[serde(skip)]
    text: Option<Arc<str>>,
}

/// Texts with the same hash are equal, whether they are in memory or not.
impl PartialEq for StoredText {
    fn eq(&self, other: &StoredText) -> bool {
        self.blob == other.blob
    }
}

/// Shown in place of a text that is not in memory.
const NOT_LOADED: &str = "[This text is stored apart from the log and was not read.]";

impl LongText {
    /// The text, or a notice if it is lost or not in memory.
    pub fn as_str(&self) -> &str {
        match self {
            LongText::Inline(text) => text,
            LongText::Stored(stored) => stored.text.as_deref().unwrap_or(NOT_LOADED),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes() == 0
    }

    /// The length of the text, in memory or not.
    pub fn bytes(&self) -> u64 {
        match self {
            LongText::Inline(text) => text.len() as u64,
            LongText::Stored(stored) => stored.blob.bytes,
        }
    }

    /// The reference in the log, if the text is stored beside it.
    pub fn blob(&self) -> Option<&BlobRef> {
        match self {
            LongText::Inline(_) => None,
            LongText::Stored(stored) => Some(&stored.blob),
        }
    }

    /// The reference to the text, if it must be loaded before it can be shown.
    pub fn missing(&self) -> Option<&BlobRef> {
        match self {
            LongText::Stored(stored) if stored.text.is_none() => Some(&stored.blob),
            LongText::Inline(_) | LongText::Stored(_) => None,
        }
    }

    /// Stores a long text beside the log. `room` is the number of bytes that may still be stored for the task. A text that cannot be stored
    /// stays inline.
    pub fn store(&mut self, blobs: &dyn Blobs, limits: &Limits, room: &mut u64) {
        self.store_above(INLINE_BYTES, blobs, limits, room);
    }

    /// [`LongText::store`] for a text that is longer than `most`.
    pub fn store_above(&mut self, most: usize, blobs: &dyn Blobs, limits: &Limits, room: &mut u64) {
        let LongText::Inline(text) = self else {
            return;
        };
        let bytes = text.len() as u64;
        if text.len() <= most || bytes > limits.blob_bytes.min(*room) {
            return;
        }
        if let Ok(blob) = BlobRef::put(blobs, text.as_bytes()) {
            *room -= bytes;
            let text = Some(std::mem::take(text).into());
            *self = LongText::Stored(Box::new(StoredText { blob, text }));
        }
    }

    /// Reads the text if it is not in memory.
    pub fn load(&mut self, blobs: &dyn Blobs) -> io::Result<()> {
        if let LongText::Stored(stored) = self
            && stored.text.is_none()
        {
            stored.text = Some(read(&stored.blob, blobs)?.into());
        }
        Ok(())
    }

    /// Drops the text from memory if it is stored.
    pub fn unload(&mut self) {
        if let LongText::Stored(stored) = self {
            stored.text = None;
        }
    }
}

impl Default for LongText {
    fn default() -> LongText {
        LongText::Inline(String::new())
    }
}

impl fmt::Display for LongText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<String> for LongText {
    fn from(text: String) -> LongText {
        LongText::Inline(text)
    }
}

impl From<&str> for LongText {
    fn from(text: &str) -> LongText {
        LongText::Inline(text.to_owned())
    }
}

/// Reads a stored text, or returns a notice that it is lost. After an error it may be readable later.
fn read(blob: &BlobRef, blobs: &dyn Blobs) -> io::Result<String> {
    let text = |bytes| String::from_utf8(bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e));
    match blob.read(blobs).and_then(text) {
        Err(e) if is_lost(&e) => Ok(format!("[A text of {} bytes belongs here. It cannot be read: {e}.]", blob.bytes)),
        read => read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::log::blob::failing_blobs::FailingBlobs;
    use crate::task::log::blob::sha256;
    use serde_json::{from_value, json, to_value};

    fn stored(text: &str, blobs: &dyn Blobs, room: &mut u64) -> LongText {
        let mut text = LongText::from(text);
        text.store(blobs, &Limits::default(), room);
        text
    }

    #[test]
    fn a_text_is_inline_up_to_the_limit_and_stored_above_it() {
        let blobs = FailingBlobs::default();
        let (short, long) = ("x".repeat(INLINE_BYTES), "x".repeat(INLINE_BYTES + 1));
        assert_eq!(to_value(stored(&short, &blobs, &mut u64::MAX.clone())).unwrap(), json!(short));
        let mut room = 100_000;
        let by_hash = stored(&long, &blobs, &mut room);
        assert_eq!(room, 100_000 - 65_537);
        let json = to_value(&by_hash).unwrap();
        assert_eq!(json, json!({"sha256": sha256(long.as_bytes()), "bytes": 65_537}));
        assert_eq!(stored(&long, &blobs, &mut room), LongText::Inline(long.clone()), "no room is left");

        let mut read: LongText = from_value(json).unwrap();
        assert_eq!((read.bytes(), read.missing()), (65_537, by_hash.blob()));
        blobs.fail_reads(1);
        assert!(read.load(&blobs).is_err());
        assert!(read.missing().is_some(), "no notice: it is readable later");
        read.load(&blobs).unwrap();
        assert_eq!((read.as_str(), by_hash.as_str()), (long.as_str(), long.as_str()));
        read.unload();
        assert_eq!((read.as_str(), read.is_empty()), (NOT_LOADED, false));
        assert_eq!(from_value::<LongText>(json!("a")).unwrap().as_str(), "a");
    }

    #[test]
    fn missing_and_damaged_content_is_replaced_by_a_notice() {
        let (damaged, blobs) = (BlobRef { sha256: "0".repeat(64), bytes: 3 }, FailingBlobs::default());
        let notice = read(&damaged, &blobs).unwrap();
        assert_eq!(notice, "[A text of 3 bytes belongs here. It cannot be read: entity not found.]");
        struct Other;
        impl Blobs for Other {
            fn put(&self, _: &[u8]) -> std::io::Result<String> {
                Err(std::io::ErrorKind::StorageFull.into())
            }

            fn read(&self, _: &str, _: u64, _: usize) -> std::io::Result<(Vec<u8>, u64)> {
                Ok((b"abc".to_vec(), 3))
            }
        }
        let mut text: LongText = from_value(to_value(&damaged).unwrap()).unwrap();
        text.load(&Other).unwrap();
        assert_eq!(text.as_str(), "[A text of 3 bytes belongs here. It cannot be read: it is damaged.]");
        assert_eq!(text.missing(), None, "it is not tried again and again");
        let long = "x".repeat(INLINE_BYTES + 1);
        assert_eq!(stored(&long, &Other, &mut u64::MAX.clone()), LongText::Inline(long.clone()), "the disk is full");
    }
}
