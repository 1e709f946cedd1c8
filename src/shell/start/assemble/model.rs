//! The back-end for model requests, from the plan.

use crate::config::Models;
use crate::core::Choose;
use crate::core::operation::metrics::labels::Provider;
use crate::limits::Limits;
use crate::model::backend::ModelBackend;
use crate::model::gemini::Service;
use crate::model::script::{DEMO, Script};
use crate::shell::start::embed::{Gemini, Model, OpenError};
use crate::shell::workers::client::Client;
use crate::shell::workers::client::responses::Recorder;
use crate::tool::Ask;
use std::sync::Arc;
use ureq::tls::TlsConfig;

/// The model, or the script that replaces it.
pub(super) struct Backend {
    pub(super) model: Arc<dyn ModelBackend>,
    pub(super) ask: Option<Arc<dyn Ask>>,
    pub(super) for_core: ForCore,
}

/// The facts about the model that the core needs.
pub(super) struct ForCore {
    pub(super) script: Option<Arc<Script>>,
    pub(super) choose: Choose,
    /// The models that people are offered.
    pub(super) names: Vec<String>,
}

impl Backend {
    /// A back-end of which clients may choose a model.
    fn of_api(model: Arc<impl ModelBackend + Ask + 'static>, models: Models) -> Backend {
        let names = models.offered();
        let choose = Box::new(move |wish: Option<&str>| models.choose(wish));
        Backend { model: model.clone(), ask: Some(model), for_core: ForCore { script: None, choose, names } }
    }

    /// A back-end with this one model, whatever model a client asks for.
    fn named(name: &str, model: Arc<dyn ModelBackend>, script: Option<Arc<Script>>) -> Backend {
        let name = name.to_owned();
        let names = vec![name.clone()];
        let choose = Box::new(move |_: Option<&str>| Ok(name.clone()));
        Backend { model, ask: None, for_core: ForCore { script, choose, names } }
    }
}

#[inline(never)]
pub(super) fn backend(model: Model, tls: TlsConfig, limits: &Limits) -> Result<Backend, OpenError> {
    let scripted = |name, script: Arc<Script>| Backend::named(name, script.clone(), Some(script));
    Ok(match model {
        Model::Gemini(gemini) => {
            let Gemini { endpoint, models, proxy, record } = *gemini;
            let mut client = Client::new(endpoint, tls, proxy.as_deref(), limits.clone()).map_err(OpenError::Plan)?;
            if let Some(file) = record {
                client = client.recording(Recorder::open(&file).map_err(OpenError::Plan)?);
            }
            Backend::of_api(Arc::new(client), models)
        }
        Model::Recorded { models, responses } => Backend::of_api(responses, models),
        Model::Script(script) => scripted("script", script),
        Model::Demo => scripted("demo", Arc::new(Script::parse(DEMO).expect("the demo is a script"))),
        Model::Own { name, backend } => Backend::named(&name, backend, None),
    })
}

/// The provider of the plan's model, as metrics name it.
pub(super) fn provider(model: &Model) -> Provider {
    match model {
        Model::Gemini(gemini) => match gemini.endpoint.service {
            Service::Gemini => Provider::Gemini,
            Service::VertexExpress | Service::Vertex { .. } => Provider::Vertex,
        },
        Model::Demo | Model::Script(_) | Model::Recorded { .. } | Model::Own { .. } => Provider::Other,
    }
}
