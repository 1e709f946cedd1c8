//! Builds requests to the Gemini API: the URL, the header fields and the body. `shell/workers/client.rs` sends them.
//!
//! Users may write short names of models, which are replaced by the API's names. The API refuses a request with a field that the model's
//! family does not support, so fields that differ between families depend on the model's name, and a model of an unknown family gets none
//! of them.

#[cfg(test)]
pub(in crate::model) mod tests;

use crate::base::clock::rfc3339;
use crate::base::json;
use crate::base::secret::Secret;
use crate::model::error::fatal;
use crate::model::history::{self, HistoryContext, ResultMedia};
use crate::model::memory::RequestContext;
use crate::model::system::{self, InstructionInputs};
use crate::model::{compact, window};
use crate::task::machine::job::{ModelError, ModelErrorKind, Think};
use crate::task::spec::ToolSpec;
use serde_json::{Value, json};
use std::path::PathBuf;

pub const DEFAULT_BASE_URL: &str = "https://generativelanguage.googleapis.com";
pub const DEFAULT_API_VERSION: &str = "v1beta";
const VERTEX_API_VERSION: &str = "v1beta1";

/// The model for questions beside the conversation, such as a search: it is quick, and it can use the API's own tools.
pub const UTILITY_MODEL: &str = "flash";

const OS: &str = "linux";

/// How the key is sent to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Auth {
    /// In the API's own header field.
    #[default]
    Key,
    /// Also as a bearer token, for gateways.
    KeyAndBearer,
    /// Only as a bearer token, because it is a token and not a key.
    Bearer,
}

/// Which API is used. The host and the paths of the models depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Service {
    #[default]
    Gemini,
    /// Vertex AI by key, without a project.
    VertexExpress,
    Vertex {
        project: String,
        location: String,
    },
}

impl Service {
    fn base_url(&self) -> String {
        match self {
            Service::Gemini => DEFAULT_BASE_URL.into(),
            Service::VertexExpress => "https://aiplatform.googleapis.com".into(),
            Service::Vertex { location, .. } => match location.as_str() {
                "global" => "https://aiplatform.googleapis.com".into(),
                "us" | "eu" => format!("https://aiplatform.{location}.rep.googleapis.com"),
                region => format!("https://{region}-aiplatform.googleapis.com"),
            },
        }
    }

    /// The path of a model, between the API's version and the verb.
    fn model(&self, model: &str) -> String {
        let bare = model.strip_prefix("models/").unwrap_or(model);
        match self {
            Service::Gemini if model.starts_with("tunedModels/") => model.into(),
            Service::Gemini => format!("models/{bare}"),
            Service::VertexExpress => format!("publishers/google/models/{bare}"),
            Service::Vertex { project, location } => {
                format!("projects/{project}/locations/{location}/publishers/google/models/{bare}")
            }
        }
    }
}

/// Where the key of a request comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyOrigin {
    /// [`Endpoint::key`].
    Given,
    /// A file that is read before each request, because its token lasts an hour and is renewed by another program.
    File(PathBuf),
    /// Tokens that are fetched with the operator's Google credentials: those in a file, or else those of the machine.
    Google { file: Option<PathBuf>, metadata_host: Option<String> },
}

/// The API, as configured.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub service: Service,
    pub base_url: String,
    pub api_version: String,
    /// May be empty if a gateway adds its own key.
    pub key: Secret,
    pub key_origin: KeyOrigin,
    pub auth: Auth,
    /// Header fields the user wants to be sent, e.g. for a gateway.
    pub extra: Vec<(String, Secret)>,
}

impl Endpoint {
    /// The public API with a key.
    pub fn new(key: Secret) -> Endpoint {
        Endpoint::of(Service::Gemini, key, Auth::Key)
    }

    pub fn of(service: Service, key: Secret, auth: Auth) -> Endpoint {
        let api_version = match service {
            Service::Gemini => DEFAULT_API_VERSION,
            Service::VertexExpress | Service::Vertex { .. } => VERTEX_API_VERSION,
        };
        Endpoint {
            base_url: service.base_url(),
            api_version: api_version.into(),
            service,
            key,
            key_origin: KeyOrigin::Given,
            auth,
            extra: Vec::new(),
        }
    }

