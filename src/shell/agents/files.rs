//! Finds the agents of a workspace: those of the user, those of the workspace if it is trusted, and those of extensions, in this order. If two
//! agents have the same name, the first is used, so that a project cannot replace an agent of the user.

use super::{Definer, RemoteAgents};
use crate::a2a::client::card;
use crate::base::json;
use crate::config::definitions::agent::{AgentFile, Auth, CardSource, parse};
use crate::config::trust::Trust;
use crate::config::{Owner, Variables, WorkspaceSettings};
use crate::limits::agents::{AGENT_FILE_BYTES, AGENTS};
use crate::mcp::transport::url::Url;
use crate::shell::start::workspace_settings::{read_inside, read_plain};
use crate::task::definitions::agent::Callee;
use crate::task::log::blob::sha256;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// An agent that was found.
pub struct FoundAgent {
    pub path: PathBuf,
    pub definer: Definer,
    pub auth: Auth,
    pub callee: Callee,
    /// Where its card is, or why the agent cannot be called.
    pub card: Result<CardLocation, String>,
}

pub enum CardLocation {
    Url(Url),
    /// The card itself, and the agent's URL in it.
    Inline(Value, Url),
}

impl CardLocation {
    /// The URL that the file names. Requests to its origin are authorised.
    pub fn url(&self) -> &Url {
        match self {
            CardLocation::Url(url) | CardLocation::Inline(_, url) => url,
        }
    }
}

#[derive(Default)]
pub struct FoundAgents {
    pub agents: Vec<FoundAgent>,
    pub variables: Variables,
    /// Messages for people: what is not used and why.
    pub messages: Vec<String>,
}

impl RemoteAgents {
    /// All agents of a workspace. `workspace` is its real path.
    pub fn find(&self, workspace: &Path) -> FoundAgents {
        let local = self.reader.read(workspace).unwrap_or_else(|_| WorkspaceSettings::default());
        let mut found = FoundAgents { variables: local.variables.clone(), ..FoundAgents::default() };
        if let Some(dir) = self.reader.paths().user("agents") {
            found.add_directory(&dir, None, &Definer::User);
        }
        let home = self.reader.paths().home.as_deref();
        if local.trust == Trust::Trusted && home.and_then(|home| home.canonicalize().ok()).as_deref() != Some(workspace)
        {
            found.add_directory(&workspace.join(".gemini/agents"), Some(workspace), &Definer::Workspace);
        }
        for extension in &local.extensions {
            let values = Variables { owner: Owner::Workspace, values: extension.values.clone() };
            found.add_directory(&extension.dir.join("agents"), Some(&extension.dir), &Definer::Extension(values));
        }
        found
    }
}

impl FoundAgents {
    /// Adds the agents of the files in a directory. With `inside`, symbolic links may not lead out of that directory.
    fn add_directory(&mut self, dir: &Path, inside: Option<&Path>, definer: &Definer) {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.retain(|name| name.ends_with(".md") && !name.starts_with(['_', '.']));
        names.sort_unstable();
        for name in names {
            let path = dir.join(&name);
            let text = match inside {
                Some(root) => {
                    let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy();
                    read_inside(root, &name, AGENT_FILE_BYTES).map(|found| found.map(|found| found.file.text))
                }
                None => read_plain(&path, AGENT_FILE_BYTES).map_err(|error| format!("{}: {error}", path.display())),
            };
            let files = text.and_then(|text| {
                let files = text.map(|text| parse(&text)).transpose();
                files.map_err(|why| format!("{}: {why}", path.display()))
            });
            match files {
                Ok(files) => files.into_iter().flatten().for_each(|file| self.add(file, &path, definer)),
                Err(why) => self.messages.push(format!("{why}; the agent is not used")),
            }
        }
    }

    fn add(&mut self, file: AgentFile, path: &Path, definer: &Definer) {
        let (name, shown) = (&file.name, path.display());
        if let Some(known) = self.agents.iter().find(|known| known.callee.name == *name) {
            let first = known.path.display();
            return self.messages.push(format!("the agent {name} is used from {first} and not from {shown}"));
        }
        if self.agents.len() >= AGENTS {
            return self.messages.push(format!("the agent {name} of {shown} is not used: there are {AGENTS} already"));
        }
        let fingerprint = fingerprint(&file, definer);
        let card = file.card.and_then(|card| card_location(&card));
        let origin = card.as_ref().map_or(String::new(), |card| card.url().site().to_owned());
        let callee = Callee {
            display_name: file.display_name.unwrap_or_else(|| file.name.clone()),
            description: if file.description.is_empty() {
                format!("A remote agent at {origin}.")
            } else {
                file.description
            },
            name: file.name,
            origin,
            fingerprint,
        };
        self.agents.push(FoundAgent {
            path: path.to_path_buf(),
            definer: definer.clone(),
            auth: file.auth,
            callee,
            card,
        });
    }
}

/// The fingerprint of an agent: its name, the location of its card and the owner of its file. It does not include the authorisation, which may
/// contain secrets.
fn fingerprint(file: &AgentFile, definer: &Definer) -> String {
    let (card, definer) = (
        file.card.as_ref().map_or(("none", ""), |card| match card {
            CardSource::Url(url) => ("url", url.as_str()),
            CardSource::Json(json) => ("json", json.as_str()),
        }),
        match definer {
            Definer::User => "user",
            Definer::Workspace => "workspace",
            Definer::Extension(_) => "extension",
        },
    );
    sha256(&json::bytes(&json!([file.name, card, definer])))
}

