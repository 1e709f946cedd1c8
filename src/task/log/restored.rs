//! The event of a restore: the files that were restored, and whether the model still sees the conversation after the position.

use crate::base::id::{CallId, Seq};
use crate::base::json;
use crate::task::log::blob::FileVersion;
use crate::task::message::Source;
use serde::{Deserialize, Serialize};

/// Files shown by name in a description; the others are counted.
const NAMED_FILES: usize = 5;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Restored {
    /// The position is immediately before this event. If this event is a restore, that restore was undone.
    pub to: Seq,
    /// The call before which the position is. None: the position is before a turn or a restore.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallId>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<RestoredFile>,
    pub conversation: Conversation,
    /// The number of entries of the task's history before the position.
    #[serde(default)]
    pub items: usize,
    pub by: Source,
}

/// What happened to the conversation after the position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conversation {
    /// The model still sees it, and a note about the files.
    Kept,
    /// The model sees the conversation only up to the position. Clients still see all of it.
    Rewound,
}

/// A restored file, with its versions before and after the restore. None: no file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RestoredFile {
    pub root: String,
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<FileVersion>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<FileVersion>,
    /// How many of its directories, from the innermost on, were created for the file.
    #[serde(default, skip_serializing_if = "json::is_default")]
    pub dirs: usize,
}

impl Restored {
    /// The versions of files that the event names.
    pub fn versions(&self) -> impl Iterator<Item = &FileVersion> {
        self.files.iter().flat_map(|file| file.from.iter().chain(&file.to))
    }

    /// A sentence for people about the restore.
    pub fn described(&self) -> String {
        let by = &self.by.client;
        let files = match self.files.len() {
            0 => String::new(),
            1 => format!(" put back {},", self.names()),
            count => format!(" put back {count} files ({}),", self.names()),
        };
        let conversation = match self.conversation {
            Conversation::Kept => "the conversation stays",
            Conversation::Rewound => "the model sees the conversation up to there",
        };
        let to = self.to;
        format!("{by} went back to before event {to}:{files} {conversation}.")
    }

    fn names(&self) -> String {
        let mut names: Vec<&str> = self.files.iter().map(|file| file.path.as_str()).take(NAMED_FILES).collect();
        if self.files.len() > NAMED_FILES {
            names.push("…");
        }
        names.join(", ")
    }
}
