//! A request to the Gemini API, as bytes: where it goes, what it is headed with and what is in it.
//!
//! Knows nothing of connections; `shell/workers/client.rs` sends what is made here. Models come as users name them and leave as the
//! API names them. The API answers a field that a model family does not know with an error, so what differs between families
//! is decided by the model's name, and a name of no known family gets nothing special.

use crate::base::clock::rfc3339;
use crate::base::json;
use crate::model::error::fatal;
use crate::model::history::{self, Scene};
use crate::model::memory::{self, Surroundings};
use crate::task::machine::job::{ModelError, Think};
use crate::task::spec::ToolSpec;
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use std::path::PathBuf;

pub const DEFAULT_BASE_URL: &str = "https://generativelanguage.googleapis.com";
pub const DEFAULT_API_VERSION: &str = "v1beta";
const VERTEX_API_VERSION: &str = "v1beta1";

/// The model for questions beside the conversation, such as a search: it is quick, and it can use the API's own tools.
pub const UTILITY_MODEL: &str = "flash";

/// What the model is told before every conversation.
pub const SYSTEM: &str = include_str!("system.md");

const OS: &str = if cfg!(target_os = "linux") {
    "linux"
} else if cfg!(target_os = "macos") {
    "macOS"
} else {
    "a Unix"
};

/// A value that is never printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(value: impl Into<String>) -> Secret {
        Secret(value.into())
    }

    /// The value itself, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The text without the secret in it.
    pub fn hide_in(&self, text: &str) -> String {
        if self.0.is_empty() { text.to_owned() } else { text.replace(&self.0, "…") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// How the key is shown to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Auth {
    /// In the API's own header field.
    #[default]
    Key,
    /// Also as a bearer token, for gateways.
    KeyAndBearer,
    /// As a bearer token alone: it is one, and no key.
    Bearer,
}

/// Which API is asked, and so where its models are found.
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

/// The API, as configured.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub service: Service,
    pub base_url: String,
    pub api_version: String,
    /// May be empty when a gateway adds its own.
    pub key: Secret,
    /// Where the key is read from before each request instead: tokens last an hour and are renewed by somebody else.
    pub key_file: Option<PathBuf>,
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
            key_file: None,
            auth,
            extra: Vec::new(),
        }
    }

    /// Where a streamed answer of this model is asked for.
    pub fn url(&self, model: &str) -> Result<String, ModelError> {
        self.method(model, "streamGenerateContent?alt=sse")
    }

    /// Where a whole answer of this model is asked for.
    pub fn whole_url(&self, model: &str) -> Result<String, ModelError> {
        self.method(model, "generateContent")
    }

    fn method(&self, model: &str, method: &str) -> Result<String, ModelError> {
        let model = self.service.model(resolve(model)?);
        let base = self.base_url.strip_suffix('/').unwrap_or(&self.base_url);
        let version = &self.api_version;
        Ok(format!("{base}/{version}/{model}:{method}"))
    }

    /// The header fields of a request, the user's own last; those replace ours of the same name.
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
            .map(|(name, value)| (name.to_owned(), Secret(value)))
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
    fields.into_iter().map(|(name, value)| (name, Secret(value))).collect()
}

fn is_token(name: &str) -> bool {
    let ok = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    !name.is_empty() && name.bytes().all(ok)
}

