//! The command line of `mcp`: actions on MCP servers.

use super::verbs::VerbArgs;
use serde_json::{Map, Value, json};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum McpAction {
    List,
    Test(String),
    Login(String),
    Logout(String),
    /// An entry of `mcpServers`.
    Add {
        name: String,
        entry: Value,
    },
    Remove(String),
}

pub const WORDS: &str = "[list | test NAME | login NAME | logout NAME | add NAME COMMAND|URL [ARG…] | remove NAME]";

pub fn read(given: &VerbArgs) -> Result<McpAction, String> {
    let mut words = given.words.iter();
    let action = words.next().map_or("list", String::as_str);
    let name = words.next();
    let needed = || name.cloned().ok_or_else(|| format!("mcp {action} needs the name of a server"));
    let read = match action {
        "list" if name.is_none() => McpAction::List,
        "test" => McpAction::Test(needed()?),
        "login" => McpAction::Login(needed()?),
        "logout" => McpAction::Logout(needed()?),
        "remove" => McpAction::Remove(needed()?),
        "add" => {
            let name = needed()?;
            let place = words.next().ok_or("mcp add needs a command or a URL behind the name")?;
            return Ok(McpAction::Add { name, entry: entry(given, place, words.cloned().collect())? });
        }
        _ => return Err(format!("mcp takes {WORDS}")),
    };
    match words.next() {
        Some(word) => Err(format!("mcp {action} takes one name; what is {word}?")),
        None => Ok(read),
    }
}

fn entry(given: &VerbArgs, place: &str, args: Vec<String>) -> Result<Value, String> {
    let is_url = place.starts_with("http://") || place.starts_with("https://");
    let mut entry = Map::new();
    let transport = given.one("--transport")?;
    match (transport.as_deref(), is_url) {
        (None | Some("stdio"), false) => {
            entry.insert("command".into(), place.into());
            if !args.is_empty() {
                entry.insert("args".into(), args.into());
            }
        }
        (Some("http" | "sse") | None, true) if args.is_empty() => {
            entry.insert("url".into(), place.into());
            entry.extend(transport.map(|kind| ("type".to_owned(), kind.into())));
        }
        (_, true) => return Err("a URL takes no arguments, and --transport must be http or sse".into()),
        (_, false) => return Err("--transport http and sse need a URL".into()),
    }
    for (flag, key, between, allowed) in [("--env", "env", '=', !is_url), ("--header", "headers", ':', is_url)] {
        let mut pairs = Map::new();
        for text in given.all(flag) {
            let (name, value) = text.split_once(between).ok_or_else(|| format!("{flag} must be NAME{between}VALUE"))?;
            pairs.insert(name.trim().to_owned(), value.trim().into());
        }
        if !pairs.is_empty() && !allowed {
            return Err(format!("{flag} is for {}", if is_url { "programs" } else { "URLs" }));
        }
        if !pairs.is_empty() {
            entry.insert(key.into(), pairs.into());
        }
    }
    if let Some(ms) = given.one("--timeout")? {
        let ms: u64 = ms.parse().map_err(|_| format!("--timeout must be a number of milliseconds, not {ms}"))?;
        entry.insert("timeout".into(), ms.into());
    }
    entry.extend(given.one("--description")?.map(|text| ("description".to_owned(), text.into())));
    for (flag, key) in [("--include-tools", "includeTools"), ("--exclude-tools", "excludeTools")] {
        let names: Vec<String> =
            given.all(flag).iter().flat_map(|list| list.split(',')).map(|name| name.trim().into()).collect();
        if !names.is_empty() {
            entry.insert(key.into(), json!(names));
        }
    }
    if given.has("--trust") {
        entry.insert("trust".into(), true.into());
    }
    Ok(entry.into())
}
