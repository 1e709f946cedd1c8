//! Decides how clients are admitted, by the settings and the credentials file. A server that no client could use is not started.

#[cfg(feature = "identity")]
use crate::config::identity::IdentitySettings;
use crate::core::access::AccessSetup;
#[cfg(feature = "identity")]
use crate::core::access::identity::IdentitySetup;
use crate::shell::access::credentials::{CredentialsReader, Readers};
use crate::shell::access::keys::KeySource;
use crate::shell::event_loop::sys;
use crate::shell::start::embed::{OpenError, Plan};
use crate::shell::start::workspace_settings::Env;
#[cfg(feature = "identity")]
use crate::shell::workers::client;
use crate::task::access::AccessMode;
use crate::task::access::token::Hash;
use std::path::{Path, PathBuf};

/// The setup for the core, the reader of the credentials file, and the source of the identity provider's keys.
type Admission = (AccessSetup, Option<CredentialsReader>, Option<KeySource>);

/// The name of the credentials file in the state directory.
const FILE: &str = "credentials.json";

/// How clients are admitted. An error if no client could be admitted.
pub fn access(plan: &Plan, env: &Env) -> Result<Admission, OpenError> {
    let settings = &plan.settings.access;
    let mut setup = AccessSetup {
        mode: settings.mode(),
        proxies: settings.proxies.clone(),
        random: sys::random(),
        ..AccessSetup::default()
    };
    if setup.mode == AccessMode::Local {
        return match settings.identity {
            Some(_) => Err(OpenError::Plan("--identity needs --access token".into())),
            None => Ok((setup, None, None)),
        };
    }
    let path = path(settings.credentials.as_deref(), &plan.state);
    let readers = Readers::of_environment(&**env);
    let (reader, credentials) = CredentialsReader::open(&path, readers).map_err(OpenError::Plan)?;
    setup.environment = settings.token.as_ref().map(|token| Hash::of(token.reveal()));
    let key_source = identity(plan, &mut setup)?;
    if credentials.credentials.is_empty() && setup.environment.is_none() && setup.identity.is_none() {
        let message = format!(
            "--access token needs a credential, and {} has none. Make one with: gemini-a2a token add NAME --subject NAME \
             --rights view,prompt,approve — or set A2A_TOKEN",
            path.display()
        );
        match settings.platform {
            // The platform expects a server that responds. Its responses say what to set.
            Some(_) => plan.log.warn(format_args!("{message}")),
            None => return Err(OpenError::Plan(message)),
        }
    }
    setup.credentials = credentials;
    Ok((setup, Some(reader), key_source))
}

/// Reads the file of `--identity` into the setup, and returns the source of the keys.
#[cfg(feature = "identity")]
fn identity(plan: &Plan, setup: &mut AccessSetup) -> Result<Option<KeySource>, OpenError> {
    let Some(file) = &plan.settings.access.identity else {
        return Ok(None);
    };
    let read = identity_file(file).map_err(OpenError::Plan)?;
    let tls = client::tls(plan.certificates.as_deref()).map_err(OpenError::Plan)?;
    setup.identity = Some(IdentitySetup { header: read.header, rules: read.rules });
    Ok(Some(KeySource::new(&read.jwks, tls)))
}

#[cfg(not(feature = "identity"))]
fn identity(plan: &Plan, _: &mut AccessSetup) -> Result<Option<KeySource>, OpenError> {
    match plan.settings.access.identity {
        Some(_) => Err(OpenError::Plan("this build has no --identity; build it with the feature identity".into())),
        None => Ok(None),
    }
}

#[cfg(feature = "identity")]
fn identity_file(path: &Path) -> Result<IdentitySettings, String> {
    let text = std::fs::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    IdentitySettings::parse(&text).map_err(|why| format!("{} is not valid: {why}", path.display()))
}

/// The URL of the identity provider's discovery document.
#[cfg(feature = "identity")]
pub fn discovery(file: Option<&Path>) -> Result<Option<String>, String> {
    file.map(|file| identity_file(file).map(|read| read.discovery())).transpose()
}

#[cfg(not(feature = "identity"))]
pub fn discovery(_: Option<&Path>) -> Result<Option<String>, String> {
    Ok(None)
}

/// The path of the credentials file.
pub fn path(given: Option<&Path>, state: &Path) -> PathBuf {
    given.map_or_else(|| state.join(FILE), Path::to_owned)
}
