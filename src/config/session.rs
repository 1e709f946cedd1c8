//! How a session is started by a user at a terminal or by a script, and how the terminal shows it.

use crate::base::text::words::words;
use std::path::PathBuf;

/// Only the command line has these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionOptions {
    /// A prompt that is answered without a terminal: `--prompt`, or the words of the command line.
    pub prompt: Option<String>,
    /// The first prompt of a session in the terminal.
    pub first_prompt: Option<String>,
    pub output: OutputFormat,
    /// Control characters of answers are printed as they are.
    pub raw_output: bool,
    /// The session to be continued: `latest`, its number in the list, or its id.
    pub resume: Option<String>,
    pub list: bool,
    /// The session to be deleted, named as in `resume`.
    pub delete: Option<String>,
    pub responses: Responses,
    pub on_hangup: OnHangup,
    /// Nobody can be asked: a call that needs approval is refused. No flag sets it; a run without a terminal does.
    pub unattended: bool,
}

/// How the terminal shows a session: the settings `ui.*`. Their words are those of `ui`, which this layer does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UiSettings {
    pub theme: &'static str,
    pub glyphs: &'static str,
    pub notify: &'static str,
    pub thoughts: &'static str,
    pub screen_reader: bool,
}

pub const THEMES: &[&str] = &["auto", "dark", "light", "ansi", "mono"];
pub const GLYPHS: &[&str] = &["auto", "unicode", "ascii"];
pub const NOTIFY: &[&str] = &["auto", "bell", "off"];
pub const THOUGHTS: &[&str] = &["subject", "full", "off"];

impl Default for UiSettings {
    fn default() -> UiSettings {
        let [theme, glyphs, notify, thoughts] = [THEMES, GLYPHS, NOTIFY, THOUGHTS].map(|words| words[0]);
        UiSettings { theme, glyphs, notify, thoughts, screen_reader: false }
    }
}

/// Whether the model answers or recorded responses do, and whether responses are recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Responses {
    #[default]
    OfTheModel,
    /// The responses of this file, in its order.
    Fake(PathBuf),
    /// The responses of this file; each request takes the next response of its method.
    FakeByMethod(PathBuf),
    /// The responses of the model, which are added to this file.
    Record(PathBuf),
}

words! {
    /// What a session without a terminal prints.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum OutputFormat {
        #[default]
        Text = "text",
        Json = "json",
        StreamJson = "stream-json",
    }
}

words! {
/// What happens when the terminal is closed.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum OnHangup {
        #[default]
        End = "end",
/// The server continues, if it has a port.
        Serve = "serve",
    }
}
