//! The files with the history of prompts and the draft of a workspace, in the state directory. Several sessions may use them at once:
//! prompts are appended, and the draft belongs to the first session. Errors of reading and writing are ignored, so that they do not
//! end the session.

use crate::limits::ui::{DRAFT_MS, HISTORY_BYTES, HISTORY_ENTRIES, HISTORY_ENTRY_BYTES};
use crate::shell::journal::user_files::replace;
use crate::task::log::blob::sha256;
use rustix::fs::{FlockOperation, flock};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub struct PromptFiles {
    history: PathBuf,
    /// None if another session has locked the draft, or if it cannot be written.
    draft: Option<File>,
    /// A draft that is not stored yet.
    unstored_draft: Option<String>,
    stored_at: Option<u64>,
}

impl PromptFiles {
    pub fn open(state: &Path, workspace: &Path) -> PromptFiles {
        let dir = state.join("history");
        // An error is ignored here: opening the files fails then.
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(&dir);
        let name = &sha256(workspace.as_os_str().as_encoded_bytes())[..32];
        let path = dir.join(format!("{name}.draft"));
        let draft = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
        let draft = draft.ok().filter(|file| flock(file, FlockOperation::NonBlockingLockExclusive).is_ok());
        PromptFiles { history: dir.join(format!("{name}.jsonl")), draft, unstored_draft: None, stored_at: None }
    }

    /// Earlier prompts, oldest first. Invalid lines are skipped.
    pub fn history(&self) -> Vec<String> {
        let Ok(bytes) = std::fs::read(&self.history) else {
            return Vec::new();
        };
        let lines = bytes.split(|byte| *byte == b'\n').rev();
        let mut entries: Vec<String> =
            lines.filter_map(|line| serde_json::from_slice(line).ok()).take(HISTORY_ENTRIES).collect();
        entries.reverse();
        if bytes.len() as u64 > HISTORY_BYTES {
            self.shorten(&entries);
        }
        entries
    }

    /// Rewrites the file with the newest prompts, up to half of its limit. If another session is doing so, a later start does it.
    fn shorten(&self, entries: &[String]) {
        let lock = self.history.parent().and_then(|dir| File::open(dir).ok());
        if lock.as_ref().is_none_or(|dir| flock(dir, FlockOperation::NonBlockingLockExclusive).is_err()) {
            return;
        }
        let mut room = HISTORY_BYTES as usize / 2;
        let mut newest: Vec<Vec<u8>> = Vec::new();
        for line in entries.iter().rev().map(|entry| line(entry)) {
            let Some(remaining) = room.checked_sub(line.len()) else { break };
            room = remaining;
            newest.push(line);
        }
        newest.reverse();
        let _ = replace(&self.history, &newest.concat(), 0o600);
    }

    /// Appends a prompt in one write, so that those of other sessions stay whole.
    pub fn remember(&self, text: &str) {
        let line = line(text);
        if line.len() <= HISTORY_ENTRY_BYTES {
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.history);
            let _ = file.and_then(|mut file| file.write_all(&line));
        }
    }

    /// The draft that was not sent.
    pub fn draft(&mut self) -> String {
        let mut text = String::new();
        match self.draft.as_mut().map(|file| file.read_to_string(&mut text)) {
            Some(Ok(_)) => text,
            Some(Err(_)) | None => String::new(),
        }
    }

    pub fn keep_draft(&mut self, text: String) {
        self.unstored_draft = self.draft.is_some().then_some(text);
    }

    /// When the draft is to be stored.
    pub fn due(&self) -> Option<u64> {
        self.unstored_draft.as_ref().map(|_| self.stored_at.map_or(0, |at| at + DRAFT_MS))
    }

    pub fn store_draft(&mut self, now_ms: u64) {
        if let (Some(text), Some(file)) = (self.unstored_draft.take(), &mut self.draft) {
            self.stored_at = Some(now_ms);
            let stored = file.rewind().and_then(|()| file.write_all(text.as_bytes()));
            let _ = stored.and_then(|()| file.set_len(text.len() as u64));
        }
    }
}

/// A prompt as a line of the file.
fn line(text: &str) -> Vec<u8> {
    let mut line = crate::base::json::bytes(text);
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::tests::Scratch;

    fn files(scratch: &Scratch) -> PromptFiles {
        PromptFiles::open(scratch.path(), Path::new("/w"))
    }

    #[test]
    fn prompts_of_two_sessions_are_kept_and_damaged_lines_are_left_out() {
        let scratch = Scratch::new();
        let (one, two) = (files(&scratch), files(&scratch));
        one.remember("a\nb");
        two.remember("!ls");
        let mut file = OpenOptions::new().append(true).open(&one.history).expect("it was made");
        file.write_all(b"\"torn\n\xff\xfe\n{}\n").expect("written");
        one.remember("c");
        two.remember(&"x".repeat(HISTORY_ENTRY_BYTES));
        assert_eq!(two.history(), ["a\nb", "!ls", "c"]);
        assert!(PromptFiles::open(scratch.path(), Path::new("/other")).history().is_empty());
    }

    #[test]
    fn two_processes_at_once_lose_no_prompt() {
        let scratch = Scratch::new();
        std::thread::scope(|scope| {
            for name in ["a", "b"] {
                let files = files(&scratch);
                scope.spawn(move || (0..400).for_each(|number| files.remember(&format!("{name}{number}"))));
            }
        });
        let entries = files(&scratch).history();
        assert_eq!(entries.len(), 800);
        let of_a: Vec<&String> = entries.iter().filter(|entry| entry.starts_with('a')).collect();
        assert!(of_a.iter().enumerate().all(|(number, entry)| **entry == format!("a{number}")), "in their order");
    }

    #[test]
    fn the_newest_prompts_are_kept_and_the_file_does_not_grow_without_end() {
        let scratch = Scratch::new();
        let files = files(&scratch);
        (0..HISTORY_ENTRIES + 1).for_each(|number| files.remember(&number.to_string()));
        let entries = files.history();
        assert_eq!((entries.len(), entries[0].as_str()), (HISTORY_ENTRIES, "1"));
        let long = "y".repeat(HISTORY_ENTRY_BYTES - 10);
        let size = || std::fs::metadata(&files.history).expect("it is there").len();
        while size() <= HISTORY_BYTES {
            files.remember(&long);
        }
        let newest = files.history().pop();
        assert!(size() <= HISTORY_BYTES / 2 && newest == Some(long));
    }

    #[test]
    fn the_draft_belongs_to_one_session_and_survives_it() {
        let scratch = Scratch::new();
        let mut first = files(&scratch);
        first.keep_draft("long draft".into());
        assert_eq!(first.due(), Some(0));
        first.store_draft(5);
        first.keep_draft("draft".into());
        assert_eq!(first.due(), Some(5 + DRAFT_MS));
        first.store_draft(300);
        let mut second = files(&scratch);
        second.keep_draft("other".into());
        assert_eq!((second.due(), second.draft()), (None, String::new()));
        drop((first, second));
        assert_eq!(files(&scratch).draft(), "draft");
    }
}
