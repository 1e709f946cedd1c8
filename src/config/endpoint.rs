//! The model API, its address and credentials, from variables of the environment or of a `.env` file.

use super::{Agent, Env, Owner, Settings, Variables};
use crate::base::secret::Secret;
use crate::model::gemini::{self, Auth, Endpoint, KeyOrigin, Service};
use std::path::PathBuf;

/// Where variables come from: the environment first, then the `.env` file.
pub struct Sources<'a> {
    pub env: Env<'a>,
    pub variables: &'a Variables,
}

impl Sources<'_> {
    pub fn any(&self, name: &str) -> Option<String> {
        self.own(name).or_else(|| self.filed(name))
    }

    /// The operator's value, never a workspace's.
    fn own(&self, name: &str) -> Option<String> {
        let filed = || match self.variables.owner {
            Owner::User => self.filed(name),
            Owner::Workspace => None,
        };
        (self.env)(name).or_else(filed)
    }

    /// An address to send requests to. A workspace can set one only if the operator has set no credentials: these are sent only to
    /// the operator's address.
    fn address(&self, name: &str) -> Result<Option<String>, String> {
        const CREDENTIALS: [&str; 5] = [
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
            "GOOGLE_CLOUD_ACCESS_TOKEN",
            "GOOGLE_CLOUD_ACCESS_TOKEN_FILE",
            "GOOGLE_APPLICATION_CREDENTIALS",
        ];
        let has_own = CREDENTIALS.iter().any(|name| self.own(name).is_some());
        self.url(name, if has_own { self.own(name) } else { self.any(name) })
    }

    fn url(&self, name: &str, found: Option<String>) -> Result<Option<String>, String> {
        match found {
            Some(url) if !(url.starts_with("http://") || url.starts_with("https://")) => {
                Err(format!("{name} must be an http(s) URL, not {url}"))
            }
            found => Ok(found),
        }
    }

    fn is_on(&self, name: &str) -> bool {
        self.any(name).is_some_and(|value| value == "true" || value == "1")
    }

    fn filed(&self, name: &str) -> Option<String> {
        let value = self.variables.values.get(name)?.reveal();
        (!value.is_empty()).then(|| value.to_owned())
    }
}

pub fn agent(sources: &Sources, settings: &Settings) -> Result<Agent, String> {
    for name in ["GOOGLE_GENAI_USE_GCA", "GEMINI_CLI_USE_COMPUTE_ADC", "USE_CCPA"] {
        if sources.is_on(name) {
            return Err(format!(
                "{name} asks for a login with a Google account, which is not supported; unset it and use GEMINI_API_KEY, or GOOGLE_GENAI_USE_VERTEXAI with a key or a token"
            ));
        }
    }
    let mut endpoint = if sources.is_on("GOOGLE_GENAI_USE_VERTEXAI") {
        vertex(sources, settings)?
    } else {
        let base = sources.address("GOOGLE_GEMINI_BASE_URL")?;
        let key = sources.any("GEMINI_API_KEY");
        if key.is_none() && base.is_none() {
            return Ok(Agent::Demo);
        }
        let mut endpoint = Endpoint::new(Secret::new(key.unwrap_or_default()));
        endpoint.base_url = base.unwrap_or(endpoint.base_url);
        if sources.any("GEMINI_API_KEY_AUTH_MECHANISM").as_deref() == Some("bearer") {
            endpoint.auth = Auth::KeyAndBearer;
        }
        endpoint
    };
    if let Some(version) = sources.any("GOOGLE_GENAI_API_VERSION") {
        endpoint.api_version = version;
    }
    if let Some(list) = sources.any("GEMINI_CLI_CUSTOM_HEADERS") {
        endpoint.extra.extend(gemini::header_list(&list));
    }
    Ok(Agent::Gemini(endpoint))
}

/// Vertex AI, by key or else by project, location and token.
fn vertex(sources: &Sources, settings: &Settings) -> Result<Endpoint, String> {
    let mut endpoint = match sources.any("GOOGLE_API_KEY") {
        Some(key) => Endpoint::of(Service::VertexExpress, Secret::new(key), Auth::Key),
        None => {
            let project = sources.any("GOOGLE_CLOUD_PROJECT");
            let project = project.or_else(|| sources.any("GOOGLE_CLOUD_PROJECT_ID"));
            let (Some(project), Some(location)) = (project, sources.any("GOOGLE_CLOUD_LOCATION")) else {
                return Err("Vertex AI needs GOOGLE_API_KEY, or GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION".into());
            };
            let service = Service::Vertex {
                project: plain(project, "GOOGLE_CLOUD_PROJECT")?,
                location: plain(location, "GOOGLE_CLOUD_LOCATION")?,
            };
            let (token, key_origin) = vertex_token(sources)?;
            Endpoint { key_origin, ..Endpoint::of(service, token, Auth::Bearer) }
        }
    };
    let base = "GOOGLE_VERTEX_BASE_URL";
    let base = match &endpoint.key_origin {
        // The machine has credentials without any variable.
        KeyOrigin::Google { .. } => sources.url(base, sources.own(base))?,
        KeyOrigin::Given | KeyOrigin::File(_) => sources.address(base)?,
    };
    if let Some(base) = base {
        endpoint.base_url = base;
    }
    let headers = settings.vertex_headers.iter();
    endpoint.extra = headers.map(|(name, value)| (name.clone(), Secret::new(value))).collect();
    Ok(endpoint)
}

/// A token that is given, in a file, or for the credentials that all programs for Google Cloud use.
fn vertex_token(sources: &Sources) -> Result<(Secret, KeyOrigin), String> {
    if let Some(token) = sources.any("GOOGLE_CLOUD_ACCESS_TOKEN") {
        return Ok((Secret::new(token), KeyOrigin::Given));
    }
    // Never from a workspace, because the content of these files is sent to the API, or a token for it.
    if let Some(file) = sources.own("GOOGLE_CLOUD_ACCESS_TOKEN_FILE") {
        return Ok((Secret::default(), KeyOrigin::File(file.into())));
    }
    if !cfg!(feature = "bucket") {
        return Err(
            "Vertex AI by project needs a token: set GOOGLE_CLOUD_ACCESS_TOKEN (gcloud auth print-access-token prints one), or GOOGLE_CLOUD_ACCESS_TOKEN_FILE to a file that is kept fresh. This build does not use application default credentials".into(),
        );
    }
    let file = sources.own("GOOGLE_APPLICATION_CREDENTIALS").map(PathBuf::from);
    let metadata_host = sources.own("GCE_METADATA_HOST");
    Ok((Secret::default(), KeyOrigin::Google { file, metadata_host }))
}

/// A text that is inserted into a host name or path must not contain separators.
fn plain(text: String, name: &str) -> Result<String, String> {
    let ok = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if text.bytes().all(ok) && !text.contains("..") {
        return Ok(text);
    }
    Err(format!("{name} must be letters, digits and dashes"))
}
