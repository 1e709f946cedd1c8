//! Elicitation: questions of a server to the user, as a form with a few fields or as a web page to visit. Parses them and converts them into
//! questions of `ask_user`; [`crate::task::form`] checks the answers.

use crate::limits::mcp::{FORM_FIELDS, FORM_OPTIONS, FORM_TEXT_BYTES, PROPERTY_TEXT_BYTES};
use crate::mcp::text::{clean, clean_line, sounds_secret};
use crate::mcp::transport::url::Url;
use crate::task::form::{Field, FieldKind, FieldOption, Inquired, Reply, shown};
use crate::task::spec::{Inquiry, InquiryKind, Question};
use serde_json::{Value, json};

#[derive(Clone, Debug, PartialEq)]
pub enum Elicitation {
    Form {
        message: String,
        fields: Vec<Field>,
    },
    /// A web page that the user visits. This program never visits it.
    Page {
        message: String,
        url: Url,
        id: String,
    },
    /// Asks whether the user has visited the pages that a call needs.
    ConfirmVisit,
}

/// The result of the server's request.
pub fn result(reply: &Reply, elicitation: &Elicitation) -> Value {
    match (reply, elicitation) {
        (Reply::Accept(values), Elicitation::Form { .. }) => json!({"action": "accept", "content": values.0}),
        (reply, _) => json!({"action": reply.action().word()}),
    }
}

impl Elicitation {
    /// Parses the parameters of a request. The error is why the request is declined.
    pub fn read(params: &Value) -> Result<Elicitation, String> {
        let text = |key: &str| params.get(key).and_then(Value::as_str).unwrap_or_default();
        let message = clean(text("message"), FORM_TEXT_BYTES);
        if text("mode") == "url" {
            let url = Url::parse(text("url")).map_err(|why| format!("its url {why}"))?;
            if !url.is_https() && !url.is_loopback() || url.has_user() {
                return Err(format!("{} is no https page", url.shown()));
            }
            return Ok(Elicitation::Page { message, url, id: text("elicitationId").to_owned() });
        }
        let schema = params.get("requestedSchema").unwrap_or(&Value::Null);
        let properties = schema.get("properties").and_then(Value::as_object).ok_or("its form has no fields")?;
        if properties.len() > FORM_FIELDS {
            return Err(format!("its form has more than {FORM_FIELDS} fields"));
        }
        let required: Vec<&str> =
            schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let fields = properties.iter().map(|(name, schema)| field(name, schema, required.contains(&name.as_str())));
        Ok(Elicitation::Form { message, fields: fields.collect::<Result<_, _>>()? })
    }

    /// The question for clients.
    pub fn inquired(&self, nr: u32, server: &str) -> Inquired {
        let (message, fields) = match self {
            Elicitation::Form { message, fields } => (message.as_str(), fields.clone()),
            Elicitation::Page { message, .. } => (message.as_str(), Vec::new()),
            Elicitation::ConfirmVisit => ("the call goes on when you have finished on the page", Vec::new()),
        };
        let questions = match self {
            Elicitation::Form { fields, .. } if !fields.is_empty() => fields.iter().map(field_question).collect(),
            Elicitation::Form { .. } => vec![yes_or_no("Agree", "Do you agree?".into())],
            Elicitation::Page { url, .. } => vec![yes_or_no("Visit a page", visit_question(url))],
            Elicitation::ConfirmVisit => vec![yes_or_no("Finished", "Have you finished on the page?".into())],
        };
        let question = Question::AskUser { title: format!("{server} asks: {message}"), questions };
        Inquired { nr, question, fields, server: server.to_owned() }
    }
}

fn yes_or_no(header: &str, question: String) -> Inquiry {
    Inquiry {
        question,
        header: header.into(),
        kind: InquiryKind::YesNo,
        options: Vec::new(),
        multi_select: false,
        placeholder: None,
    }
}

/// The question for a field, with a warning if it asks for a secret.
fn field_question(field: &Field) -> Inquiry {
    let mut inquiry = field.inquiry();
    if sounds_secret(&field.name) || sounds_secret(&field.title) {
        inquiry.question.push_str("\nWarning: this asks for a secret. Servers should not ask for one in a form.");
    }
    inquiry
}

