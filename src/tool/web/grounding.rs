//! Answers of the model with their sources: a number after each passage that a source supports, and a list of the sources.
//!
//! The API gives positions in bytes of UTF-8. A position may be inside a character or outside of the text, so each is checked.

use serde_json::Value;

/// The text of the model's answer with its sources; None if it is empty.
pub fn answer(response: &Value) -> Option<String> {
    let candidate = response.pointer("/candidates/0")?;
    let parts = candidate.pointer("/content/parts")?.as_array()?;
    let mut text = String::new();
    // The position of each part in the text, from which segments are counted.
    let mut starts = Vec::new();
    for part in parts {
        starts.push(text.len());
        let is_thought = part.get("thought") == Some(&Value::Bool(true));
        if let (Some(passage), false) = (part.get("text").and_then(Value::as_str), is_thought) {
            text.push_str(passage);
        }
    }
    if text.trim().is_empty() {
        return None;
    }
    let grounding = &candidate["groundingMetadata"];
    let sources: Vec<String> = list(&grounding["groundingChunks"])
        .enumerate()
        .map(|(n, chunk)| {
            let word = |name: &str| chunk["web"][name].as_str().unwrap_or_default();
            format!("[{}] {} ({})", n + 1, word("title"), word("uri"))
        })
        .collect();
    mark(&mut text, &starts, grounding, sources.len());
    if !sources.is_empty() {
        text.push_str("\n\nSources:\n");
        text.push_str(&sources.join("\n"));
    }
    Some(text)
}

/// Why the model did not answer, if the response says so.
pub fn block_reason(response: &Value) -> Option<&str> {
    response.pointer("/promptFeedback/blockReason")?.as_str()
}

/// Inserts the numbers of the sources after the passages that they support. It starts at the end, so that earlier positions stay valid.
fn mark(text: &mut String, starts: &[usize], grounding: &Value, sources: usize) {
    let mut marks: Vec<(usize, String)> = list(&grounding["groundingSupports"])
        .filter_map(|support| {
            let segment = &support["segment"];
            let number = |name: &str| segment[name].as_u64().and_then(|n| usize::try_from(n).ok());
            let start = starts.get(number("partIndex").unwrap_or(0))?;
            let mut at = start.saturating_add(number("endIndex")?).min(text.len());
            while !text.is_char_boundary(at) {
                at += 1;
            }
            let mut numbers: Vec<u64> = list(&support["groundingChunkIndices"])
                .filter_map(Value::as_u64)
                .filter(|index| *index < sources as u64)
                .collect();
            numbers.sort_unstable();
            numbers.dedup();
            let signs: String = numbers.iter().map(|n| format!("[{}]", n + 1)).collect();
            (!signs.is_empty()).then_some((at, signs))
        })
        .collect();
    marks.sort_unstable();
    marks.dedup();
    for (at, signs) in marks.iter().rev() {
        text.insert_str(*at, signs);
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn response(parts: Value, grounding: Value) -> Value {
        json!({"candidates": [{"content": {"parts": parts}, "groundingMetadata": grounding}]})
    }

    fn support(end: u64, indices: &[u64]) -> Value {
        json!({"segment": {"endIndex": end}, "groundingChunkIndices": indices})
    }

    fn source(name: &str) -> Value {
        json!({"web": {"title": name, "uri": format!("https://{name}.test/")}})
    }

    #[test]
    fn source_numbers_follow_the_passages_that_they_support() {
        let text = "Grüße. Ende.";
        let said = response(
            json!([{"text": "thinking", "thought": true}, {"text": text}]),
            json!({"groundingChunks": [source("a"), source("b")], "groundingSupports": [
                {"segment": {"partIndex": 1, "endIndex": 14}, "groundingChunkIndices": [1]},
                {"segment": {"partIndex": 1, "endIndex": 8}, "groundingChunkIndices": [1, 0, 1, 7]},
            ]}),
        );
        assert_eq!(
            answer(&said).unwrap(),
            "Grüße.[1][2] Ende.[2]\n\nSources:\n[1] a (https://a.test/)\n[2] b (https://b.test/)"
        );
    }

    #[test]
    fn invalid_positions_and_numbers_are_ignored_or_moved() {
        let grounding = json!({"groundingChunks": [source("a")], "groundingSupports": [
            support(3, &[0]), support(3, &[0]), support(999, &[0]), support(1, &[5]), support(2, &[]),
            {"segment": {"partIndex": 9, "endIndex": 1}, "groundingChunkIndices": [0]},
            {"segment": {}, "groundingChunkIndices": [0]}, 7]});
        // The third byte is in the middle of the second letter.
        assert_eq!(
            answer(&response(json!([{"text": "äöü"}]), grounding)).unwrap(),
            "äö[1]ü[1]\n\nSources:\n[1] a (https://a.test/)"
        );
    }

    #[test]
    fn answers_without_sources_and_without_words() {
        let plain = |text: &str| answer(&response(json!([{"text": text}]), json!(null)));
        assert_eq!(plain("a"), Some("a".into()));
        assert_eq!(plain(" \n"), None);
        assert_eq!(answer(&json!({"candidates": []})), None);
        assert_eq!(answer(&json!([])), None);
        let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}});
        assert_eq!((answer(&blocked), block_reason(&blocked)), (None, Some("SAFETY")));
    }
}
