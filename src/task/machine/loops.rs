//! Detects that the model repeats the same calls, or the same text. The only data that the state has for this purpose is a checksum per
//! answer with calls.

/// Occurrences of a cycle of calls from which on it counts as a repetition.
const ROUNDS: usize = 5;
/// The longest cycle that is detected.
const LONGEST: usize = 5;

/// A text counts as repeated if its last `PIECE` bytes occur `TIMES` times in its last `WINDOW` bytes, with an average distance of at most
/// `APART` bytes and at most `PERIODS` different distances. A refrain has greater distances than a loop.
const PIECE: usize = 50;
const TIMES: usize = 10;
pub const WINDOW: usize = 5_000;
const APART: usize = 250;
const PERIODS: usize = 5;

/// Whether the newest answers repeat a cycle of calls, given a checksum of the calls of each answer.
pub fn calls_repeat(checksums: &[u32]) -> bool {
    (1..=LONGEST).any(|cycle| {
        let Some(start) = checksums.len().checked_sub(cycle * ROUNDS) else {
            return false;
        };
        let newest = &checksums[start..];
        newest.iter().zip(&newest[cycle..]).all(|(before, after)| before == after)
    })
}

/// The marker that opens and closes a code block.
pub const FENCE: &str = "```";

/// Whether the end of the model's text repeats itself. `tail` has about its last [`WINDOW`] bytes and does not end in a code block. Tables
/// and lists often have similar lines, so only the prose after the last of them counts.
pub fn text_repeats(tail: &str) -> bool {
    let prose = prose(tail);
    let Some(start) = prose.len().checked_sub(PIECE) else {
        return false;
    };
    let piece = &prose.as_bytes()[start..];
    let places: Vec<usize> = (0..=start).filter(|at| prose.as_bytes()[*at..].starts_with(piece)).collect();
    if places.len() < TIMES {
        return false;
    }
    let newest = &places[places.len() - TIMES..];
    let mut gaps: Vec<usize> = newest.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let average = gaps.iter().sum::<usize>() / gaps.len();
    gaps.sort_unstable();
    gaps.dedup();
    average <= APART && gaps.len() <= PERIODS
}

/// The prose at the end, after the last line that is not prose.
fn prose(tail: &str) -> &str {
    let mut begin = 0;
    let mut at = 0;
    for line in tail.split_inclusive('\n') {
        at += line.len();
        if is_structure(line.trim()) {
            begin = at;
        }
    }
    &tail[begin..]
}

fn is_structure(line: &str) -> bool {
    let numbered = line.split_once('.').is_some_and(|(number, _)| {
        !number.is_empty() && number.len() < 4 && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    line.starts_with(FENCE)
        || line.starts_with(['#', '>', '|'])
        || ["- ", "* ", "+ "].iter().any(|bullet| line.starts_with(bullet))
        || (line.len() >= 3 && line.bytes().all(|byte| matches!(byte, b'-' | b'=' | b'*' | b'_')))
        || numbered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_of_up_to_five_calls_count_when_they_have_occurred_five_times() {
        for cycle in 1..=LONGEST as u32 {
            let marks: Vec<u32> = (0..cycle).cycle().take(cycle as usize * ROUNDS).collect();
            assert!(calls_repeat(&marks), "cycle of {cycle}");
            assert!(!calls_repeat(&marks[1..]), "one call short of five rounds of {cycle}");
            let mut broken = marks.clone();
            broken[0] = 99;
            assert!(!calls_repeat(&broken), "one call differs");
            let before: Vec<u32> = [7, 8, 9].into_iter().chain(marks).collect();
            assert!(calls_repeat(&before), "what was before does not matter");
        }
        let longer: Vec<u32> = (0..6).cycle().take(60).collect();
        assert!(!calls_repeat(&longer));
    }

    #[test]
    fn a_repeated_sentence_is_a_loop_and_ordinary_text_is_not() {
        let sentence = "I will now look at the file to understand what is going on. ";
        assert!(text_repeats(&sentence.repeat(12)));
        assert!(!text_repeats(&sentence.repeat(8)));
        let many: String = (0..200).map(|n| format!("Sentence {n} says a thing of its own. ")).collect();
        assert!(!text_repeats(&many));
        let spaced: String = (0..12)
            .map(|n| {
                let between: String = (0..40).map(|m| format!("word{n}x{m} ")).collect();
                format!("{between}{sentence}")
            })
            .collect();
        assert!(!text_repeats(&spaced), "a refrain is not a loop");
        assert!(!text_repeats("") && !text_repeats("é"));
    }

    #[test]
    fn tables_lists_and_text_before_them_may_repeat() {
        let line = "let value = compute_the_value_of_something(argument);\n";
        assert!(!text_repeats(&"| a cell with some words | another cell with words |\n".repeat(40)));
        assert!(!text_repeats(&"- the same point made once more in other circumstances\n".repeat(40)));
        let after = format!("```\n{}```\n", line.repeat(40));
        assert!(!text_repeats(&after));
        let again = "And then I will try the very same thing once more, as before. ".repeat(15);
        assert!(text_repeats(&format!("{after}{again}")));
    }
}
