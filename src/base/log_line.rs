//! Formats log messages. Each message becomes exactly one line of at most [`LOG_LINE_BYTES`], whatever it contains: control characters are
//! escaped, and a long message is cut, but never the JSON around it.

use crate::base::clock::rfc3339;
use crate::base::level::Level;
use crate::base::text::unsafe_char::is_unsafe;
use crate::base::text::words::words;
use crate::limits::LOG_LINE_BYTES;
use std::fmt::Write;

words! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum LogFormat {
        /// `[2026-03-01T09:30:00.125Z] warn message`.
        #[default]
        Text = "text",
        /// `{"severity":"WARNING","time":"2026-03-01T09:30:00.125Z","message":"…"}`.
        Json = "json",
        /// As `Json`; the access log also has the members that Google Cloud's logging knows for requests.
        Gcp = "gcp",
    }
}

/// Ends a message that was cut.
const CUT: &str = " [cut]";

/// The name of a level in JSON.
pub fn severity(level: Level) -> &'static str {
    match level {
        Level::Error => "ERROR",
        Level::Warn => "WARNING",
        Level::Info => "INFO",
        Level::Debug => "DEBUG",
    }
}

/// The line for a message, line break included.
pub fn line(format: LogFormat, unix_ms: u64, level: Level, text: &str) -> String {
    let time = rfc3339(unix_ms);
    match format {
        LogFormat::Text => {
            let mut line = format!("[{time}] {} ", level.word());
            push_plain(&mut line, text, LOG_LINE_BYTES - 1);
            line.push('\n');
            line
        }
        LogFormat::Json | LogFormat::Gcp => {
            const END: &str = "}\n";
            let mut line = format!(r#"{{"severity":"{}","time":"{time}","message":"#, severity(level));
            let most = LOG_LINE_BYTES - END.len() - line.len();
            push_json(&mut line, text, most);
            line.push_str(END);
            line
        }
    }
}

/// Appends a text with its unsafe characters escaped, so that the line is at most `most` bytes long.
fn push_plain(line: &mut String, text: &str, most: usize) {
    for c in text.chars() {
        let mark = line.len();
        match c {
            '\n' => line.push_str("\\n"),
            '\t' => line.push_str("\\t"),
            c if is_unsafe(c) => write!(line, "\\u{{{:x}}}", c as u32).expect("memory takes it"),
            c => line.push(c),
        }
        if line.len() > most - CUT.len() {
            line.truncate(mark);
            return line.push_str(CUT);
        }
    }
}

/// Appends a text as a JSON string of at most `most` bytes, quotation marks included.
pub fn push_json(line: &mut String, text: &str, most: usize) {
    line.push('"');
    let end = line.len() + most.saturating_sub(2);
    for c in text.chars() {
        let mark = line.len();
        match c {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            '\n' => line.push_str("\\n"),
            '\t' => line.push_str("\\t"),
            c if is_unsafe(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(line, "\\u{unit:04x}").expect("memory takes it");
                }
            }
            c => line.push(c),
        }
        if line.len() > end.saturating_sub(CUT.len()) {
            line.truncate(mark);
            line.push_str(CUT);
            break;
        }
    }
    line.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const TEXT: &str = "a\n\"b\\\x1b[2J\u{202e}\tä";

    #[test]
    fn a_line_is_one_line_with_its_time_and_level() {
        assert_eq!(
            line(LogFormat::Text, 1_772_357_400_125, Level::Warn, "a\nb\x1b[2J\u{202e}\tä"),
            "[2026-03-01T09:30:00.125Z] warn a\\nb\\u{1b}[2J\\u{202e}\\tä\n"
        );
        for format in [LogFormat::Json, LogFormat::Gcp] {
            let line = line(format, 1_772_357_400_125, Level::Warn, TEXT);
            assert_eq!(line.find(is_unsafe), Some(line.len() - 1), "{line}");
            let expected = json!({"severity": "WARNING", "time": "2026-03-01T09:30:00.125Z", "message": TEXT});
            assert_eq!(serde_json::from_str::<Value>(&line).expect("JSON"), expected);
        }
    }

    #[test]
    fn a_long_line_is_cut_where_a_character_ends_and_stays_json() {
        for text in ["ä".repeat(4096), "\x1b".repeat(4096), "\"".repeat(4096), "x".repeat(LOG_LINE_BYTES)] {
            for format in LogFormat::ALL {
                let line = line(format, 0, Level::Info, &text);
                assert!(line.len() <= LOG_LINE_BYTES && line.len() > LOG_LINE_BYTES - 24, "{} {format:?}", line.len());
                match format {
                    LogFormat::Text => assert!(line.ends_with(" [cut]\n")),
                    LogFormat::Json | LogFormat::Gcp => {
                        let whole: Value = serde_json::from_str(&line).expect("JSON");
                        assert!(whole["message"].as_str().expect("a text").ends_with(" [cut]"));
                    }
                }
            }
        }
        // What just fits is not cut.
        let fits = line(LogFormat::Json, 0, Level::Info, "xy");
        assert!(fits.ends_with("\"xy\"}\n"));
    }
}
