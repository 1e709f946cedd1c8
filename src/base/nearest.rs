//! Suggestions for misspelt names.

/// The known name that a misspelt one most likely means: the first that it abbreviates, else the one with the fewest changed
/// letters, if they are few.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    if word.len() > 3
        && let Some(longer) = known.clone().find(|name| name.starts_with(word))
    {
        return Some(longer);
    }
    let most = match word.len() {
        ..=3 => 0,
        4..=6 => 1,
        _ => 2,
    };
    known.map(|name| (distance(word, name), name)).filter(|(changes, _)| *changes <= most).min().map(|(_, name)| name)
}

/// How many letters must be inserted, deleted or replaced to make one word the other (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.bytes().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abbreviations_and_misspellings_are_recognised() {
        let known = ["--workspace", "--model", "--max-attempts", "--push", "--push-allow-host"];
        for (word, meant) in [
            ("--work", Some("--workspace")),
            ("--worksapce", Some("--workspace")),
            ("--modle", Some("--model")),
            ("--modl", Some("--model")),
            ("--models", Some("--model")),
            ("--max_attempts", Some("--max-attempts")),
            ("--psh", Some("--push")),
            ("--wat", None),
            ("-x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known.into_iter()), meant, "{word}");
        }
    }
}
