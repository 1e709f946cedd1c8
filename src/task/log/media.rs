//! Media, such as images: in messages, in answers of the model and in results of calls. They are kept in base64, because clients and models
//! send and receive them in base64. Long media are stored as bytes beside the log, and the log has their hash.

use crate::limits::{INLINE_BYTES, Limits};
use crate::task::log::blob::{BlobRef, Blobs, is_lost};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use std::io;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Media {
    pub mime: String,
    #[serde(flatten)]
    pub content: MediaContent,
}

impl Media {
    pub fn new(mime: &str, bytes: &[u8]) -> Media {
        Media { mime: mime.to_owned(), content: STANDARD.encode(bytes).into() }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MediaContent {
    /// In base64.
    Inline { data: String },
    /// More than [`INLINE_BYTES`] of base64.
    Stored(StoredMedia),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredMedia {
    #[serde(flatten)]
    blob: BlobRef,
    /// The bytes in base64, while they are in memory.
    #[serde(skip)]
    data: Option<Arc<str>>,
}

/// Media with the same hash are equal, whether they are in memory or not.
impl PartialEq for StoredMedia {
    fn eq(&self, other: &StoredMedia) -> bool {
        self.blob == other.blob
    }
}

impl MediaContent {
    /// The bytes in base64. None: they are not in memory, or lost.
    pub fn data(&self) -> Option<&str> {
        match self {
            MediaContent::Inline { data } => Some(data),
            MediaContent::Stored(stored) => stored.data.as_deref(),
        }
    }

    /// The reference in the log, if the content is stored beside it.
    pub fn blob(&self) -> Option<&BlobRef> {
        match self {
            MediaContent::Inline { .. } => None,
            MediaContent::Stored(stored) => Some(&stored.blob),
        }
    }

    /// How many bytes there are, in memory or not.
    pub fn bytes(&self) -> u64 {
        match self {
            MediaContent::Inline { data } => data.trim_end_matches('=').len() as u64 * 3 / 4,
            MediaContent::Stored(stored) => stored.blob.bytes,
        }
    }

    /// Stores long media beside the log. `room` is the number of bytes that may still be stored for the task. Media that cannot be stored
    /// stay inline.
    pub fn store(&mut self, blobs: &dyn Blobs, limits: &Limits, room: &mut u64) {
        self.store_above(INLINE_BYTES, blobs, limits, room);
    }

    /// [`MediaContent::store`] for media with more than `most` bytes of base64.
    pub fn store_above(&mut self, most: usize, blobs: &dyn Blobs, limits: &Limits, room: &mut u64) {
        let MediaContent::Inline { data } = self else {
            return;
        };
        if data.len() <= most {
            return;
        }
        // Only base64 in its canonical form can be restored from the bytes.
        let bytes = STANDARD.decode(&*data).ok().filter(|bytes| STANDARD.encode(bytes) == *data);
        let Some(bytes) = bytes.filter(|bytes| bytes.len() as u64 <= limits.blob_bytes.min(*room)) else {
            return;
        };
        if let Ok(blob) = BlobRef::put(blobs, &bytes) {
            *room -= blob.bytes;
            *self = MediaContent::Stored(StoredMedia { blob, data: Some(std::mem::take(data).into()) });
        }
    }

    /// Loads stored media into memory. Missing or damaged media stay unloaded.
    pub fn load(&mut self, blobs: &dyn Blobs) -> io::Result<()> {
        if let MediaContent::Stored(stored) = self
            && stored.data.is_none()
        {
            match stored.blob.read(blobs) {
                Err(error) if is_lost(&error) => {}
                read => stored.data = Some(STANDARD.encode(read?).into()),
            }
        }
        Ok(())
    }

    /// Loads stored media if there is room for it. Otherwise drops it from memory and sets the room to 0, so that no older media is loaded
    /// either.
    pub fn load_within(&mut self, blobs: &dyn Blobs, room: &mut u64) -> io::Result<()> {
        match room.checked_sub(self.bytes()) {
            Some(left) => {
                *room = left;
                self.load(blobs)
            }
            None => {
                *room = 0;
                self.unload();
                Ok(())
            }
        }
    }

    /// Drops stored media from memory.
    pub fn unload(&mut self) {
        if let MediaContent::Stored(stored) = self {
            stored.data = None;
        }
    }
}

impl From<String> for MediaContent {
    fn from(data: String) -> MediaContent {
        MediaContent::Inline { data }
    }
}

impl From<&str> for MediaContent {
    fn from(data: &str) -> MediaContent {
        data.to_owned().into()
    }
}

/// The content of a file in a message: a string, or `{"sha256":"…","bytes":70000}`.
pub mod as_file {
    use super::{BlobRef, MediaContent, StoredMedia};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum File {
        Inline(String),
        Stored(BlobRef),
    }

    pub fn serialize<S: Serializer>(content: &MediaContent, serializer: S) -> Result<S::Ok, S::Error> {
        match content {
            MediaContent::Inline { data } => serializer.serialize_str(data),
            MediaContent::Stored(stored) => stored.blob.serialize(serializer),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<MediaContent, D::Error> {
        Ok(match File::deserialize(deserializer)? {
            File::Inline(data) => data.into(),
            File::Stored(blob) => MediaContent::Stored(StoredMedia { blob, data: None }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::log::blob::failing_blobs::FailingBlobs;
    use crate::task::message::Content;
    use serde_json::{from_value, json, to_value};

    fn stored(bytes: usize, room: &mut u64) -> (MediaContent, FailingBlobs) {
        let blobs = FailingBlobs::default();
        let mut content = Media::new("image/png", &vec![7; bytes]).content;
        content.store(&blobs, &Limits::default(), room);
        (content, blobs)
    }

    #[test]
    fn long_media_is_stored_if_there_is_room() {
        let most = INLINE_BYTES / 4 * 3;
        assert_eq!(stored(most, &mut u64::MAX.clone()).0.blob(), None);
        let mut room = 2 * most as u64;
        let (content, _) = stored(most + 1, &mut room);
        assert_eq!((content.bytes(), room), (most as u64 + 1, most as u64 - 1));
        assert_eq!(content.data(), Media::new("", &vec![7; most + 1]).content.data(), "it is still in memory");
        assert_eq!(stored(most + 1, &mut room).0.blob(), None, "no room is left");
    }

    #[test]
    fn the_log_has_the_hash_of_a_long_file_of_a_message() {
        let (content, blobs) = stored(60_000, &mut u64::MAX.clone());
        let (blob, data) = (content.blob().cloned().unwrap(), content.data().map(str::to_owned));
        let log = to_value(Content::Bytes(content)).unwrap();
        assert_eq!(log, json!({"bytes": {"sha256": blob.sha256, "bytes": 60_000}}));
        let Content::Bytes(mut read) = from_value(log).unwrap() else { panic!("it is a file") };
        assert_eq!(read.data(), None);
        blobs.fail_reads(1);
        assert!(read.load(&blobs).is_err(), "it is readable later");
        read.load(&FailingBlobs::default()).unwrap();
        assert_eq!(read.data(), None, "it is lost");
        read.load(&blobs).unwrap();
        assert_eq!(read.data().map(str::to_owned), data);
        read.unload();
        assert_eq!((read.data(), read.bytes()), (None, 60_000));
        let short = Content::Bytes("aGk=".into());
        assert_eq!(to_value(&short).unwrap(), json!({"bytes": "aGk="}));
        assert_eq!(from_value::<Content>(json!({"bytes": "aGk="})).unwrap(), short);
    }
}
