//! References to environment variables in settings: `$NAME`, `${NAME}` and `${NAME:-default}`.

use regex_lite::{Captures, Regex};
use std::sync::LazyLock;

/// A reference to a variable.
pub struct Variable<'a> {
    pub name: &'a str,
    pub default: Option<&'a str>,
    /// The whole reference as it is written, with the dollar sign.
    pub written: &'a str,
}

impl Variable<'_> {
    /// Its value, or its default if it is unset or empty.
    pub fn value(&self, env: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        let value = env(self.name).filter(|value| self.default.is_none() || !value.is_empty());
        value.or_else(|| self.default.map(str::to_owned))
    }
}

/// Replaces every reference by the result of `value`.
pub fn replace(text: &str, value: &mut dyn FnMut(&Variable<'_>) -> String) -> String {
    static VARIABLE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?::-([^}]*))?\})").expect("the expression is valid")
    });
    let value = |found: &Captures| {
        let name = found.get(1).or(found.get(2)).map_or("", |name| name.as_str());
        let default = found.get(3).map(|default| default.as_str());
        value(&Variable { name, default, written: found.get(0).map_or("", |written| written.as_str()) })
    };
    VARIABLE.replace_all(text, value).into_owned()
}