    /// The URL for a streamed answer of this model.
    pub fn url(&self, model: &str) -> Result<String, ModelError> {
        self.method(model, "streamGenerateContent?alt=sse")
    }

    /// The URL for an answer of this model in one piece.
    pub fn whole_url(&self, model: &str) -> Result<String, ModelError> {
        self.method(model, "generateContent")
    }

    /// The URL that counts tokens, which costs nothing.
    pub fn count_url(&self, model: &str) -> Result<String, ModelError> {
        self.method(model, "countTokens")
    }

    fn method(&self, model: &str, method: &str) -> Result<String, ModelError> {
        let model = self.service.model(resolve(model)?);
        let base = self.base_url.strip_suffix('/').unwrap_or(&self.base_url);
        let version = &self.api_version;
        Ok(format!("{base}/{version}/{model}:{method}"))
    }

    /// The header fields of a request. The user's own fields are the last ones and replace ours of the same name.
    pub fn headers(&self, model: &str) -> Vec<(String, Secret)> {
        let product = concat!("gemini-a2a/", env!("CARGO_PKG_VERSION"));
        let key = self.key.reveal();
        let mut headers = vec![
            ("content-type", "application/json".to_owned()),
            ("accept", "text/event-stream".to_owned()),
            ("user-agent", format!("{product}/{model} ({OS})")),
            ("x-goog-api-client", product.to_owned()),
        ];
        let as_key = ("x-goog-api-key", key.to_owned());
        let as_token = ("authorization", format!("Bearer {key}"));
        match self.auth {
            Auth::Key => headers.push(as_key),
            Auth::KeyAndBearer => headers.extend([as_key, as_token]),
            Auth::Bearer => headers.push(as_token),
        }
        let replaced = |name: &str| self.extra.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        headers
            .into_iter()
            .filter(|(name, _)| !replaced(name))
            .map(|(name, value)| (name.to_owned(), Secret::new(value)))
            .chain(self.extra.iter().cloned())
            .collect()
    }
}

/// Header fields as users write them: `Name: value, Other: value, with a comma`. A comma separates only before a name.
pub fn header_list(text: &str) -> Vec<(String, Secret)> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for piece in text.split(',') {
        let field = piece.split_once(':').filter(|(name, _)| is_token(name.trim()));
        match (field, fields.last_mut()) {
            (Some((name, value)), _) => fields.push((name.trim().into(), value.trim().into())),
            (None, Some((_, value))) => {
                value.push(',');
                value.push_str(piece.trim_end());
            }
            (None, None) => {}
        }
    }
    fields.into_iter().map(|(name, value)| (name, Secret::new(value))).collect()
}

fn is_token(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !name.is_empty() && name.bytes().all(is_plain)
}

