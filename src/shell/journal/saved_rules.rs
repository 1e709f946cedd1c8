//! Policy rules that people saved by answering "always": a JSON file in the user's own `.gemini`, `{"rules": [...]}`.
//!
//! The file is replaced as a whole and readable by the user only. A file that cannot be parsed is renamed and not lost: somebody may
//! have written it by hand.

use crate::base::json;
use crate::config::formats::jsonc;
use crate::shell::journal::user_files::{lock_for_change, replace, with_suffix};
use crate::shell::start::workspace_settings::read_plain;
use crate::task::policy::Rule;
use serde_json::{Value, json};
use std::io;
use std::path::Path;

/// The rules, and a message for the user if the file cannot be used.
#[derive(Debug, Default, PartialEq)]
pub struct Saved {
    pub rules: Vec<Value>,
    pub message: Option<String>,
}

/// Reads the rules as they are written. A missing file has no rules.
pub fn read(path: &Path, most: u64) -> Saved {
    match parse(path, most) {
        Ok(rules) => Saved { rules, message: None },
        Err(why) => {
            Saved { rules: Vec::new(), message: Some(format!("{}: {why}; none of its rules hold", path.display())) }
        }
    }
}

/// Adds a rule and syncs the file. A file that cannot be parsed is renamed to `auto-saved.json.bak`.
pub fn add(path: &Path, rule: Value, most: u64) -> io::Result<()> {
    change(path, most, |rules| {
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    })
}

/// Removes the rules that say the same as this one.
pub fn remove(path: &Path, rule: &Rule, most: u64) -> io::Result<()> {
    change(path, most, |rules| rules.retain(|saved| !Rule::read(saved).is_ok_and(|saved| saved.is_like(rule))))
}

fn change(path: &Path, most: u64, change: impl FnOnce(&mut Vec<Value>)) -> io::Result<()> {
    let _changing = lock_for_change();
    let mut rules = match parse(path, most) {
        Ok(rules) => rules,
        Err(_) => {
            std::fs::rename(path, with_suffix(path, ".bak"))?;
            Vec::new()
        }
    };
    let before = rules.clone();
    change(&mut rules);
    match rules == before {
        true => Ok(()),
        false => replace(path, &json::bytes(&json!({ "rules": rules })), 0o600),
    }
}

fn parse(path: &Path, most: u64) -> Result<Vec<Value>, String> {
    let Some(text) = read_plain(path, most).map_err(|error| error.to_string())? else {
        return Ok(Vec::new());
    };
    let (node, _) = jsonc::parse(&text).map_err(|n| format!("line {}: {}", n.line, n.text))?;
    match node.json() {
        Value::Object(mut members) => match members.remove("rules") {
            Some(Value::Array(rules)) => Ok(rules),
            Some(_) => Err("rules must be a list".into()),
            None => Ok(Vec::new()),
        },
        _ => Err("it must be an object with rules".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::policy;
    use crate::task::spec::Verdict;
    use crate::tool::tests::Scratch;
    use std::os::unix::fs::PermissionsExt;

    const MOST: u64 = 1024;

    fn rules(rules: Value) -> Saved {
        Saved { rules: rules.as_array().expect("a list").clone(), message: None }
    }

    #[test]
    fn rules_are_added_once_and_for_the_user_alone() {
        let scratch = Scratch::new();
        let path = scratch.path().join(".gemini/policies/auto-saved.json");
        assert_eq!(read(&path, MOST), Saved::default());
        let one = json!({"toolName": "glob"});
        let two = json!({"toolName": "write_file"});
        for rule in [&one, &two, &one] {
            add(&path, rule.clone(), MOST).expect("it can be written");
        }
        assert_eq!(read(&path, MOST), rules(json!([one, two])));
        let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode();
        assert_eq!(mode(&path) & 0o777, 0o600);
        let dir = path.parent().expect("it has one");
        assert_eq!(mode(dir) & 0o777, 0o700);
        assert_eq!(std::fs::read_dir(dir).expect("a directory").count(), 1);
    }

    #[test]
    fn a_rule_is_removed_whatever_its_priority() {
        let scratch = Scratch::new();
        let path = scratch.path().join("auto-saved.json");
        let rule = |tool: &str| Rule::new(tool, Verdict::Allow);
        for tool in ["glob", "write_file"] {
            add(&path, policy::saved_rule(rule(tool)), MOST).expect("it can be written");
        }
        remove(&path, &rule("glob"), MOST).expect("it can be written");
        remove(&path, &rule("replace"), MOST).expect("there is nothing to do");
        assert_eq!(read(&path, MOST), rules(json!([policy::saved_rule(rule("write_file"))])));
        let mut active = policy::Policy::built_in();
        assert_eq!(active.add_saved(&read(&path, MOST).rules.into()), [""; 0]);
        assert_eq!(active.saved().count(), 1);
        assert_eq!(active.forget(&rule("write_file")).len(), 1);
        assert_eq!((active.saved().count(), active.forget(&rule("write_file")).len()), (0, 0));
    }

    #[test]
    fn a_corrupt_file_is_renamed() {
        let scratch = Scratch::new();
        let path = scratch.put("auto-saved.json", "{\n\"rules\": [}");
        let saved = read(&path, MOST);
        assert_eq!(saved.rules, Vec::<Value>::new());
        assert!(saved.message.expect("a message").contains("line 2"));
        add(&path, json!(1), MOST).expect("it can be written");
        assert_eq!(read(&path, MOST), rules(json!([1])));
        let aside = std::fs::read_to_string(with_suffix(&path, ".bak")).expect("it was kept");
        assert_eq!(aside, "{\n\"rules\": [}");
        assert!(read(&scratch.put("x", "[1]"), MOST).message.is_some());
        assert!(read(&scratch.put("y", " ".repeat(2000)), MOST).message.is_some());
    }
}
