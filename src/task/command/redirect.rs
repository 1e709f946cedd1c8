//! Redirections, and the here documents that some of them announce. A document's text begins after the line it is announced in;
//! what a shell would run of it is read, and where shells may disagree on its end the whole line is unclear.

use super::grammar::{Read, Reader};
use super::{Flow, Redirect, Word, unclear};

/// A here document whose text has not begun yet.
pub(super) struct Pending {
    mark: String,
    /// Nothing in the text is expanded.
    quoted: bool,
    strip_tabs: bool,
}

impl Reader<'_> {
    /// At the sign; a number before it has been read.
    pub fn redirect(&mut self) -> Read<Redirect> {
        const SIGNS: [(&str, Flow); 12] = [
            ("&>>", Flow::Write),
            ("&>", Flow::Write),
            ("<<<", Flow::Text),
            ("<<-", Flow::Text),
            ("<<", Flow::Text),
            ("<>", Flow::Write),
            ("<&", Flow::Copy),
            (">&", Flow::Copy),
            (">>", Flow::Write),
            (">|", Flow::Write),
            (">", Flow::Write),
            ("<", Flow::Read),
        ];
        let known = SIGNS.into_iter().find(|(sign, _)| self.sees(sign));
        let (sign, mut flow) = known.expect("called at a sign");
        self.at += sign.len();
        self.skip_blanks();
        let start = self.at;
        if flow == Flow::Copy && self.peek(0) == Some('-') {
            // The sign closes a descriptor and is whole by itself: in `>&-rm` a new word begins behind it.
            self.at += 1;
            let target = Word::exact("-");
            return Ok(Redirect { flow, target });
        }
        let draft = self.word()?;
        let quoted = draft.quoted;
        let target = draft.finish(self.since(start));
        if matches!(sign, "<<" | "<<-") {
            let Some(mark) = target.literal() else {
                return unclear("the end mark of a here document is not plain");
            };
            self.pending.push(Pending { mark: mark.to_owned(), quoted, strip_tabs: sign == "<<-" });
        }
        let number = |text: &str| {
            let digits = text.strip_suffix('-').unwrap_or(text);
            !text.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
        };
        if flow == Flow::Copy && !target.literal().is_some_and(number) {
            flow = Flow::Write;
        }
        Ok(Redirect { flow, target })
    }

    /// The texts of the here documents announced in the line that ends here.
    pub fn documents(&mut self) -> Read<()> {
        for document in std::mem::take(&mut self.pending) {
            let start = self.at;
            loop {
                let line_start = self.at;
                if line_start >= self.chars.len() {
                    return unclear("a here document does not end");
                }
                while self.peek(0).is_some_and(|c| c != '\n') {
                    self.at += 1;
                }
                let line = self.since(line_start);
                self.at = (self.at + 1).min(self.chars.len());
                let bare = match document.strip_tabs {
                    true => line.trim_start_matches('\t'),
                    false => &line,
                };
                if bare == document.mark {
                    self.expanded(start, line_start, &document)?;
                    break;
                }
                // Old shells end a document within a substitution here; lines joined by a backslash may hide the mark.
                let joined = !document.quoted && line.ends_with('\\');
                if joined || (!document.mark.is_empty() && bare.starts_with(&document.mark)) {
                    return unclear("where a here document ends is not certain");
                }
            }
        }
        Ok(())
    }

    /// What the text of a here document runs.
    fn expanded(&mut self, start: usize, end: usize, document: &Pending) -> Read<()> {
        if document.quoted {
            return Ok(());
        }
        let text: String = self.chars[start..end].iter().collect();
        Reader::new(&text, self.depth + 1, self.found)?.text()
    }
}
