//! The built-in manual: one page of Markdown per subject, compiled into the binary and printed by `gemini-a2a help SUBJECT`.
//!
//! The text is part of the binary so that it always describes the version that prints it. The page about settings gets its tables
//! from the table of options. `tests/manual.rs` runs the examples of every page.

use crate::config::options;

/// One page of the manual: its subject, which selects it, and its file.
pub struct Page {
    pub subject: &'static str,
    file: &'static str,
}

/// Every page, in the order of the list.
pub const PAGES: &[Page] = &[
    Page { subject: "dialects", file: include_str!("manual/dialects.md") },
    Page { subject: "approvals", file: include_str!("manual/approvals.md") },
    Page { subject: "security", file: include_str!("manual/security.md") },
    Page { subject: "settings", file: include_str!("manual/settings.md") },
    Page { subject: "devtools", file: include_str!("manual/devtools.md") },
    Page { subject: "session", file: include_str!("manual/session.md") },
    Page { subject: "terminal", file: include_str!("manual/terminal.md") },
    Page { subject: "editors", file: include_str!("manual/editors.md") },
    Page { subject: "headless", file: include_str!("manual/headless.md") },
    Page { subject: "clients", file: include_str!("manual/clients.md") },
    Page { subject: "journal", file: include_str!("manual/journal.md") },
    Page { subject: "audit", file: include_str!("manual/audit.md") },
    Page { subject: "commands", file: include_str!("manual/commands.md") },
    Page { subject: "undo", file: include_str!("manual/undo.md") },
    Page { subject: "hooks", file: include_str!("manual/hooks.md") },
    Page { subject: "extensions", file: include_str!("manual/extensions.md") },
    Page { subject: "agents", file: include_str!("manual/agents.md") },
    Page { subject: "mcp", file: include_str!("manual/mcp.md") },
    Page { subject: "webhooks", file: include_str!("manual/webhooks.md") },
    Page { subject: "serving", file: include_str!("manual/serving.md") },
    Page { subject: "deploying", file: include_str!("manual/deploying.md") },
    Page { subject: "store", file: include_str!("manual/store.md") },
    Page { subject: "operating", file: include_str!("manual/operating.md") },
    Page { subject: "scripts", file: include_str!("manual/scripts.md") },
    Page { subject: "replay", file: include_str!("manual/replay.md") },
    Page { subject: "embedding", file: include_str!("manual/embedding.md") },
    Page { subject: "architecture", file: include_str!("manual/architecture.md") },
    Page { subject: "dependencies", file: include_str!("manual/dependencies.md") },
];

impl Page {
    /// One line for the list of subjects: the comment that the file begins with.
    fn summary(&self) -> &'static str {
        let first = self.file.lines().next().and_then(|line| line.strip_prefix("<!-- ")?.strip_suffix(" -->"));
        first.expect("a page begins with its summary")
    }

    /// The text for a terminal: with the tables, and without HTML comments, which are for the list and for the tests.
    pub fn text(&self) -> String {
        let lines = self.file.lines().map(|line| match line {
            "*(The program prints the table of keys here.)*" => options::settings_table(),
            "*(The program prints the table of variables here.)*" => options::variables_table(),
            _ if line.starts_with("<!--") => String::new(),
            _ => format!("{line}\n"),
        });
        lines.collect()
    }
}

pub fn find(subject: &str) -> Option<&'static Page> {
    PAGES.iter().find(|page| page.subject == subject)
}

/// The list of subjects, one line each.
pub fn contents() -> String {
    let mut text = String::from("Usage: gemini-a2a help SUBJECT\n\nSubjects:\n");
    for page in PAGES {
        text.push_str(&format!("  {:<14}{}\n", page.subject, page.summary()));
    }
    text.push_str("\ngemini-a2a --help lists the flags.\n");
    text
}

/// Compiles the Rust examples of the pages as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("manual/commands.md")]
#[doc = include_str!("manual/embedding.md")]
struct Examples;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_begins_with_a_heading_and_fits_a_terminal() {
        for page in PAGES {
            let text = page.text();
            assert!(text.starts_with("# "), "{} has no heading", page.subject);
            assert!(!text.contains("<!--"), "{} shows a comment", page.subject);
            assert!(!text.contains("*(The program"), "{} has no table", page.subject);
            for line in text.lines() {
                assert!(line.chars().count() <= 120, "{} has a line that is too long: {line}", page.subject);
            }
        }
    }

    #[test]
    fn the_list_names_every_subject_once() {
        let contents = contents();
        for page in PAGES {
            let entry = format!("\n  {} ", page.subject);
            assert_eq!(contents.matches(&entry).count(), 1, "{}", page.subject);
            assert!(contents.lines().all(|line| line.len() <= 80), "{contents}");
            assert!(find(page.subject).is_some_and(|found| found.summary() == page.summary()));
        }
        assert!(find("").is_none());
    }
}