fn card_location(card: &CardSource) -> Result<CardLocation, String> {
    match card {
        CardSource::Url(url) => Url::parse(url).map(CardLocation::Url).map_err(|why| format!("agent_card_url {why}")),
        CardSource::Json(text) => {
            let card: Value =
                json::read(text.as_bytes()).map_err(|error| format!("agent_card_json is not JSON: {error}"))?;
            let url =
                Url::parse(&card::interface(&card)?.url).map_err(|why| format!("the URL in agent_card_json {why}"))?;
            Ok(CardLocation::Inline(card, url))
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::config::paths::Paths;
    use crate::config::trust::OperatorTrust;
    use crate::limits::Limits;
    use crate::shell::start::workspace_settings::SettingsReader;
    use crate::tool::tests::Scratch;
    use std::sync::Arc;
    use ureq::tls::TlsConfig;

    /// The agents of the trusted workspace `w` with the home `h`.
    pub fn agents(scratch: &Scratch) -> RemoteAgents {
        let operator = OperatorTrust { decision: Some(Trust::Trusted), workspace: scratch.path().join("w") };
        let home = scratch.path().join("h").to_str().expect("plain").to_owned();
        let env = Arc::new(move |name: &str| (name == "HOME").then(|| home.clone()));
        let limits = Limits::default();
        let reader = SettingsReader::new(Paths::new(env.as_ref()), env, operator, limits.clone());
        RemoteAgents { reader, programs: None, tls: TlsConfig::default(), limits }
    }

    fn text(name: &str) -> String {
        format!("---\nname: {name}\nagent_card_url: http://h/card\n---\n")
    }

    #[test]
    fn the_users_agents_come_first_then_the_workspaces_then_those_of_extensions() {
        let scratch = Scratch::new();
        scratch.put("h/.gemini/agents/b.md", text("b"));
        scratch.put("h/.gemini/extensions/e/gemini-extension.json", r#"{"name": "e", "version": "1"}"#);
        for name in ["a", "b", "c"] {
            scratch.put(&format!("h/.gemini/extensions/e/agents/{name}.md"), text(name));
        }
        scratch.put("w/.gemini/agents/a.md", text("a"));
        scratch.put("w/.gemini/agents/b.md", text("b"));
        scratch.put("w/.gemini/agents/notes.txt", "x");
        let found = agents(&scratch).find(&scratch.path().join("w"));
        let shown = |found: &FoundAgent| {
            let dir = found.path.strip_prefix(scratch.path()).expect("it is there").display().to_string();
            (found.callee.name.clone(), dir)
        };
        let expected = [
            ("b", "h/.gemini/agents/b.md"),
            ("a", "w/.gemini/agents/a.md"),
            ("c", "h/.gemini/extensions/e/agents/c.md"),
        ];
        let expected = expected.map(|(name, dir)| (name.to_owned(), dir.to_owned()));
        assert_eq!(found.agents.iter().map(shown).collect::<Vec<_>>(), expected);
        assert_eq!(found.messages.len(), 3, "{:?}", found.messages);
        let other = agents(&scratch).find(&scratch.path().join("h"));
        assert_eq!(other.agents.len(), 3, "the home is no workspace with agents of its own");
    }

    #[test]
    fn agents_and_their_files_have_limits() {
        let scratch = Scratch::new();
        let padded = |bytes: usize| text("long") + &"x".repeat(bytes - text("long").len());
        let count = || {
            let found = agents(&scratch).find(&scratch.path().join("w"));
            (found.agents.len(), found.messages.len())
        };
        scratch.put("h/.gemini/agents/long.md", padded(AGENT_FILE_BYTES as usize + 1));
        assert_eq!(count(), (0, 1));
        scratch.put("h/.gemini/agents/long.md", padded(AGENT_FILE_BYTES as usize));
        assert_eq!(count(), (1, 0));
        let list: String = (1..AGENTS).map(|n| format!("- name: a{n}\n  agent_card_url: http://h/card\n")).collect();
        scratch.put("h/.gemini/agents/many.md", format!("---\n{list}---\n"));
        assert_eq!(count(), (AGENTS, 0));
        scratch.put("h/.gemini/agents/z.md", text("z"));
        assert_eq!(count(), (AGENTS, 1));
    }

    #[test]
    fn a_fingerprint_depends_on_the_card_and_the_owner_of_the_file() {
        let hash = |text: &str, definer: &Definer| fingerprint(&parse(text).expect("it is right")[0], definer);
        let (user, theirs) = (Definer::User, Definer::Workspace);
        let secret = text("a").replace("/card\n", "/card\nauth:\n  type: apiKey\n  key: k\n");
        assert_eq!(hash(&text("a"), &user), hash(&secret, &user), "not by its secrets");
        assert_ne!(hash(&text("a"), &user), hash(&text("a"), &theirs));
        assert_ne!(hash(&text("a"), &user), hash(&text("b"), &user));
        assert_ne!(hash(&text("a"), &user), hash(&text("a").replace("http://h", "http://i"), &user));
    }
}
