//! The tools as clients see them. A tool-call object of the coder profile repeats its tool with the whole schema (2–3 kB) in every update,
//! so the JSON of each tool is built once here and copied.

use crate::a2a::encodings::object::object;
use crate::task::machine::state::CallState;
use crate::task::spec::{Kind, Question, ToolSpec};
use std::borrow::Cow;

pub struct Tools {
    tools: Vec<Tool>,
    pub offers: Offers,
}

/// The models and modes that clients may choose for a task, and the context windows of models.
#[derive(Clone, Debug)]
pub struct Offers {
    /// Empty if every model of a known family may be chosen.
    pub models: Vec<String>,
    /// Whether clients may choose the mode that runs all tools without approval.
    pub auto_execute: bool,
    /// The context window of a model in tokens; 0 if it is not known.
    pub window: fn(&str) -> u64,
}

impl Default for Offers {
    fn default() -> Offers {
        Offers { models: Vec::new(), auto_execute: false, window: |_| 0 }
    }
}

#[derive(Clone)]
pub(in crate::a2a) struct Tool {
    pub spec: ToolSpec,
    /// The `tool` member of a tool-call object, as JSON.
    pub shown: Vec<u8>,
}

impl Tools {
    pub fn new(specs: &[ToolSpec]) -> Tools {
        Tools { tools: specs.iter().map(Tool::of).collect(), offers: Offers::default() }
    }

    /// The same tools with other offers.
    pub fn offering(self, offers: Offers) -> Tools {
        Tools { offers, ..self }
    }

    /// All tools, or `only` those that the client allows.
    pub(in crate::a2a) fn available(&self, only: Option<&[String]>) -> impl Iterator<Item = &ToolSpec> {
        self.tools.iter().map(|tool| &tool.spec).filter(move |spec| spec.is_among(only))
    }

    /// The tool of a call. A tool of an MCP server is described by the question of the call.
    pub(in crate::a2a) fn of_call(&self, call: &CallState) -> Option<Cow<'_, Tool>> {
        let built_in = self.get(&call.request.name).map(Cow::Borrowed);
        built_in.or_else(|| match &call.plan.as_ref()?.question {
            Question::Mcp { display_name, description, schema, .. } if !self.tools.is_empty() => {
                let name = &call.request.name;
                let spec = ToolSpec::new(name, display_name, Kind::Other, description, schema.clone());
                Some(Cow::Owned(Tool::of(&spec)))
            }
            _ => None,
        })
    }

    /// The built-in tool with this name. None: the name is unknown, for example because the model invented it.
    pub(in crate::a2a) fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.spec.names().any(|own| own == name))
    }
}

impl Tool {
    fn of(spec: &ToolSpec) -> Tool {
        let shown = object(|o| {
            o.member("name", &spec.name).member("displayName", &spec.display_name);
            o.member("description", &spec.description).member("kind", spec.kind.word());
            o.member("isOutputMarkdown", &spec.output_is_markdown).member("canUpdateOutput", &spec.has_live_output);
            o.object("schema", |o| {
                o.member("name", &spec.name).member("description", &spec.description);
                o.member("parametersJsonSchema", &spec.parameters);
            });
            o.member("parameterSchema", &spec.parameters);
        });
        Tool { spec: spec.clone(), shown }
    }
}

#[cfg(test)]
mod tests {
    use crate::a2a::sample;
    use serde_json::Value;

    #[test]
    fn a_tool_is_shown_with_its_schema_twice() {
        let tools = sample::tools();
        let shown = &tools.get("write_file").unwrap().shown;
        assert_eq!(serde_json::from_slice::<Value>(shown).unwrap(), sample::write_file_shown());
        assert!(tools.get("no_such_tool").is_none());
    }

    #[test]
    fn a_task_lists_only_its_allowed_tools() {
        let tools = sample::tools();
        let names = |only| tools.available(only).map(|spec| spec.name.as_str()).collect::<Vec<_>>();
        let only = ["run_shell_command".to_owned(), "unknown".to_owned()];
        assert_eq!(names(Some(&only)), ["run_shell_command"]);
        assert!(names(Some(&[])).is_empty());
        assert_eq!(names(None)[0], "write_file");
    }
}