/// The API's name of a model, for the name that a user wrote. It becomes a part of a URL, so a name that could change the URL otherwise is
/// refused.
pub fn resolve(model: &str) -> Result<&str, ModelError> {
    let resolved = match model {
        "auto" | "pro" | "auto-gemini-3" | "gemini-3-pro-preview" => "gemini-3.1-pro-preview",
        "flash" => "gemini-3.5-flash",
        "flash-lite" => "gemini-3.1-flash-lite",
        "auto-gemini-2.5" => "gemini-2.5-pro",
        name => name,
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-@".contains(&byte);
    if !resolved.split('/').all(|part| !part.is_empty() && !part.contains("..") && part.bytes().all(is_plain)) {
        return Err(fatal(format!(
            "{model:?} cannot be the name of a model. Choose one with --model, such as pro, flash or gemini-2.5-pro."
        )));
    }
    Ok(resolved)
}

/// The models in lists for people, if any model of Google may be used. People can type other names too.
pub const OFFERED: &[&str] = &[
    "auto",
    "gemini-3.1-pro-preview",
    "gemini-3-flash-preview",
    "gemini-3.5-flash",
    "gemini-3.1-flash-lite",
    "gemini-2.5-pro",
    "gemini-2.5-flash",
];

/// Whether clients may choose this model even if the operator has not named it: it is of one of Google's families, or a tuned model.
pub fn is_known_family(model: &str) -> bool {
    let name = model.strip_prefix("models/").unwrap_or(model);
    ["gemini-", "gemma-", "tunedModels/"].iter().any(|family| name.starts_with(family))
}

/// The body of a request.
pub fn body(
    think: &Think,
    tools: &[ToolSpec],
    context: &RequestContext,
    now_unix_ms: u64,
) -> Result<Vec<u8>, ModelError> {
    let family = Family::of(resolve(&think.model)?);
    let now = rfc3339(now_unix_ms);
    let date = now.split('T').next().unwrap_or_default();
    let history_context = HistoryContext {
        workspace: &think.workspace,
        directories: &context.directories,
        os: OS,
        date,
        tree: &context.tree,
        memory: &context.memory.project,
        servers: &context.servers,
        media: match family {
            Family::Gemini3 => ResultMedia::Inside,
            Family::Gemini25 | Family::Gemma4 | Family::Other => ResultMedia::Behind,
        },
    };
    let system = system::instruction(&InstructionInputs {
        mode: think.mode,
        family,
        repository: context.repository,
        memory: &context.memory.system,
        notes: &context.notes,
        skills: &context.skills,
    });
    let mut body = json!({
        "systemInstruction": {"role": "user", "parts": [{"text": system}]},
        "generationConfig": {"temperature": 1, "topP": 0.95, "topK": 64},
    });
    body["contents"] = history::contents(&think.history, &history_context).into();
    let declared = tools.iter().filter(|spec| think.may_declare(spec));
    let declarations: Vec<Value> = declared.map(declaration).collect();
    if !declarations.is_empty() {
        body["tools"] = json!([{"functionDeclarations": declarations}]);
    }
    if let Some(thinking) = thinking(family) {
        body["generationConfig"]["thinkingConfig"] = thinking;
    }
    fit(&mut body, think)?;
    Ok(json::bytes(&body))
}

/// Makes sure that a request fits into the model's context window. A request that is too long is an error if its conversation can be
/// summarised; otherwise old results are shortened.
fn fit(body: &mut Value, think: &Think) -> Result<(), ModelError> {
    let (tokens, most) = (window::tokens(body), window::of(&think.model));
    let too_long = |kind| {
        let message = format!(
            "The conversation is too long for {}: it has about {tokens} tokens, and the model reads {most}. Send less at once, name \
             parts of files instead of whole ones, or begin a new conversation.",
            think.model
        );
        Err(ModelError { kind, message })
    };
    if think.compact_at.is_some_and(|wanted| tokens > wanted.min(most)) && compact::can_compact(think) {
        return too_long(ModelErrorKind::TooLong);
    }
    let excess = tokens.saturating_sub(most);
    let shortened = body["contents"].as_array_mut().map_or(0, |turns| window::shorten_results(turns, excess));
    match think.compact_at {
        _ if shortened >= excess => Ok(()),
        Some(_) => too_long(ModelErrorKind::Fatal),
        // A request for a summary can be made again with less of the conversation.
        None => too_long(ModelErrorKind::TooLong),
    }
}

fn declaration(tool: &ToolSpec) -> Value {
    json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters})
}

/// Models whose requests have the same form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Gemini3,
    Gemini25,
    Gemma4,
    Other,
}

impl Family {
    fn of(model: &str) -> Family {
        let name = model.strip_prefix("models/").unwrap_or(model);
        let rest = |family: &str| name.strip_prefix(family);
        if rest("gemini-3").is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-'])) {
            Family::Gemini3
        } else if rest("gemini-2.5").is_some() {
            Family::Gemini25
        } else if rest("gemma-4").is_some_and(|rest| rest.is_empty() || rest.starts_with('-')) {
            Family::Gemma4
        } else {
            Family::Other
        }
    }
}

/// The fields that say how much to think. They differ between families, and each family refuses the fields of the others.
fn thinking(family: Family) -> Option<Value> {
    match family {
        Family::Gemini3 | Family::Gemma4 => Some(json!({"includeThoughts": true, "thinkingLevel": "HIGH"})),
        Family::Gemini25 => Some(json!({"includeThoughts": true, "thinkingBudget": 8192})),
        Family::Other => None,
    }
}