/// The question whether the user wants to visit a page.
fn visit_question(url: &Url) -> String {
    let host = url.host_and_port().0;
    let is_encoded = host.split('.').any(|label| label.starts_with("xn--"));
    let warning = if is_encoded { "\nWarning: the host has letters that may look like others." } else { "" };
    format!("Visit this page in your browser, if you trust {host}: {}{warning}", url.whole().reveal())
}

/// Parses a field of a form.
fn field(name: &str, schema: &Value, required: bool) -> Result<Field, String> {
    let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
    let number = |key: &str| schema.get(key).and_then(Value::as_f64);
    let count = |key: &str| schema.get(key).and_then(Value::as_u64);
    let kind = match (text("type"), options(schema)?) {
        ("boolean", _) => FieldKind::Boolean,
        ("string" | "", Some(options)) => FieldKind::Choice(options),
        ("array", _) => {
            let options = options(schema.get("items").unwrap_or(&Value::Null))?;
            let options = options.ok_or_else(|| format!("the field {name} is a list without options"))?;
            let (least, most) = (count("minItems").unwrap_or(0), count("maxItems").unwrap_or(u64::MAX));
            FieldKind::Several { options, least, most }
        }
        ("string", None) => FieldKind::Text {
            least: count("minLength").unwrap_or(0),
            most: count("maxLength").unwrap_or(u64::MAX),
            format: text("format").into(),
            pattern: text("pattern").into(),
        },
        (kind @ ("number" | "integer"), _) => {
            FieldKind::Number { integer: kind == "integer", least: number("minimum"), most: number("maximum") }
        }
        _ => return Err(format!("the field {name} is not of a simple type")),
    };
    let title = clean_line(text("title"), PROPERTY_TEXT_BYTES);
    Ok(Field {
        name: name.to_owned(),
        title: if title.is_empty() { clean_line(name, PROPERTY_TEXT_BYTES) } else { title },
        description: clean(text("description"), PROPERTY_TEXT_BYTES),
        required,
        default: schema.get("default").cloned().unwrap_or_default(),
        kind,
    })
}

