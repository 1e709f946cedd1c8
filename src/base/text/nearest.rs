//! How similar texts are, and suggestions for misspelt names.

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
    let changes = |name: &str| edit_distance(word.as_bytes(), name.as_bytes(), most);
    known.filter_map(|name| Some((changes(name)?, name))).min().map(|(_, name)| name)
}

/// The number of insertions, deletions and replacements between two texts (Levenshtein); None if it is more than `most`.
pub fn edit_distance<T: PartialEq>(a: &[T], b: &[T], most: usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > most {
        return None;
    }
    let too_many = most + 1;
    let mut row: Vec<usize> = (0..=b.len()).map(|j| j.min(too_many)).collect();
    for i in 1..=a.len() {
        let from = i.saturating_sub(most).max(1);
        let to = (i + most).min(b.len());
        let mut diagonal = row[from - 1];
        row[from - 1] = if from == 1 { i.min(too_many) } else { too_many };
        let mut least = row[from - 1];
        for j in from..=to {
            let replaced = diagonal + usize::from(a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = replaced.min(diagonal + 1).min(row[j - 1] + 1).min(too_many);
            least = least.min(row[j]);
        }
        if least > most {
            return None;
        }
    }
    row.last().copied().filter(|distance| *distance <= most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::test_random::Random;

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

    #[test]
    fn edit_distances_agree_with_the_plain_algorithm() {
        fn plain(a: &[char], b: &[char]) -> usize {
            let mut row: Vec<usize> = (0..=b.len()).collect();
            for (i, from) in a.iter().enumerate() {
                let mut diagonal = row[0];
                row[0] = i + 1;
                for (j, to) in b.iter().enumerate() {
                    let replaced = diagonal + usize::from(from != to);
                    diagonal = row[j + 1];
                    row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
                }
            }
            row[b.len()]
        }
        let mut random = Random::new(11);
        for _ in 0..2_000 {
            let mut text = || -> Vec<char> {
                let length = random.below(12);
                (0..length).map(|_| char::from(b'a' + random.below(3) as u8)).collect()
            };
            let (a, b) = (text(), text());
            let expected = plain(&a, &b);
            for most in 0..14 {
                let found = edit_distance(&a, &b, most);
                assert_eq!(found, (expected <= most).then_some(expected), "{a:?} {b:?}");
            }
        }
    }
}
