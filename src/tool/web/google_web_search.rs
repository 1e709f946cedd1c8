//! `google_web_search`: searches the web with Google and returns an answer with its sources. The model API carries out the search.

use crate::task::machine::job::{Run, RunEnd};
use crate::task::spec::{CallError, Ending, ErrorKind, Kind, Plan, ToolSpec};
use crate::tool::files::text::{untrusted, without_middle};
use crate::tool::web::grounding;
use crate::tool::{Ctx, Tool, invalid, object, text_arg};
use serde_json::{Value, json};

pub struct WebSearch;

impl Tool for WebSearch {
    fn spec(&self) -> ToolSpec {
        let spec = ToolSpec::new(
            "google_web_search",
            "GoogleSearch",
            Kind::Search,
            "Searches the web with Google and answers from what it finds, with sources.",
            object(&["query"], json!({"query": {"type": "string", "description": "What to find, in words."}})),
        );
        ToolSpec { output_is_markdown: true, ..spec }
    }

    fn prepare(&self, args: &Value, _ctx: &Ctx) -> Result<Plan, CallError> {
        let title = format!("Searching the web for: {}", query(args)?);
        Ok(Plan::info(title.clone(), "Confirm Web Search", title))
    }

    fn run(&self, run: &Run, ctx: &Ctx, _: &mut dyn FnMut(String)) -> Result<RunEnd, CallError> {
        search(&run.args, ctx).map(RunEnd::Ended)
    }
}

fn query(args: &Value) -> Result<&str, CallError> {
    let query = text_arg(args, "query")?.trim();
    if query.is_empty() {
        return Err(invalid("query must not be empty"));
    }
    Ok(query)
}

fn search(args: &Value, ctx: &Ctx) -> Result<Ending, CallError> {
    let query = query(args)?;
    let cannot = |text: String| ErrorKind::WebSearchFailed.error(text);
    let model = ctx.ask.ok_or_else(|| {
        cannot("Searching the web needs a model, and a script answers here. Set GEMINI_API_KEY to use one.".into())
    })?;
    let body = json!({
        "contents": [{"role": "user", "parts": [{"text": query}]}],
        "tools": [{"googleSearch": {}}],
    });
    let response = match model.ask(&body, ctx.cancel) {
        Ok(response) => response,
        Err(_) if ctx.cancel.is_set() => return Ok(Ending::cancelled("The search was cancelled.")),
        Err(error) => return Err(cannot(format!("The search failed: {}", error.message))),
    };
    if let Some(reason) = grounding::block_reason(&response) {
        return Err(cannot(format!("The search was blocked: {reason}.")));
    }
    let found = grounding::answer(&response);
    let found = found.unwrap_or_else(|| "Nothing was found.".to_owned());
    let found = without_middle(&found, ctx.limits.result_chars).into_owned();
    Ok(Ending::text(format!("Web search for \"{query}\":\n{}", untrusted(&found)), found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::task::spec::Display;
    use crate::tool::tests::{Scratch, failed, ran, run_of};
    use crate::tool::web::tests::{FakeModel, with_model};

    fn run(model: &FakeModel) -> RunEnd {
        let scratch = Scratch::new();
        let run = run_of(&scratch, "google_web_search", json!({"query": " who? "}));
        with_model(&scratch, &Limits::default(), model, |ctx| ran(WebSearch, &run, ctx))
    }

    #[test]
    fn the_answer_comes_with_its_sources() {
        let model = FakeModel::new(vec![Ok(json!({"candidates": [{
        "content": {"parts": [{"text": "Me."}]},
        "groundingMetadata": {
            "groundingChunks": [{"web": {"title": "T", "uri": "https://t.test"}}],
            "groundingSupports": [{"segment": {"endIndex": 3}, "groundingChunkIndices": [0]}],
        }}]}))]);
        let text = "Me.[1]\n\nSources:\n[1] T (https://t.test)";
        assert_eq!(
            run(&model),
            RunEnd::Ended(Ending::Success {
                output: format!("Web search for \"who?\":\n<untrusted_context>\n{text}\n</untrusted_context>").into(),
                display: Display::Text { text: text.into() },
            })
        );
        assert_eq!(
            model.asked(),
            [json!({"contents": [{"role": "user", "parts": [{"text": "who?"}]}], "tools": [{"googleSearch": {}}]})]
        );
    }

    #[test]
    fn failed_and_empty_searches() {
        let error = |text: &str| failed(ErrorKind::WebSearchFailed.error(text));
        assert_eq!(run(&FakeModel::new(vec![Err("the API is busy.")])), error("The search failed: the API is busy."));
        let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}});
        assert_eq!(run(&FakeModel::new(vec![Ok(blocked)])), error("The search was blocked: SAFETY."));
        let RunEnd::Ended(Ending::Success { display, .. }) = run(&FakeModel::new(vec![Ok(json!({"candidates": []}))]))
        else {
            panic!("an empty answer is an answer");
        };
        let text = "Nothing was found.".into();
        assert_eq!(display, Display::Text { text });
    }

    #[test]
    fn without_a_model_there_is_no_search() {
        let scratch = Scratch::new();
        let run = run_of(&scratch, "google_web_search", json!({"query": "x"}));
        let end = crate::tool::tests::with_ctx(&scratch, &Limits::default(), |ctx| ran(WebSearch, &run, ctx));
        assert_eq!(
            end,
            failed(
                ErrorKind::WebSearchFailed.error(
                    "Searching the web needs a model, and a script answers here. Set GEMINI_API_KEY to use one."
                )
            )
        );
        let empty = crate::tool::tests::with_ctx(&scratch, &Limits::default(), |ctx| {
            WebSearch.prepare(&json!({"query": " "}), ctx)
        });
        assert_eq!(empty, Err(invalid("query must not be empty")));
    }
}
