//! The catalog of a server: its tools, prompts, resources and resource templates. Each item is parsed on its own, so that an invalid item does
//! not affect the others.

use crate::limits::mcp::{LIST_PROMPTS, LIST_RESOURCES, LIST_TOOLS};
use serde::Deserialize;
use serde_json::{Value, json};

/// A list that a server can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum List {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl List {
    pub const ALL: [List; 4] = [List::Tools, List::Prompts, List::Resources, List::Templates];

    pub fn method(self) -> &'static str {
        match self {
            List::Tools => "tools/list",
            List::Prompts => "prompts/list",
            List::Resources => "resources/list",
            List::Templates => "resources/templates/list",
        }
    }

    /// The member of a page that contains the items.
    pub fn member(self) -> &'static str {
        match self {
            List::Tools => "tools",
            List::Prompts => "prompts",
            List::Resources => "resources",
            List::Templates => "resourceTemplates",
        }
    }

    /// The capability that a server declares if it has this list.
    pub fn capability(self) -> &'static str {
        match self {
            List::Tools => "tools",
            List::Prompts => "prompts",
            List::Resources | List::Templates => "resources",
        }
    }

    pub fn most_items(self) -> usize {
        match self {
            List::Tools => LIST_TOOLS,
            List::Prompts => LIST_PROMPTS,
            List::Resources | List::Templates => LIST_RESOURCES,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    pub name: String,
    #[serde(default)]
    pub title: Option<String>,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default)]
    pub input_schema: Value,
    #[serde(default)]
    pub output_schema: Option<Value>,
    #[serde(default)]
    pub annotations: Value,
    #[serde(default)]
    pub execution: Value,
}

impl Tool {
    /// The name to show to people.
    pub fn title(&self) -> &str {
        let annotated = self.annotations.get("title").and_then(Value::as_str);
        self.title.as_deref().or(annotated).filter(|title| !title.trim().is_empty()).unwrap_or(&self.name)
    }

    /// Whether the server says that the tool changes nothing. This is only a hint and never allows a call without approval.
    pub fn is_read_only(&self) -> bool {
        self.annotations.get("readOnlyHint") == Some(&Value::Bool(true))
    }

    /// Why the tool cannot be used, if it cannot.
    pub fn unusable(&self) -> Option<&'static str> {
        let needs_tasks = self.execution.get("taskSupport").is_some_and(|support| support == "required");
        needs_tasks.then_some("it runs only as a task of the server, which is not supported")
    }

    /// Identifies the tool in approvals: a tool that has changed needs approval again.
    pub fn fingerprint(&self, config_hash: &str) -> String {
        let parts = json!([config_hash, self.name, self.description, self.input_schema, self.annotations]);
        crate::task::log::blob::sha256(parts.to_string().as_bytes())
    }
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Prompt {
    pub name: String,
    #[serde(default)]
    pub title: Option<String>,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default)]
    pub arguments: Option<Vec<PromptArgument>>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct PromptArgument {
    pub name: String,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default)]
    pub required: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    pub uri: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub title: Option<String>,
    #[serde(default)]
    pub description: Option<String>,
    #[serde(default)]
    pub mime_type: Option<String>,
    #[serde(default)]
    pub size: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Template {
    pub uri_template: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub description: Option<String>,
}

/// Why an item was not added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skipped {
    Bad(String),
    /// An earlier item has the same name.
    Repeated,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalog {
    pub tools: Vec<Tool>,
    pub prompts: Vec<Prompt>,
    pub resources: Vec<Resource>,
    pub templates: Vec<Template>,
}

impl Catalog {
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    pub fn prompt(&self, name: &str) -> Option<&Prompt> {
        self.prompts.iter().find(|prompt| prompt.name == name)
    }

    pub fn len(&self, list: List) -> usize {
        match list {
            List::Tools => self.tools.len(),
            List::Prompts => self.prompts.len(),
            List::Resources => self.resources.len(),
            List::Templates => self.templates.len(),
        }
    }

    /// Parses an item of a page and adds it.
    pub fn add(&mut self, list: List, item: &Value) -> Result<(), Skipped> {
        match list {
            List::Tools => push(&mut self.tools, item, |tool| &tool.name),
            List::Prompts => push(&mut self.prompts, item, |prompt| &prompt.name),
            List::Resources => push(&mut self.resources, item, |resource| &resource.uri),
            List::Templates => push(&mut self.templates, item, |template| &template.uri_template),
        }
    }

