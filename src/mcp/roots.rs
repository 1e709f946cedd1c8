//! Roots: the directories that a server may work in, for the response to `roots/list`.

use serde_json::{Value, json};
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    pub uri: String,
    pub name: String,
}

impl Root {
    /// The root of an absolute path.
    pub fn of(path: &Path) -> Root {
        let bytes = path.as_os_str().as_encoded_bytes().iter();
        let escaped: String = bytes
            .map(|byte| match byte {
                b'/' | b'-' | b'.' | b'_' | b'~' => (*byte as char).to_string(),
                byte if byte.is_ascii_alphanumeric() => (*byte as char).to_string(),
                byte => format!("%{byte:02X}"),
            })
            .collect();
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Root { uri: format!("file://{escaped}"), name }
    }
}

/// The result of `roots/list`.
pub fn result(roots: &[Root]) -> Value {
    let list: Vec<Value> = roots.iter().map(|root| json!({"uri": root.uri, "name": root.name})).collect();
    json!({ "roots": list })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_file_uris() {
        for (path, uri, name) in [
            ("/home/u/my work", "file:///home/u/my%20work", "my work"),
            ("/é#?%", "file:///%C3%A9%23%3F%25", "é#?%"),
            ("/", "file:///", "/"),
        ] {
            assert_eq!(Root::of(Path::new(path)), Root { uri: uri.into(), name: name.into() });
        }
        assert_eq!(result(&[Root::of(Path::new("/a"))]), json!({"roots": [{"uri": "file:///a", "name": "a"}]}));
    }
}
