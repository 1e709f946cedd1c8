//! The media types that models accept besides text, and the detection of a file's type by its first bytes. The model API refuses a whole
//! request if it contains media of another type, or media whose declared type is wrong.

/// The accepted types, each followed by its other names.
const TYPES: [&[&str]; 17] = [
    &["image/png"],
    &["image/jpeg", "image/jpg"],
    &["image/webp"],
    &["image/heic"],
    &["image/heif"],
    &["application/pdf", "application/x-pdf"],
    &["audio/mpeg", "audio/mp3"],
    &["audio/wav", "audio/x-wav", "audio/wave"],
    &["audio/aiff", "audio/x-aiff"],
    &["audio/aac"],
    &["audio/ogg"],
    &["audio/flac", "audio/x-flac"],
    &["audio/mp4", "audio/m4a", "audio/x-m4a"],
    &["video/mp4"],
    &["video/mpeg", "video/mpg"],
    &["video/quicktime", "video/mov"],
    &["video/webm"],
];

/// The advice for messages about media of other types.
pub const ADVICE: &str = "PNG, JPEG, WebP, PDF, MP3, WAV and MP4 can be shown";

pub fn all() -> impl Iterator<Item = &'static str> {
    TYPES.iter().map(|names| names[0])
}

/// The accepted type with this name, under the name that models know.
pub fn named(name: &str) -> Option<&'static str> {
    let names = TYPES.iter().find(|names| names.iter().any(|known| known.eq_ignore_ascii_case(name)))?;
    Some(names[0])
}

/// The type of a file that begins with these bytes. For some types, a text could have the same beginning.
pub fn of(bytes: &[u8]) -> Option<&'static str> {
    Some(match bytes {
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [b'%', b'P', b'D', b'F', b'-', ..] => "application/pdf",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..] => "audio/wav",
        [b'F', b'O', b'R', b'M', _, _, _, _, b'A', b'I', b'F', b'F' | b'C', ..] => "audio/aiff",
        [b'O', b'g', b'g', b'S', ..] => "audio/ogg",
        [b'f', b'L', b'a', b'C', ..] => "audio/flac",
        [b'I', b'D', b'3', ..] => "audio/mpeg",
        [0xff, 0xf1 | 0xf9, ..] => "audio/aac",
        // The header of a frame of MPEG layer III.
        [0xff, second, ..] if second & 0xe6 == 0xe2 => "audio/mpeg",
        [0, 0, 1, 0xb3 | 0xba, ..] => "video/mpeg",
        // Matroska, of which WebM is a part.
        [0x1a, 0x45, 0xdf, 0xa3, rest @ ..] if rest.windows(4).take(64).any(|word| word == b"webm") => "video/webm",
        [_, _, _, _, b'f', b't', b'y', b'p', brand @ ..] => match brand.get(..4)? {
            b"heic" | b"heix" | b"hevc" => "image/heic",
            b"mif1" | b"msf1" => "image/heif",
            b"avif" | b"avis" => return None,
            b"M4A " | b"M4B " => "audio/mp4",
            b"qt  " => "video/quicktime",
            _ => "video/mp4",
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_detected_by_their_beginning_and_types_by_every_name() {
        let table: [(&[u8], Option<&str>); 13] = [
            (b"\x89PNG\r\n\x1a\n", Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"RIFF\0\0\0\0WEBPVP8 ", Some("image/webp")),
            (b"RIFF\0\0\0\0AVI ", None),
            (b"\0\0\0\x18ftypheic", Some("image/heic")),
            (b"\0\0\0\x18ftypavif", None),
            (b"\0\0\0\x18ftypisom", Some("video/mp4")),
            (b"\xff\xfb\x90\x00", Some("audio/mpeg")),
            (b"\xff\xf1\x50", Some("audio/aac")),
            (b"\x1aE\xdf\xa3\x01\0B\x82webm", Some("video/webm")),
            (b"\x1aE\xdf\xa3\x01\0B\x82matroska", None),
            // UTF-16 with a byte order mark.
            (b"\xff\xfea\0", None),
            (b"GIF89a", None),
        ];
        for (bytes, expected) in table {
            assert_eq!(of(bytes), expected, "{bytes:?}");
            assert_eq!(expected.and_then(named), expected);
        }
        assert_eq!(named("IMAGE/JPG"), Some("image/jpeg"));
        assert_eq!(named("image/gif"), None);
    }
}
