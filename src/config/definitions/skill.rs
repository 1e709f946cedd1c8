//! Reads `SKILL.md`: front matter between two lines of dashes, with a name and a description, and the instructions below it.
//!
//! People write descriptions that are not YAML, such as `description: Use it when: always`. If the YAML has no name and description,
//! the lines are read as they are.

use crate::config::formats::yaml;
use crate::limits::{SKILL_DESCRIPTION_CHARS, SKILL_NAME_CHARS};
use crate::task::definitions::skill::Skill;
use std::path::Path;

/// Reads a file; an error says why it is not used.
pub fn parse(text: &str, dir: &Path) -> Result<Skill, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let (front, body) = divide(&text).ok_or("it does not begin with a block between lines of dashes")?;
    let (name, description) = by_yaml(front).or_else(|| by_line(front)).ok_or("it has no name and description")?;
    let name: String = name.chars().map(|c| if ":\\/<>*?\"|".contains(c) { '-' } else { c }).collect();
    let is_short = |text: &str, most: usize| text.chars().nth(most).is_none();
    if name.is_empty() || name.chars().any(char::is_control) || !is_short(&name, SKILL_NAME_CHARS) {
        return Err(format!("its name must have 1 to {SKILL_NAME_CHARS} characters"));
    }
    if description.is_empty() || !is_short(&description, SKILL_DESCRIPTION_CHARS) {
        return Err(format!("its description must have 1 to {SKILL_DESCRIPTION_CHARS} characters"));
    }
    Ok(Skill { name, description, dir: dir.to_path_buf(), body: body.to_owned(), enabled: true })
}

/// The front matter and what follows it.
pub(in crate::config) fn divide(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("---\n")?;
    let end = if rest.starts_with("---") { 0 } else { rest.find("\n---")? + 1 };
    let (front, body) = rest.split_at(end);
    let body = body.trim_start_matches('-');
    match body.strip_prefix('\n') {
        Some(body) => Some((front, body)),
        None => body.is_empty().then_some((front, body)),
    }
}

fn by_yaml(front: &str) -> Option<(String, String)> {
    let (node, notices) = yaml::parse(front);
    let text = |name: &str| Some(node.at(name)?.text()?.trim().to_owned());
    // A notice may be about either of them.
    if notices.is_empty() { Some((text("name")?, text("description")?)) } else { None }
}

/// Lines `name: …` and `description: …`; indented lines continue the one before.
fn by_line(front: &str) -> Option<(String, String)> {
    let (mut name, mut description) = (None, None);
    let mut lines = front.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let mut words = vec![value.trim().trim_start_matches(['>', '|']).trim_start_matches('-').trim().to_owned()];
        while let Some(more) = lines.next_if(|next| next.starts_with([' ', '\t'])) {
            words.push(more.trim().to_owned());
        }
        words.retain(|word| !word.is_empty());
        match key {
            "name" => name = Some(words.join(" ")),
            "description" => description = Some(words.join(" ")),
            _ => {}
        }
    }
    Some((name?, description?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(String, String, String), String> {
        parse(text, Path::new("/s")).map(|skill| (skill.name, skill.description, skill.body))
    }

    fn skill(name: &str, description: &str, body: &str) -> Result<(String, String, String), String> {
        Ok((name.into(), description.into(), body.into()))
    }

    #[test]
    fn front_matter_is_read_as_yaml_or_by_line() {
        let quoted = "---\nname: \"pdf: forms\"\ndescription: 'Fills forms.'\nlicense: MIT\n---\nDo it.\n";
        assert_eq!(read(quoted), skill("pdf- forms", "Fills forms.", "Do it.\n"));
        let colon = "---\r\nname: pdf\r\ndescription: Use when: a form: is there\r\n---\r\nDo\r\n";
        assert_eq!(read(colon), skill("pdf", "Use when: a form: is there", "Do\n"));
        let folded = "---\nname: a/b\ndescription: >-\n  First\n  second: third\n---\n";
        assert_eq!(read(folded), skill("a-b", "First second: third", ""));
        let none = "it has no name and description";
        assert_eq!(read("---\nname: a\n---\nbody"), Err(none.into()));
        assert_eq!(read("---\n---\nbody"), Err(none.into()));
        for text in ["", "# Title", "---\nname: a\ndescription: b\n", "---\nname: a\ndescription: b\n---x\n"] {
            assert_eq!(read(text), Err("it does not begin with a block between lines of dashes".into()), "{text:?}");
        }
    }

    #[test]
    fn names_and_descriptions_have_limits() {
        let text = |name: usize, description: usize| {
            format!("---\nname: {}\ndescription: {}\n---\n", "é".repeat(name), "é".repeat(description))
        };
        assert!(read(&text(SKILL_NAME_CHARS, SKILL_DESCRIPTION_CHARS)).is_ok());
        let long = read(&text(SKILL_NAME_CHARS + 1, 1)).expect_err("too long");
        assert_eq!(long, "its name must have 1 to 64 characters");
        let long = read(&text(1, SKILL_DESCRIPTION_CHARS + 1)).expect_err("too long");
        assert_eq!(long, "its description must have 1 to 1024 characters");
    }
}
