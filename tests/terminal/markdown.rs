//! Markdown that streams in, cut at every place. The rows that were printed before a cut never change, and the end is the same.

use crate::random::Random;
use gemini_a2a::ui::format::markdown::Markdown;
use gemini_a2a::ui::format::wrap::Line;
use std::path::Path;

/// Lines of documents as models write them; random sequences of them are documents too.
const LINES: &[&str] = &[
    "# A heading of some length\n",
    "plain words that go on for a while and wrap at least once\n",
    "\n",
    "- item with `code`\n",
    "  - nested **item** that is long enough to be broken somewhere\n",
    "1. first\n",
    "12) twelfth\n",
    "> quoted _text_\n",
    "```rust\nfn main() {}\n\n```\n",
    "~~~\nraw **text**\n~~~\n",
    "| a | b |\n|---|--:|\n| 1 | 22 |\n",
    "| x | y |\n",
    "---\n",
    "**bold over\nlines** and *it* ",
    "[text](https://e.org/x_y) ",
    "https://e.org/a_b. ",
    "~~gone~~ ",
    "snake_case 2*3*4 ",
    "\\*escaped\\* ",
    "line  \n",
    "日本語の文章です。 ",
    "👩\u{200d}💻 e\u{301} ",
    "tab\there ",
    "\u{1b}[31mred ",
    "    indented\n",
    "**",
    "`",
    "```\nunclosed\n",
    "[broken](",
    "averyveryveryverylongwordthatdoesnotfit ",
    "\r\n",
    "| half",
    "1",
    "<div>\n",
];

/// The manual and the README, section by section, and as many generated documents as make two hundred.
fn documents() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manual =
        std::fs::read_dir(root.join("src/manual")).expect("the manual").map(|entry| entry.expect("readable").path());
    let mut files: Vec<_> = manual.chain([root.join("README.md")]).collect();
    files.sort();
    let mut documents = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file).expect("text");
        let sections = text.split("\n## ").map(|section| section.chars().take(350).collect::<String>());
        documents.extend(sections);
    }
    documents.truncate(80);
    let mut random = Random::new(42);
    while documents.len() < 200 {
        let count = 3 + random.below(12);
        documents.push((0..count).map(|_| LINES[random.below(LINES.len())]).collect());
    }
    documents
}

#[test]
fn every_prefix_of_two_hundred_documents() {
    for (number, text) in documents().iter().enumerate() {
        let most = [20, 40, 88][number % 3];
        let mut markdown = Markdown::default();
        let mut whole = markdown.push(text, most);
        whole.extend(markdown.finish(most));
        for (cut, _) in text.char_indices() {
            let mut markdown = Markdown::default();
            let mut rows: Vec<Line> = markdown.push(&text[..cut], most);
            assert_eq!(rows[..], whole[..rows.len()], "document {number}, printed before byte {cut}: {text:?}");
            rows.extend(markdown.push(&text[cut..], most));
            rows.extend(markdown.finish(most));
            assert_eq!(rows, whole, "document {number}, cut at byte {cut}: {text:?}");
        }
    }
}
