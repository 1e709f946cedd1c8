//! The tools as clients see them, encoded once. A tool-call object of the coder profile repeats its tool with the whole
//! schema (2–3 kB) on every update; it is copied from here, never built again.

use crate::a2a::encodings::object::object;
use crate::task::spec::ToolSpec;
use serde_json::Value;
use std::collections::BTreeMap;

pub struct Tools {
    by_name: BTreeMap<String, Tool>,
    available: Vec<Offer>,
}

/// A tool in the `availableTools` of a task's metadata, as JSON.
struct Offer {
    spec: ToolSpec,
    whole: Vec<u8>,
    brief: Vec<u8>,
}

/// How much is shown of each tool.
#[derive(Clone, Copy)]
pub(in crate::a2a) enum Detail {
    Whole,
    /// Without its schema, for lists of many tasks.
    Brief,
}

pub(in crate::a2a) struct Tool {
    pub display_name: String,
    pub description: String,
    /// The `tool` member of a tool-call object.
    pub shown: Vec<u8>,
}

impl Tools {
    pub fn new(specs: &[ToolSpec]) -> Tools {
        let by_name = specs.iter().flat_map(|spec| spec.names().map(|name| (name.to_owned(), Tool::of(spec))));
        Tools { by_name: by_name.collect(), available: specs.iter().map(Offer::of).collect() }
    }

    /// The tools of a task as a JSON array: all of them, or `only` those that the client allows.
    pub(in crate::a2a) fn write_available(&self, out: &mut Vec<u8>, only: Option<&[String]>, told: Detail) {
        let offers = self.available.iter();
        let wanted = offers.filter(|offer| offer.spec.is_among(only));
        let texts: Vec<&[u8]> = wanted.map(|offer| offer.told(told)).collect();
        out.push(b'[');
        out.extend(texts.join(&b','));
        out.push(b']');
    }

    /// None for an unknown name: models invent some.
    pub(in crate::a2a) fn get(&self, name: &str) -> Option<&Tool> {
        self.by_name.get(name)
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
        Tool { display_name: spec.display_name.clone(), description: spec.description.clone(), shown }
    }
}

impl Offer {
    fn of(spec: &ToolSpec) -> Offer {
        let available = |schema: Option<&Value>| {
            object(|o| {
                o.member("name", &spec.name).member("description", &spec.description);
                o.optional("parameterSchema", schema);
            })
        };
        Offer { spec: spec.clone(), whole: available(Some(&spec.parameters)), brief: available(None) }
    }

    fn told(&self, told: Detail) -> &[u8] {
        match told {
            Detail::Whole => &self.whole,
            Detail::Brief => &self.brief,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::a2a::sample;
    use serde_json::json;

    #[test]
    fn a_tool_is_shown_with_its_schema_twice() {
        let tools = sample::tools();
        let shown = &tools.get("write_file").unwrap().shown;
        assert_eq!(serde_json::from_slice::<Value>(shown).unwrap(), sample::write_file_shown());
        assert!(tools.get("no_such_tool").is_none());
    }

    fn available(only: Option<&[String]>, told: Detail) -> Value {
        let mut out = Vec::new();
        sample::tools().write_available(&mut out, only, told);
        serde_json::from_slice(&out).expect("JSON")
    }

    #[test]
    fn lists_of_tasks_leave_the_schemas_out() {
        assert_eq!(available(None, Detail::Brief)[0], json!({"name": "write_file", "description": "Writes a file."}));
        assert_eq!(
            available(None, Detail::Whole)[0]["parameterSchema"],
            json!({"type": "object", "required": ["file_path"]})
        );
    }

    #[test]
    fn a_task_lists_only_its_allowed_tools() {
        let shell = json!([{"name": "run_shell_command", "description": "Runs a command."}]);
        let only = ["run_shell_command".to_owned(), "unknown".to_owned()];
        assert_eq!(available(Some(&only), Detail::Brief), shell);
        assert_eq!(available(Some(&[]), Detail::Whole), json!([]));
    }
}