/// The options of a field: `enum` with or without `enumNames`, or alternatives with a `const` and a `title`.
fn options(schema: &Value) -> Result<Option<Vec<FieldOption>>, String> {
    let list = |key: &str| schema.get(key).and_then(Value::as_array);
    let named = |value: &Value, label: Option<&Value>| FieldOption {
        label: clean_line(&label.map_or_else(|| shown(value), shown), PROPERTY_TEXT_BYTES),
        value: value.clone(),
    };
    let found: Vec<FieldOption> = if let Some(values) = list("enum") {
        let labels = list("enumNames").map(Vec::as_slice).unwrap_or_default();
        values.iter().enumerate().map(|(n, value)| named(value, labels.get(n))).collect()
    } else if let Some(alternatives) = list("oneOf").or(list("anyOf")) {
        let constants = alternatives.iter().filter_map(|one| Some(named(one.get("const")?, one.get("title"))));
        constants.collect()
    } else {
        return Ok(None);
    };
    match found.len() {
        0 => Err("a field has no options".into()),
        1..=FORM_OPTIONS => Ok(Some(found)),
        _ => Err(format!("a field has more than {FORM_OPTIONS} options")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::form::Values;
    use crate::task::spec::Answers;
    use serde_json::Map;

    fn form(properties: Value, required: &[&str]) -> Elicitation {
        let params = json!({"message": "Tell\u{200b} me", "requestedSchema": {"type": "object", "properties": properties, "required": required}});
        Elicitation::read(&params).expect("a form")
    }

    fn inquired(elicitation: &Elicitation) -> (String, Vec<Inquiry>) {
        match elicitation.inquired(1, "srv").question {
            Question::AskUser { title, questions } => (title, questions),
            other => panic!("{other:?}"),
        }
    }

    fn accepted(elicitation: &Elicitation, given: &Answers) -> Result<Value, String> {
        let reply = elicitation.inquired(1, "srv").accept(given).map_err(|wrong| wrong.field)?;
        Ok(result(&reply, elicitation))
    }

    fn answers(pairs: &[(&str, &str)]) -> Answers {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn check_61_a_form_with_all_kinds_of_fields_gives_typed_values() {
        let form = form(
            json!({
                "a_flag": {"type": "boolean", "title": "Flag"},
                "b_choice": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red", "Green"]},
                "c_several": {"type": "array", "minItems": 1, "items": {"anyOf": [{"const": "x", "title": "The X"}, {"const": "y", "title": "Y, or not"}]}},
                "d_count": {"type": "integer", "minimum": 1, "maximum": 9, "default": 5},
                "e_text": {"type": "string", "format": "email", "description": "Where?"},
            }),
            &["a_flag", "b_choice", "c_several"],
        );
        let (title, inquiries) = inquired(&form);
        assert_eq!(title, "srv asks: Tell me");
        let kinds: Vec<InquiryKind> = inquiries.iter().map(|inquiry| inquiry.kind).collect();
        assert_eq!(
            kinds,
            [InquiryKind::YesNo, InquiryKind::Choice, InquiryKind::Choice, InquiryKind::Text, InquiryKind::Text]
        );
        assert_eq!(
            inquiries[1].options.iter().map(|option| option.label.as_str()).collect::<Vec<_>>(),
            ["Red", "Green"]
        );
        assert!(inquiries[2].multi_select);
        assert_eq!(inquiries[3].placeholder.as_deref(), Some("5"));
        assert_eq!(inquiries[4].question, "Where? (optional)");
        let given = answers(&[("0", "Yes"), ("1", "green"), ("2", "The X, y"), ("d_count", "7"), ("4", "a@b")]);
        let content = json!({"a_flag": true, "b_choice": "g", "c_several": ["x", "y"], "d_count": 7, "e_text": "a@b"});
        assert_eq!(accepted(&form, &given), Ok(json!({"action": "accept", "content": content})));
        let least = answers(&[("a_flag", "no"), ("b_choice", "r"), ("c_several", "Y, or not")]);
        let content = json!({"a_flag": false, "b_choice": "r", "c_several": ["y"], "d_count": 5});
        assert_eq!(accepted(&form, &least), Ok(json!({"action": "accept", "content": content})));
        for (field, wrong) in [
            ("a_flag", "maybe"),
            ("a_flag", " "),
            ("b_choice", "blue"),
            ("c_several", "x, z"),
            ("d_count", "ten"),
            ("d_count", "10"),
            ("d_count", "1.5"),
            ("e_text", "nobody"),
        ] {
            let mut given = least.clone();
            given.insert(field.into(), wrong.into());
            assert_eq!(accepted(&form, &given), Err(field.to_owned()), "{wrong}");
        }
    }

    #[test]
    fn texts_and_numbers_are_checked_roughly() {
        for (schema, right, wrong) in [
            (json!({"type": "string", "minLength": 2, "maxLength": 3}), "éé", "éééé"),
            (json!({"type": "string", "pattern": "^a+$"}), "aa", "ab"),
            (json!({"type": "string", "format": "uri"}), "mailto:x", "x"),
            (json!({"type": "string", "format": "date"}), "2026-02-28", "2026-02-30"),
            (json!({"type": "string", "format": "date-time"}), "2026-02-28T10:00:00Z", "2026-02-28"),
            (json!({"type": "number", "maximum": 2}), "1.5", "2.5"),
            (json!({"type": "number"}), "-3e2", "\"3\""),
            (json!({"type": "array", "maxItems": 1, "items": {"enum": ["a", "b"]}}), "[\"a\"]", "a,b"),
        ] {
            let form = form(json!({"f": schema}), &["f"]);
            assert!(accepted(&form, &answers(&[("f", right)])).is_ok(), "{schema} {right}");
            assert!(accepted(&form, &answers(&[("f", wrong)])).is_err(), "{schema} {wrong}");
        }
        let uncompiled = form(json!({"f": {"type": "string", "pattern": "(?=x)"}}), &[]);
        assert!(accepted(&uncompiled, &answers(&[("f", "y")])).is_ok(), "the server judges it");
    }

    #[test]
    fn forms_that_are_too_large_or_not_flat_are_declined() {
        let read = |properties: Value| {
            Elicitation::read(&json!({"message": "m", "requestedSchema": {"properties": properties}}))
        };
        let fields =
            |count: usize| (0..count).map(|n| (format!("f{n}"), json!({"type": "string"}))).collect::<Map<_, _>>();
        assert!(read(fields(FORM_FIELDS).into()).is_ok());
        assert!(read(fields(FORM_FIELDS + 1).into()).is_err());
        let options = |count: usize| json!({"f": {"type": "string", "enum": (0..count).map(|n| n.to_string()).collect::<Vec<_>>()}});
        assert!(read(options(FORM_OPTIONS)).is_ok());
        assert!(read(options(FORM_OPTIONS + 1)).is_err() && read(options(0)).is_err());
        for wrong in [json!({"f": {"type": "object"}}), json!({"f": {"type": "array"}}), json!({"f": 5}), json!(5)] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
        let title = |bytes: usize| {
            let params = json!({"message": "x".repeat(bytes), "requestedSchema": {"properties": {}}});
            inquired(&Elicitation::read(&params).expect("a form")).0.len() - "srv asks: ".len()
        };
        assert_eq!((title(FORM_TEXT_BYTES), title(FORM_TEXT_BYTES + 1)), (FORM_TEXT_BYTES, FORM_TEXT_BYTES));
    }

    #[test]
    fn check_62_only_the_names_of_fields_are_for_the_log() {
        let form = form(json!({"b": {"type": "string"}, "a": {"type": "boolean"}}), &[]).inquired(1, "srv");
        let reply = form.accept(&answers(&[("b", "hidden"), ("a", "yes")])).expect("it fits");
        assert_eq!(reply.fields(), ["a", "b"]);
        assert!(!format!("{reply:?}").contains("hidden"), "{reply:?}");
    }

    #[test]
    fn lines_of_text_are_answers_by_their_order_or_by_the_names_of_fields() {
        let form = form(json!({"a": {"type": "integer"}, "b": {"type": "string"}}), &["a"]).inquired(1, "srv");
        assert_eq!(form.typed("7\n-"), Some(answers(&[("0", "7"), ("1", "")])));
        assert_eq!(form.typed("B: x: y\n\na:7"), Some(answers(&[("a", "7"), ("b", "x: y")])));
        assert_eq!(form.typed("b: x"), Some(answers(&[("b", "x")])));
        for other in ["", "7", "c: 1", "1\n2\n3"] {
            assert_eq!(form.typed(other), None, "{other}");
        }
    }

    #[test]
    fn check_63_fields_that_ask_for_secrets_are_warned_about() {
        for (name, title, is_secret) in [
            ("password", "", true),
            ("x", "Your API key", true),
            ("x", "The PIN", true),
            ("access_token", "", true),
            ("otp", "", true),
            ("shipping", "Opinion", false),
            ("name", "", false),
        ] {
            let form = form(json!({name: {"type": "string", "title": title}}), &[]);
            assert_eq!(inquired(&form).1[0].question.contains("Warning: "), is_secret, "{name} {title}");
        }
    }

    #[test]
    fn check_64_pages_are_https_or_on_this_machine() {
        let read =
            |url: &str| Elicitation::read(&json!({"mode": "url", "message": "m", "url": url, "elicitationId": "e"}));
        for (url, is_shown) in [
            ("https://example.org/a?b=c", true),
            ("http://127.0.0.1:8080/", true),
            ("http://localhost/", true),
            ("http://example.org/", false),
            ("ftp://example.org/", false),
            ("https://user@example.org/", false),
            ("https://exämple.org/", false),
            ("", false),
        ] {
            assert_eq!(read(url).is_ok(), is_shown, "{url}");
        }
        let page = read("https://xn--exmple-cua.org/a?b=c").expect("a page");
        let question = &inquired(&page).1[0].question;
        assert!(
            question.contains("trust xn--exmple-cua.org: https://xn--exmple-cua.org/a?b=c\nWarning: "),
            "{question}"
        );
        assert_eq!(accepted(&page, &Answers::new()), Ok(json!({"action": "accept"})));
        assert_eq!(accepted(&page, &answers(&[("0", "no")])), Ok(json!({"action": "decline"})));
        assert_eq!(result(&Reply::Accept(Values::default()), &page), json!({"action": "accept"}));
    }
}
