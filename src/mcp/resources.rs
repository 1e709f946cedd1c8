//! Resources that a prompt mentions or that the model reads, by URI.

use crate::limits::{PATTERN_BYTES, URL_BYTES};
use crate::mcp::catalog::Catalog;
use regex_lite::{RegexBuilder, escape};

/// Parses a mention `@server:uri`, given the text after the `@`. Returns the longest matching server name, and the URI up to the next white
/// space. `None` if the text mentions a file.
pub fn mention<'a>(text: &'a str, servers: impl IntoIterator<Item = &'a str>) -> Option<(&'a str, &'a str)> {
    let fits = |server: &&str| text.strip_prefix(*server).is_some_and(|rest| rest.starts_with(':'));
    let server = servers.into_iter().filter(fits).max_by_key(|server| server.len())?;
    let uri = text[server.len() + 1..].split(char::is_whitespace).next().filter(|uri| !uri.is_empty())?;
    Some((server, uri))
}

/// Whether a server offers this URI: it lists the URI or a template that the URI matches.
pub fn is_offered(catalog: &Catalog, uri: &str) -> bool {
    catalog.resources.iter().any(|resource| resource.uri == uri)
        || catalog.templates.iter().any(|template| fits(&template.uri_template, uri))
}

/// Whether a URI matches a template: `{name}` matches one path segment, other expressions such as `{+name}` match any text.
fn fits(template: &str, uri: &str) -> bool {
    if template.len() > URL_BYTES || uri.len() > URL_BYTES {
        return false;
    }
    let (mut pattern, mut rest) = ("^".to_owned(), template);
    while let Some((literal, (expression, after))) =
        rest.split_once('{').and_then(|(literal, after)| Some((literal, after.split_once('}')?)))
    {
        pattern.push_str(&escape(literal));
        let is_name = expression.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
        pattern.push_str(if is_name { "[^/?#]+" } else { ".*" });
        rest = after;
    }
    pattern.push_str(&escape(rest));
    pattern.push('$');
    let compiled = RegexBuilder::new(&pattern).size_limit(PATTERN_BYTES).build();
    compiled.is_ok_and(|pattern| pattern.is_match(uri))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::catalog::List;
    use serde_json::json;

    #[test]
    fn mentions_name_the_longest_server() {
        let servers = ["a", "a.b", "ab"];
        for (text, expected) in [
            ("a:file:///x and more", Some(("a", "file:///x"))),
            ("a.b:x:y", Some(("a.b", "x:y"))),
            ("ab:x\ny", Some(("ab", "x"))),
            ("a: x", None),
            ("a/b.txt", None),
            ("c:x", None),
        ] {
            assert_eq!(mention(text, servers), expected, "{text}");
        }
    }

    #[test]
    fn check_47_only_uris_that_are_offered_are_read() {
        let mut catalog = Catalog::default();
        catalog.add(List::Resources, &json!({"uri": "file:///a.txt", "name": "a"})).expect("a resource");
        for template in ["demo://text/{id}", "db://{table}/rows{?limit}", "tree://{+path}", "odd://{open"] {
            catalog.add(List::Templates, &json!({"uriTemplate": template})).expect("a template");
        }
        for (uri, expected) in [
            ("file:///a.txt", true),
            ("file:///b.txt", false),
            ("demo://text/5", true),
            ("demo://text/", false),
            ("demo://text/5/6", false),
            ("xdemo://text/5", false),
            ("db://users/rows?limit=5", true),
            ("db://users/rows", true),
            ("tree://a/b/c", true),
            ("odd://{open", true),
            ("odd://x", false),
        ] {
            assert_eq!(is_offered(&catalog, uri), expected, "{uri}");
        }
    }
}
