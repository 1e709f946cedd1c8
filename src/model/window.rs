//! Estimates whether a request fits into the context window of its model, because the API counts tokens only after it has received the
//! whole request. Text is estimated by its characters, media by the tokens that the API counts for them.

use serde_json::Value;

/// The context window of a model, in tokens.
pub fn of(model: &str) -> u64 {
    let name = model.strip_prefix("models/").unwrap_or(model);
    if name.starts_with("gemma-") { 256_000 } else { 1_048_576 }
}

/// About how many tokens a value of a request takes.
pub fn tokens(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => tokens_of_text(text),
        Value::Array(list) => list.iter().map(tokens).sum(),
        Value::Object(members) => match (members.get("mimeType"), members.get("data")) {
            (Some(Value::String(mime)), Some(Value::String(data))) => tokens_of_media(mime, data.len() as u64 / 4 * 3),
            _ => members.iter().map(|(name, value)| tokens_of_text(name) + tokens(value)).sum(),
        },
    }
}

/// English text and code have about four characters per token; other scripts have about one.
fn tokens_of_text(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count() as u64;
    let others = text.chars().filter(|c| !c.is_ascii()).count() as u64;
    ascii.div_ceil(4) + others
}

fn tokens_of_media(mime: &str, bytes: u64) -> u64 {
    match mime.split('/').next() {
        Some("image") => 3_000,
        // A document of a hundred pages.
        Some("application") => 25_800,
        // 32 tokens for a second, which takes about 2 KB if it is well compressed.
        _ => bytes / 64,
    }
}

/// Characters of a shortened result that are kept: a part of its beginning, and more of its end.
const HEAD: usize = 400;
const TAIL: usize = 1_600;

/// Shortens results of calls, the oldest first, until the conversation takes `excess` tokens less. The newest results, which the model
/// has not seen, stay whole. Returns the number of tokens saved.
pub fn shorten_results(contents: &mut [Value], excess: u64) -> u64 {
    let mut saved = 0;
    let old = contents.len().saturating_sub(1);
    for part in contents[..old].iter_mut().filter_map(|turn| turn["parts"].as_array_mut()).flatten() {
        if saved >= excess {
            break;
        }
        if let Some(Value::String(output)) = part.pointer_mut("/functionResponse/response/output")
            && output.chars().count() > HEAD + TAIL
        {
            let before = tokens_of_text(output);
            let at = |n: usize| output.char_indices().nth(n).map_or(output.len(), |(at, _)| at);
            let (head, tail) = (at(HEAD), at(output.chars().count() - TAIL));
            *output = format!(
                "{}\n[This result was shortened, because the conversation is too long. Make the call again if you need it.]\n{}",
                &output[..head],
                &output[tail..]
            );
            saved += before - tokens_of_text(output).min(before);
        }
    }
    saved
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tokens_are_estimated_by_kind() {
        assert_eq!(tokens(&json!("12345678")), 2);
        assert_eq!(tokens(&json!("世界 ab")), 3);
        assert_eq!(tokens(&json!([{"text": "12345678"}, 1])), 1 + 2 + 1);
        let media = |mime: &str| json!({"mimeType": mime, "data": "x".repeat(1024)});
        assert_eq!(["image/png", "application/pdf", "audio/wav"].map(|mime| tokens(&media(mime))), [3_000, 25_800, 12]);
        assert_eq!((of("gemini-3.1-pro-preview"), of("models/gemma-4-31b-it")), (1_048_576, 256_000));
    }

    #[test]
    fn the_oldest_results_are_shortened_as_far_as_needed() {
        let long = "é".repeat(10) + &"x".repeat(8_000);
        let turn = |output: &str| json!({"parts": [{"functionResponse": {"response": {"output": output}}}]});
        let all = vec![turn(&long), turn("short"), json!({"parts": [{"text": long}]}), turn(&long), turn(&long)];
        let lengths = |excess: u64| {
            let mut contents = all.clone();
            let saved = shorten_results(&mut contents, excess);
            assert_eq!(saved >= excess, excess <= 2_900, "{excess}: {saved}");
            let before: u64 = all.iter().map(tokens).sum();
            assert_eq!(before - contents.iter().map(tokens).sum::<u64>(), saved);
            contents.iter().map(|turn| turn.to_string().contains("was shortened")).collect::<Vec<_>>()
        };
        assert_eq!(lengths(0), [false; 5]);
        assert_eq!(lengths(1), [true, false, false, false, false]);
        assert_eq!(lengths(2_900), [true, false, false, true, false]);
        assert_eq!(lengths(1_000_000), [true, false, false, true, false], "the newest stays");
    }
}
