//! Prompts of servers as slash commands: `/<server>:<prompt>`, with arguments by name or by position.

use crate::mcp::catalog::{Prompt, PromptArgument};
use crate::mcp::text::clean_line;
use serde_json::{Map, Value};

/// The command of a prompt. White space in its name becomes `-`.
pub fn command(server: &str, prompt: &str) -> String {
    format!("{server}:{}", prompt.split_whitespace().collect::<Vec<_>>().join("-"))
}

/// Parses the arguments of a prompt as the user has typed them: `--name=value`, `--name="a value"`, and values by position for the required
/// arguments that are not named. The error is a text for people: what is missing, or the list of arguments if they typed `help`.
pub fn arguments(prompt: &Prompt, line: &str) -> Result<Map<String, Value>, String> {
    let known = prompt.arguments.as_deref().unwrap_or_default();
    if line.trim() == "help" {
        return Err(usage(prompt, known));
    }
    let mut given = Map::new();
    let (mut words, mut at) = (Vec::new(), 0);
    while let Some(word) = next_word(line, &mut at) {
        let named = word.bare.strip_prefix("--").and_then(|word| word.split_once('=')).map(|(name, _)| name);
        match named.map(|name| known.iter().find(|argument| argument.name == name).ok_or(name)) {
            Some(Ok(argument)) => {
                let value = word.value.split_once('=').map_or("", |(_, value)| value);
                given.insert(argument.name.clone(), value.into());
            }
            Some(Err(name)) => {
                return Err(format!("There is no argument {}.\n{}", clean_line(name, 80), usage(prompt, known)));
            }
            None => words.push(word),
        }
    }
    let missing: Vec<&PromptArgument> =
        known.iter().filter(|argument| argument.required && !given.contains_key(&argument.name)).collect();
    match (&missing[..], &words[..]) {
        ([only], [word]) => drop(given.insert(only.name.clone(), word.value.clone().into())),
        // One argument is missing: it gets the rest of the line, unless that contains named arguments.
        ([only], [first, .., last]) => {
            let rest = match line.get(first.start..last.end).filter(|rest| !rest.contains("--")) {
                Some(rest) => rest.to_owned(),
                None => words.iter().map(|word| word.value.as_str()).collect::<Vec<_>>().join(" "),
            };
            given.insert(only.name.clone(), rest.into());
        }
        (missing, words) if missing.len() == words.len() => {
            let pairs = missing.iter().zip(words);
            given.extend(pairs.map(|(argument, word)| (argument.name.clone(), word.value.clone().into())));
        }
        (missing, words) if words.len() < missing.len() => {
            let names: Vec<&str> = missing[words.len()..].iter().map(|argument| argument.name.as_str()).collect();
            return Err(format!("Missing arguments: {}.\n{}", names.join(", "), usage(prompt, known)));
        }
        _ => return Err(format!("There are more values than required arguments.\n{}", usage(prompt, known))),
    }
    Ok(given)
}

/// The usage of a prompt's arguments in one line: `--a="…" [--b="…"]`.
pub fn usage_line(prompt: &Prompt) -> String {
    let shown = |argument: &PromptArgument| match (clean_line(&argument.name, 80), argument.required) {
        (name, true) => format!("--{name}=\"…\""),
        (name, false) => format!("[--{name}=\"…\"]"),
    };
    let known = prompt.arguments.as_deref().unwrap_or_default();
    known.iter().map(shown).collect::<Vec<_>>().join(" ")
}

fn usage(prompt: &Prompt, known: &[PromptArgument]) -> String {
    let mut text = format!("Arguments of {}:", clean_line(&prompt.name, 80));
    for argument in known {
        let required = if argument.required { " (required)" } else { "" };
        let about =
            argument.description.as_deref().map(|about| format!(": {}", clean_line(about, 200))).unwrap_or_default();
        text.push_str(&format!("\n  --{}=\"…\"{required}{about}", clean_line(&argument.name, 80)));
    }
    if known.is_empty() {
        text.push_str(" none");
    }
    text
}

