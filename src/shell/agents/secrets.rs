//! The header that authorises requests to an agent. Secrets come from variables, from commands of the user, or from the file itself.

use super::files::FoundAgent;
use super::{Definer, RemoteAgents};
use crate::base::cancel::Cancel;
use crate::base::secret::Secret;
use crate::config::Variables;
use crate::config::definitions::agent::{Auth, SecretSource};
use crate::limits::agents::SECRET_COMMAND_MS;
use crate::shell::workers::hooks::output_of;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::path::Path;

/// A header that authorises requests, and the secrets in it, which are removed from all shown texts.
#[derive(Clone, Debug)]
pub struct Authorisation {
    pub name: String,
    pub value: Secret,
    pub secrets: Vec<Secret>,
}

impl RemoteAgents {
    /// The header for requests to an agent. `None` if they need none. The error says what to do.
    pub fn authorisation(
        &self,
        found: &FoundAgent,
        variables: &Variables,
        cancel: &Cancel,
    ) -> Result<Option<Authorisation>, String> {
        let secret = |text: &str| self.secret(text, found, variables, cancel);
        let standard = |value: String, secrets: Vec<Secret>| Authorisation {
            name: "Authorization".into(),
            value: Secret::new(value),
            secrets,
        };
        let made = match &found.auth {
            Auth::None => return Ok(None),
            Auth::Key { name, key } => {
                let key = secret(key)?;
                Authorisation { name: name.clone(), value: key.clone(), secrets: vec![key] }
            }
            Auth::Bearer(token) => {
                let token = secret(token)?;
                standard(format!("Bearer {}", token.reveal()), vec![token])
            }
            Auth::Basic { user, password } => {
                let (user, password) = (secret(user)?, secret(password)?);
                let pair = BASE64_STANDARD.encode(format!("{}:{}", user.reveal(), password.reveal()));
                standard(format!("Basic {pair}"), vec![Secret::new(pair), password])
            }
            Auth::Other { scheme, value } => {
                let value = secret(value)?;
                standard(format!("{scheme} {}", value.reveal()), vec![value])
            }
        };
        match made.value.reveal().chars().all(|c| c.is_ascii_graphic() || c == ' ') {
            true => Ok(Some(made)),
            false => Err("its secret has characters that a header cannot have".into()),
        }
    }

    fn secret(&self, text: &str, found: &FoundAgent, variables: &Variables, cancel: &Cancel) -> Result<Secret, String> {
        let value = match SecretSource::of(text) {
            SecretSource::Literal(text) => text.to_owned(),
            SecretSource::Variable(name) => self.variable(name, found, variables)?,
            SecretSource::Command(command) => {
                let Definer::User = found.definer else {
                    return Err("a command for its secret may only be in a file of your home directory".into());
                };
                let programs = self.programs.as_ref().ok_or("no program can be started for its secret")?;
                let home = self.reader.paths().home.clone().unwrap_or_else(|| Path::new("/").into());
                output_of(command, SECRET_COMMAND_MS, &home, &**programs, cancel)
                    .map_err(|why| format!("the command for its secret failed: {why}"))?
            }
        };
        if value.is_empty() {
            return Err("its secret is empty".into());
        }
        Ok(Secret::new(value))
    }

    fn variable(&self, name: &str, found: &FoundAgent, variables: &Variables) -> Result<String, String> {
        let own = match &found.definer {
            Definer::User | Definer::Workspace => None,
            Definer::Extension(values) => values.values.get(name).map(|value| value.reveal().to_owned()),
        };
        let is_users = matches!(found.definer, Definer::User);
        if !is_users && own.is_none() && self.reader.is_credential(variables, name) {
            return Err(format!("{name} may only be used in a file of your home directory"));
        }
        let value = own.or_else(|| self.reader.variable(variables, name));
        value.ok_or_else(|| {
            format!("the variable {name} is not set; set it where the server is started, or in ~/.gemini/.env")
        })
    }
}