/// The API's name of a model, from one the user may write. The name goes into a URL, so what could change the URL is refused.
pub fn resolve(model: &str) -> Result<&str, ModelError> {
    let resolved = match model {
        "auto" | "pro" | "auto-gemini-3" | "gemini-3-pro-preview" => "gemini-3.1-pro-preview",
        "flash" => "gemini-3.5-flash",
        "flash-lite" => "gemini-3.1-flash-lite",
        "auto-gemini-2.5" => "gemini-2.5-pro",
        name => name,
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/@".contains(&byte);
    let bad = resolved.is_empty()
        || !resolved.bytes().all(plain)
        || resolved.contains("..")
        || resolved.contains("//")
        || resolved.starts_with('/')
        || resolved.ends_with('/');
    if bad {
        return Err(fatal(format!(
            "{model:?} cannot be the name of a model. Choose one with --model, such as pro, flash or gemini-2.5-pro."
        )));
    }
    Ok(resolved)
}

/// Whether a client may ask for this model without it being named by the operator: one of Google's families, or a model of
/// one's own.
pub fn is_known_family(model: &str) -> bool {
    let name = model.strip_prefix("models/").unwrap_or(model);
    ["gemini-", "gemma-", "tunedModels/"].iter().any(|family| name.starts_with(family))
}

/// The body of a request.
pub fn body(
    think: &Think,
    tools: &[ToolSpec],
    surroundings: &Surroundings,
    now_unix_ms: u64,
) -> Result<Vec<u8>, ModelError> {
    let now = rfc3339(now_unix_ms);
    let date = now.split('T').next().unwrap_or_default();
    let scene = Scene {
        workspace: &think.workspace,
        os: OS,
        date,
        tree: &surroundings.tree,
        memory: &surroundings.memory.project,
    };
    let system = memory::instruct(SYSTEM, &surroundings.memory.system);
    let wanted = tools.iter().filter(|spec| spec.is_among(think.tools.as_deref()));
    let declarations: Vec<Declaration> = wanted.map(Declaration::of).collect();
    let body = Body {
        contents: history::contents(&think.history, &scene),
        system_instruction: Instruction { role: "user", parts: [Text { text: &system }] },
        tools: (!declarations.is_empty()).then_some([Tools { function_declarations: declarations }]),
        generation_config: Generation {
            temperature: 1,
            top_p: 0.95,
            top_k: 64,
            thinking_config: Thinking::of(resolve(&think.model)?),
        },
    };
    Ok(json::bytes(&body))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    contents: Vec<Value>,
    system_instruction: Instruction<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<[Tools<'a>; 1]>,
    generation_config: Generation,
}

#[derive(Serialize)]
struct Instruction<'a> {
    role: &'a str,
    parts: [Text<'a>; 1],
}

#[derive(Serialize)]
struct Text<'a> {
    text: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    parameters_json_schema: &'a Value,
}

impl Declaration<'_> {
    fn of(tool: &ToolSpec) -> Declaration<'_> {
        Declaration { name: &tool.name, description: &tool.description, parameters_json_schema: &tool.parameters }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Generation {
    temperature: u8,
    top_p: f64,
    top_k: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<Thinking>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Thinking {
    include_thoughts: bool,
    #[serde(flatten)]
    effort: Effort,
}

/// Families are told how hard to think in different words, and refuse each other's.
#[derive(Serialize)]
enum Effort {
    #[serde(rename = "thinkingLevel")]
    Level(&'static str),
    #[serde(rename = "thinkingBudget")]
    Budget(u32),
}

impl Thinking {
    fn of(model: &str) -> Option<Thinking> {
        let name = model.strip_prefix("models/").unwrap_or(model);
        let rest = |family: &str| name.strip_prefix(family);
        let modern = rest("gemini-3").is_some_and(|r| r.is_empty() || r.starts_with(['.', '-']))
            || rest("gemma-4").is_some_and(|r| r.is_empty() || r.starts_with('-'));
        let effort = if modern {
            Effort::Level("HIGH")
        } else if rest("gemini-2.5").is_some() {
            Effort::Budget(8192)
        } else {
            return None;
        };
        Some(Thinking { include_thoughts: true, effort })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::spec::Kind;
    use serde_json::json;

    fn endpoint() -> Endpoint {
        Endpoint::new(Secret::new("k3y"))
    }

    fn think(model: &str) -> Think {
        Think {
            workspace: "/w".into(),
            model: model.into(),
            tools: None,
            given: 0,
            history: Vec::new(),
            prompt: "m".into(),
            prompt_text: String::new(),
            turn: 1,
            round: 0,
            attempt: 1,
        }
    }

    #[test]
    fn models_have_short_names_and_an_address() {
        let table = [
            ("pro", "models/gemini-3.1-pro-preview"),
            ("auto", "models/gemini-3.1-pro-preview"),
            ("gemini-3-pro-preview", "models/gemini-3.1-pro-preview"),
            ("flash", "models/gemini-3.5-flash"),
            ("flash-lite", "models/gemini-3.1-flash-lite"),
            ("gemini-2.5-flash", "models/gemini-2.5-flash"),
            ("models/gemini-2.5-pro", "models/gemini-2.5-pro"),
            ("tunedModels/mine", "tunedModels/mine"),
        ];
        for (model, path) in table {
            assert_eq!(
                endpoint().url(model),
                Ok(format!("https://generativelanguage.googleapis.com/v1beta/{path}:streamGenerateContent?alt=sse"))
            );
        }
        let mine = Endpoint { base_url: "http://127.0.0.1:9/gate/".into(), api_version: "v1".into(), ..endpoint() };
        assert_eq!(mine.url("m").as_deref(), Ok("http://127.0.0.1:9/gate/v1/models/m:streamGenerateContent?alt=sse"));
    }

    #[test]
    fn vertex_has_hosts_by_place_and_its_own_credentials() {
        let at = |location: &str| Service::Vertex { project: "p-1".into(), location: location.into() };
        let table = [
            (
                Service::VertexExpress,
                Auth::Key,
                "https://aiplatform.googleapis.com/v1beta1/publishers/google/models/gemini-2.5-pro",
                ("x-goog-api-key", "k3y"),
            ),
            (
                at("global"),
                Auth::Bearer,
                "https://aiplatform.googleapis.com/v1beta1/projects/p-1/locations/global/publishers/google/models/gemini-2.5-pro",
                ("authorization", "Bearer k3y"),
            ),
            (
                at("eu"),
                Auth::Bearer,
                "https://aiplatform.eu.rep.googleapis.com/v1beta1/projects/p-1/locations/eu/publishers/google/models/gemini-2.5-pro",
                ("authorization", "Bearer k3y"),
            ),
            (
                at("europe-west4"),
                Auth::Bearer,
                "https://europe-west4-aiplatform.googleapis.com/v1beta1/projects/p-1/locations/europe-west4/publishers/google/models/gemini-2.5-pro",
                ("authorization", "Bearer k3y"),
            ),
        ];
        for (service, auth, address, (name, value)) in table {
            let endpoint = Endpoint::of(service, Secret::new("k3y"), auth);
            for model in ["auto-gemini-2.5", "models/gemini-2.5-pro"] {
                assert_eq!(endpoint.url(model), Ok(format!("{address}:streamGenerateContent?alt=sse")));
            }
            let shown: Vec<(String, String)> = endpoint
                .headers("m")
                .into_iter()
                .filter(|(name, _)| name == "x-goog-api-key" || name == "authorization")
                .map(|(name, value)| (name, value.reveal().to_owned()))
                .collect();
            assert_eq!(shown, [(name.to_owned(), value.to_owned())]);
        }
    }

    #[test]
    fn a_name_that_could_change_the_address_is_refused() {
        for model in ["", "a..b", "a?b", "a&b", "a b", "a#b", "a%2e", "a\n", "/a", "a/", "a//b", "ä", "a:b"] {
            assert!(endpoint().url(model).is_err(), "{model:?}");
            assert!(body(&think(model), &[], &Surroundings::default(), 0).is_err(), "{model:?}");
        }
    }

    #[test]
    fn the_key_goes_into_its_header_and_nowhere_else() {
        let mut endpoint = endpoint();
        endpoint.auth = Auth::KeyAndBearer;
        endpoint.extra = header_list("X-Team: a, b, User-Agent: me/1, X-Empty:");
        let sent: Vec<(String, String)> =
            endpoint.headers("m").into_iter().map(|(name, value)| (name, value.reveal().to_owned())).collect();
        let expect = [
            ("content-type", "application/json"),
            ("accept", "text/event-stream"),
            ("x-goog-api-client", concat!("gemini-a2a/", env!("CARGO_PKG_VERSION"))),
            ("x-goog-api-key", "k3y"),
            ("authorization", "Bearer k3y"),
            ("X-Team", "a, b"),
            ("User-Agent", "me/1"),
            ("X-Empty", ""),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(sent, expect);
        assert!(!format!("{endpoint:?} {:?}", endpoint.headers("m")).contains("k3y"));
        assert_eq!(endpoint.key.hide_in("the key k3y is bad"), "the key … is bad");
        assert_eq!(Secret::default().hide_in("same"), "same");
    }

    #[test]
    fn the_body_whole() {
        let tool = ToolSpec::new("glob", "FindFiles", Kind::Search, "Finds files.", json!({"type": "object"}));
        let other = ToolSpec { name: "replace".into(), ..tool.clone() };
        let think = Think { tools: Some(vec!["glob".into(), "unknown".into()]), ..think("pro") };
        let bytes = body(&think, &[other, tool], &Surroundings::default(), 1_772_357_400_125).unwrap();
        let mut value: Value = serde_json::from_slice(&bytes).unwrap();
        let introduction = value["contents"].take();
        assert!(introduction[0]["parts"][0]["text"].as_str().unwrap().contains("Today is 2026-03-01."));
        assert_eq!(
            value,
            json!({
                "contents": null,
                "systemInstruction": {"role": "user", "parts": [{"text": SYSTEM}]},
                "tools": [{"functionDeclarations": [
                    {"name": "glob", "description": "Finds files.", "parametersJsonSchema": {"type": "object"}},
                ]}],
                "generationConfig": {
                    "temperature": 1, "topP": 0.95, "topK": 64,
                    "thinkingConfig": {"includeThoughts": true, "thinkingLevel": "HIGH"},
                },
            })
        );
    }

    #[test]
    fn what_the_user_wants_remembered_is_part_of_the_instruction() {
        let mut surroundings = Surroundings::default();
        surroundings.memory.system = "Use tabs.".into();
        surroundings.memory.project = "Run make.".into();
        surroundings.tree = "src/\n".into();
        let bytes = body(&think("pro"), &[], &surroundings, 0).unwrap();
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        let text = |value: &Value| value["parts"][0]["text"].as_str().unwrap().to_owned();
        let system = text(&value["systemInstruction"]);
        assert!(system.starts_with(SYSTEM) && system.contains("Use tabs."));
        let introduction = text(&value["contents"][0]);
        assert!(introduction.contains("src/\n") && introduction.contains("Run make."));
    }

    #[test]
    fn families_are_told_to_think_in_their_own_words() {
        let level = json!({"includeThoughts": true, "thinkingLevel": "HIGH"});
        let budget = json!({"includeThoughts": true, "thinkingBudget": 8192});
        let table = [
            ("auto", level.clone()),
            ("flash", level.clone()),
            ("gemini-3-flash-preview", level.clone()),
            ("models/gemini-3.1-pro-preview", level.clone()),
            ("gemma-4-31b-it", level),
            ("gemini-2.5-pro", budget.clone()),
            ("auto-gemini-2.5", budget),
            ("gemini-2.0-flash", Value::Null),
            ("gemini-30", Value::Null),
            ("mine", Value::Null),
        ];
        for (model, expected) in table {
            let bytes = body(&think(model), &[], &Surroundings::default(), 0).unwrap();
            let value: Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(value["generationConfig"]["thinkingConfig"], expected, "{model}");
            assert_eq!(value.get("tools"), None);
        }
    }
}
