//! A parser for the XML in responses of S3: elements, text, the five named and all numeric character references. It refuses everything else
//! (document types, comments, CDATA, mixed content), because no store sends it.

use crate::limits::bucket::XML_DEPTH;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Element {
    pub name: String,
    /// Empty if there are children.
    pub text: String,
    children: Vec<Element>,
}

impl Element {
    /// The children of this name, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The text of the first child of this name.
    pub fn text_of(&self, name: &str) -> Option<&str> {
        self.children.iter().find(|child| child.name == name).map(|child| child.text.as_str())
    }
}

/// Parses a document and returns its root. `None` if it is not well-formed or has something that this parser does not support.
pub fn parse(document: &str) -> Option<Element> {
    let mut rest = document.trim_start_matches('\u{feff}').trim_start();
    if let Some(declaration) = rest.strip_prefix("<?xml") {
        rest = declaration.split_once("?>")?.1.trim_start();
    }
    let mut rest = rest.strip_prefix('<')?;
    let root = element(&mut rest, 1)?;
    rest.trim().is_empty().then_some(root)
}

/// Parses an element whose `<` has been read.
fn element(rest: &mut &str, depth: usize) -> Option<Element> {
    if depth > XML_DEPTH {
        return None;
    }
    let (tag, after) = rest.split_once('>')?;
    *rest = after;
    let (tag, is_empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
    // Attributes are not needed: they only name the schema.
    let name = tag.split_ascii_whitespace().next().filter(|name| tag.starts_with(name) && is_name(name))?;
    if tag.contains('<') {
        return None;
    }
    let mut found = Element { name: name.into(), ..Element::default() };
    if is_empty {
        return Some(found);
    }
    loop {
        let (text, after) = rest.split_once('<')?;
        found.text.push_str(&unescaped(text)?);
        *rest = after;
        match rest.strip_prefix('/') {
            Some(end) => {
                let (name, after) = end.split_once('>')?;
                *rest = after;
                if name.trim_end() != found.name {
                    return None;
                }
                break;
            }
            None => found.children.push(element(rest, depth + 1)?),
        }
    }
    if !found.children.is_empty() {
        if !found.text.trim().is_empty() {
            return None;
        }
        found.text.clear();
    }
    Some(found)
}

fn is_name(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte);
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') && name.bytes().all(is_part)
}

/// Replaces the character references in a text.
fn unescaped(text: &str) -> Option<String> {
    let mut pieces = text.split('&');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (reference, after) = piece.split_once(';')?;
        out.push(match reference {
            "lt" => '<',
            "gt" => '>',
            "amp" => '&',
            "quot" => '"',
            "apos" => '\'',
            number => {
                let digits = number.strip_prefix('#')?;
                let value = match digits.strip_prefix('x') {
                    Some(digits) => u32::from_str_radix(digits, 16),
                    None => digits.parse(),
                };
                char::from_u32(value.ok()?)?
            }
        });
        out.push_str(after);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_text_and_references() {
        let text = "<?xml version=\"1.0\"?>\n<A xmlns=\"u\">\n <B>x &lt;&amp;&#65;&#x1F600;</B><C/><B></B ></A>\n";
        let root = parse(text).expect("well-formed");
        assert_eq!(root.name, "A");
        assert_eq!(root.text_of("B"), Some("x <&A😀"));
        assert_eq!(root.all("B").map(|b| b.text.as_str()).collect::<Vec<_>>(), ["x <&A😀", ""]);
        assert_eq!((root.text_of("C"), root.text_of("D")), (Some(""), None));
    }

    #[test]
    fn everything_else_is_refused() {
        let deep = "<a>".repeat(100) + &"</a>".repeat(100);
        for text in [
            "",
            "text",
            "<a>",
            "<a></b>",
            "<a/><b/>",
            "<a>&no;</a>",
            "<a>&#xD800;</a>",
            "<a>&lt</a>",
            "<a>text<b/></a>",
            "<!DOCTYPE a><a/>",
            "<a><!-- c --></a>",
            "<a><![CDATA[x]]></a>",
            "< a></a>",
            "<a <b></a>",
            "<a></a>text",
            "<!doctype html>\n<html lang=en>\n<title>500</title>\n",
            &deep,
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn no_cut_document_is_accepted() {
        let text = "<?xml version=\"1.0\"?><A><B>x&amp;y</B><C/></A>";
        for end in 0..text.len() {
            assert_eq!(parse(&text[..end]), None, "{end} bytes");
        }
    }
}