struct Word {
    start: usize,
    end: usize,
    /// The word without its quotes.
    value: String,
    /// The part before the first quote.
    bare: String,
}

/// Reads the next word. A quoted part may contain white space, and `\"` in a quoted part is a quote.
fn next_word(line: &str, at: &mut usize) -> Option<Word> {
    let start = *at + line[*at..].find(|c: char| !c.is_whitespace())?;
    let mut word = Word { start, end: line.len(), value: String::new(), bare: String::new() };
    let (mut quoted, mut was_quoted) = (false, false);
    let mut chars = line[start..].char_indices().peekable();
    while let Some((offset, c)) = chars.next() {
        match c {
            '\\' if quoted => {
                let escaped = chars.next_if(|(_, next)| matches!(next, '"' | '\\'));
                word.value.push(escaped.map_or('\\', |(_, next)| next));
            }
            '"' => (quoted, was_quoted) = (!quoted, true),
            c if c.is_whitespace() && !quoted => {
                word.end = start + offset;
                break;
            }
            c => {
                word.value.push(c);
                if !was_quoted {
                    word.bare.push(c);
                }
            }
        }
    }
    *at = word.end;
    Some(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    fn prompt(arguments: Value) -> Prompt {
        Prompt::deserialize(json!({"name": "p", "arguments": arguments})).expect("a prompt")
    }

    #[test]
    fn check_67_arguments_by_name_in_order_and_missing() {
        let two = prompt(
            json!([{"name": "a", "required": true, "description": "first"}, {"name": "b", "required": true}, {"name": "c"}]),
        );
        for (line, expected) in [
            ("--a=1 --b=2", json!({"a": "1", "b": "2"})),
            (r#"--b="two words" --a="say \"hi\" \\""#, json!({"a": "say \"hi\" \\", "b": "two words"})),
            ("1 2", json!({"a": "1", "b": "2"})),
            (r#""1 1" 2 --c=3"#, json!({"a": "1 1", "b": "2", "c": "3"})),
            ("--a=1 all the rest", json!({"a": "1", "b": "all the rest"})),
            ("all the --a=1 rest", json!({"a": "1", "b": "all the rest"})),
            (r#"--a=1 "quoted rest""#, json!({"a": "1", "b": "quoted rest"})),
            ("--a= --b=x=y", json!({"a": "", "b": "x=y"})),
        ] {
            assert_eq!(arguments(&two, line).map(Value::from), Ok(expected), "{line}");
        }
        assert!(arguments(&two, "1").is_err_and(|text| text.starts_with("Missing arguments: b.")));
        assert!(arguments(&two, "").is_err_and(|text| text.starts_with("Missing arguments: a, b.")));
        assert!(arguments(&two, "1 2 3").is_err_and(|text| text.contains("more values")));
        assert!(arguments(&two, "--d=1 --a=1 --b=1").is_err_and(|text| text.contains("no argument d")));
        let help = arguments(&two, " help ").expect_err("it is the list");
        assert_eq!(help, "Arguments of p:\n  --a=\"…\" (required): first\n  --b=\"…\" (required)\n  --c=\"…\"");
        let none = prompt(Value::Null);
        assert_eq!(arguments(&none, "").map(Value::from), Ok(json!({})));
        assert!(arguments(&none, "x").is_err());
    }

    #[test]
    fn any_line_can_be_typed() {
        let one = prompt(json!([{"name": "a", "required": true}]));
        for line in ["\"", "\\", "\"\\", "é \" x", "--", "--=", "--a", "\u{3000}x\u{3000}", "--a=\"open"] {
            let _ = arguments(&one, line);
        }
        assert_eq!(arguments(&one, "don't stop").map(Value::from), Ok(json!({"a": "don't stop"})));
        assert_eq!(command("srv", "my  prompt"), "srv:my-prompt");
    }
}