    /// Replaces one list by that of another catalog. Returns whether the list changed.
    pub fn replace(&mut self, list: List, by: &mut Catalog) -> bool {
        match list {
            List::Tools => swapped(&mut self.tools, &mut by.tools),
            List::Prompts => swapped(&mut self.prompts, &mut by.prompts),
            List::Resources => swapped(&mut self.resources, &mut by.resources),
            List::Templates => swapped(&mut self.templates, &mut by.templates),
        }
    }
}

fn push<'a, T: Deserialize<'a>>(items: &mut Vec<T>, item: &'a Value, key: fn(&T) -> &String) -> Result<(), Skipped> {
    let read = T::deserialize(item).map_err(|error| Skipped::Bad(error.to_string()))?;
    if key(&read).is_empty() {
        return Err(Skipped::Bad("its name is empty".into()));
    }
    if items.iter().any(|known| key(known) == key(&read)) {
        return Err(Skipped::Repeated);
    }
    items.push(read);
    Ok(())
}

fn swapped<T: PartialEq>(old: &mut Vec<T>, new: &mut Vec<T>) -> bool {
    let changed = old != new;
    std::mem::swap(old, new);
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_item_does_not_affect_the_others_and_the_first_of_a_name_is_used() {
        let mut found = Catalog::default();
        let mut add = |item: Value| found.add(List::Tools, &item);
        assert_eq!(add(json!({"name": "a", "description": "1"})), Ok(()));
        assert_eq!(add(json!({"name": "a", "description": "2"})), Err(Skipped::Repeated));
        for bad in [json!(5), json!({}), json!({"name": 5}), json!({"name": ""}), json!({"name": "b", "title": 5})] {
            assert!(matches!(add(bad.clone()), Err(Skipped::Bad(_))), "{bad}");
        }
        assert_eq!(found.tool("a").and_then(|tool| tool.description.as_deref()), Some("1"));
        assert_eq!(found.add(List::Resources, &json!({"uri": "file:///a", "size": 5})), Ok(()));
        assert_eq!(found.add(List::Templates, &json!({"uriTemplate": "file:///{p}"})), Ok(()));
        assert_eq!(found.add(List::Prompts, &json!({"name": "p", "arguments": null})), Ok(()));
        assert_eq!(List::ALL.map(|list| found.len(list)), [1, 1, 1, 1]);
    }

    fn tool(value: Value) -> Tool {
        Tool::deserialize(value).expect("a tool")
    }

    #[test]
    fn check_50_tools_that_need_tasks_are_unusable() {
        assert!(tool(json!({"name": "a", "execution": {"taskSupport": "required"}})).unusable().is_some());
        assert_eq!(tool(json!({"name": "a", "execution": {"taskSupport": "optional"}})).unusable(), None);
        assert_eq!(tool(json!({"name": "a"})).unusable(), None);
    }

    #[test]
    fn check_53_a_tool_that_changes_has_another_fingerprint() {
        let same = tool(json!({"name": "a", "description": "d", "inputSchema": {"b": 1, "a": 2}, "annotations": {}}));
        let fingerprint = same.fingerprint("h");
        assert_eq!(tool(json!({"name": "a", "description": "d", "inputSchema": {"a": 2, "b": 1}, "annotations": {}, "outputSchema": {}})).fingerprint("h"), fingerprint);
        for other in [
            Tool { description: Some("e".into()), ..same.clone() },
            Tool { name: "b".into(), ..same.clone() },
            Tool { input_schema: json!({}), ..same.clone() },
            Tool { annotations: json!({"readOnlyHint": true}), ..same.clone() },
        ] {
            assert_ne!(other.fingerprint("h"), fingerprint, "{other:?}");
        }
        assert_ne!(same.fingerprint("i"), fingerprint);
    }

    #[test]
    fn titles_and_hints() {
        let titled = tool(json!({"name": "a", "annotations": {"title": "A!", "readOnlyHint": true}}));
        assert_eq!((titled.title(), titled.is_read_only()), ("A!", true));
        let plain = tool(json!({"name": "a", "title": " ", "annotations": {"readOnlyHint": "true"}}));
        assert_eq!((plain.title(), plain.is_read_only()), ("a", false));
    }
}
