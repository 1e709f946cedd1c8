//! Functions that make the rows of the table.

use super::{By, Kind, Row};
use crate::config::settings::Settings;
use crate::model::gemini;

/// An option that only the operator may set. `names` are as in [`Row::names`].
pub(super) const fn operator(names: &'static str, help: &'static str) -> Row {
    Row { names, by: By::Operator, kind: Kind::Variable, default: "", help, is_credential: false }
}

/// An option that a trusted workspace may set too.
pub(super) const fn workspace(names: &'static str, help: &'static str) -> Row {
    Row { by: By::Workspace, ..operator(names, help) }
}

impl Row {
    pub(super) const fn default(self, default: &'static str) -> Row {
        Row { default, ..self }
    }

    pub(super) const fn takes(self, kind: Kind) -> Row {
        Row { kind, ..self }
    }

    pub(super) const fn credential(self) -> Row {
        Row { is_credential: true, ..self }
    }
}

pub(super) fn put<T>(field: &mut Option<T>, value: Option<T>) -> Option<()> {
    value.map(|value| *field = Some(value))
}

pub(super) fn add(field: &mut Vec<String>, texts: Vec<String>) {
    for text in texts {
        if !field.contains(&text) {
            field.push(text);
        }
    }
}

/// The name of a model in the API.
pub(super) fn model(name: &str) -> Option<String> {
    gemini::resolve(name).ok().map(str::to_owned)
}

pub(super) fn header(settings: &mut Settings, name: &str, value: &str) -> Option<()> {
    if !value.chars().all(|c| c.is_ascii_graphic() || c == ' ') {
        return None;
    }
    settings.vertex_headers.retain(|(known, _)| known != name);
    settings.vertex_headers.push((name.into(), value.into()));
    Some(())
}
