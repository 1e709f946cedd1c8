//! The difference between two texts, line by line, as a unified diff.
//!
//! Myers' algorithm in linear space: find the middle of a shortest edit path, split there, and continue with both halves. Its cost grows
//! with the size of the difference, and both texts are untrusted, so the steps are limited: then the parts that are not split yet are
//! shown as replaced, which is still a correct diff. The parts are on a list and not on the call stack, which hostile texts could
//! exhaust.

use std::collections::HashMap;
use std::fmt::Write;
use std::ops::Range;

/// Lines shown around a change in a unified diff.
const CONTEXT: usize = 3;

/// Two texts and their differences.
pub struct Comparison<'a> {
    old: Vec<&'a str>,
    new: Vec<&'a str>,
    changes: Vec<Change>,
}

/// Ranges of lines of both texts, one of which may be empty. As a result: the old lines were replaced by the new ones. During the search:
/// the lines are still to be compared.
struct Change {
    old: Range<usize>,
    new: Range<usize>,
}

impl<'a> Comparison<'a> {
    /// Compares two texts in at most `steps` steps.
    pub fn new(old: &'a str, new: &'a str, steps: usize) -> Comparison<'a> {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let new: Vec<&str> = new.split_inclusive('\n').collect();
        // Equal lines get the same number, so that comparing them is one instruction.
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        let mut number = |line: &&'a str| {
            let next = u32::try_from(numbers.len()).expect("fewer than 2^32 lines fit in memory");
            *numbers.entry(line).or_insert(next)
        };
        let a: Vec<u32> = old.iter().map(&mut number).collect();
        let b: Vec<u32> = new.iter().map(&mut number).collect();
        let changes = Search { a: &a, b: &b, steps, reached: Default::default() }.changes();
        Comparison { old, new, changes }
    }

    pub fn added(&self) -> usize {
        self.changes.iter().map(|change| change.new.len()).sum()
    }

    pub fn removed(&self) -> usize {
        self.changes.iter().map(|change| change.old.len()).sum()
    }

    /// The whole diff with its header.
    pub fn unified(&self, name: &str) -> String {
        let rule = "=".repeat(67);
        let mut text = format!("Index: {name}\n{rule}\n--- {name}\tCurrent\n+++ {name}\tProposed\n");
        text.push_str(&self.hunks(CONTEXT));
        text
    }

    /// Only the hunks, with `context` lines around each change. Changes whose contexts touch share a hunk.
    pub fn hunks(&self, context: usize) -> String {
        let mut text = String::new();
        let mut rest = self.changes.as_slice();
        while let Some(first) = rest.first() {
            let together =
                rest.windows(2).take_while(|pair| pair[1].old.start - pair[0].old.end <= 2 * context).count() + 1;
            let (hunk, after) = rest.split_at(together);
            let last = &hunk[together - 1];
            let lines_before = first.old.start.min(context);
            let lines_after = (self.old.len() - last.old.end).min(context);
            self.hunk(
                &mut text,
                hunk,
                first.old.start - lines_before..last.old.end + lines_after,
                first.new.start - lines_before..last.new.end + lines_after,
            );
            rest = after;
        }
        text
    }

    /// The removed and added lines alone: equal for the same change at different places.
    pub fn changed_lines(&self) -> String {
        let mut text = String::new();
        for change in &self.changes {
            lines(&mut text, '-', &self.old[change.old.clone()]);
            lines(&mut text, '+', &self.new[change.new.clone()]);
        }
        text
    }

    fn hunk(&self, text: &mut String, hunk: &[Change], old: Range<usize>, new: Range<usize>) {
        let _ = writeln!(text, "@@ -{},{} +{},{} @@", first_line(&old), old.len(), first_line(&new), new.len());
        let mut at = old.start;
        for change in hunk {
            lines(text, ' ', &self.old[at..change.old.start]);
            lines(text, '-', &self.old[change.old.clone()]);
            lines(text, '+', &self.new[change.new.clone()]);
            at = change.old.end;
        }
        lines(text, ' ', &self.old[at..old.end]);
    }
}

/// The first line of a range, counted from 1. An empty range has the number of the line before it.
fn first_line(range: &Range<usize>) -> usize {
    range.start + usize::from(!range.is_empty())
}

fn lines(text: &mut String, sign: char, lines: &[&str]) {
    for line in lines {
        text.push(sign);
        text.push_str(line);
        if !line.ends_with('\n') {
            text.push_str("\n\\ No newline at end of file\n");
        }
    }
}

struct Search<'a> {
    a: &'a [u32],
    b: &'a [u32],
    steps: usize,
    /// Furthest positions per diagonal, from the front and from the back; diagonal `k` is at `k + middle`.
    reached: [Vec<usize>; 2],
}

impl Search<'_> {
    fn changes(mut self) -> Vec<Change> {
        let mut changes: Vec<Change> = Vec::new();
        let mut waiting = vec![Change { old: 0..self.a.len(), new: 0..self.b.len() }];
        // The later half is pushed first, so that changes are found in order.
        while let Some(part) = waiting.pop() {
            let Change { old, new } = self.trimmed(part);
            if old.is_empty() && new.is_empty() {
                continue;
            }
            if let Some((x, y)) = self.middle(&old, &new) {
                waiting.push(Change { old: x..old.end, new: y..new.end });
                waiting.push(Change { old: old.start..x, new: new.start..y });
                continue;
            }
            match changes.last_mut() {
                Some(last) if last.old.end == old.start && last.new.end == new.start => {
                    last.old.end = old.end;
                    last.new.end = new.end;
                }
                _ => changes.push(Change { old, new }),
            }
        }
        changes
    }

    /// Removes equal lines at both ends.
    fn trimmed(&self, part: Change) -> Change {
        let Change { mut old, mut new } = part;
        while !old.is_empty() && !new.is_empty() && self.a[old.start] == self.b[new.start] {
            old.start += 1;
            new.start += 1;
        }
        while !old.is_empty() && !new.is_empty() && self.a[old.end - 1] == self.b[new.end - 1] {
            old.end -= 1;
            new.end -= 1;
        }
        Change { old, new }
    }

    /// A point on a shortest path, found by searching from both corners until the searches meet. None when these lines
    /// cannot be split, or when the steps are used up.
    fn middle(&mut self, old: &Range<usize>, new: &Range<usize>) -> Option<(usize, usize)> {
        const FRONT: usize = 0;
        const BACK: usize = 1;
        let (a, b) = (&self.a[old.clone()], &self.b[new.clone()]);
        let (n, m) = (a.len(), b.len());
        if n == 0 || m == 0 {
            return None;
        }
        let delta = n as isize - m as isize;
        let most = (n + m).div_ceil(2) + 1;
        let at = |k: isize| (k + most as isize + 1) as usize;
        for reached in &mut self.reached {
            reached.clear();
            reached.resize(2 * most + 3, 0);
        }
        // The searches meet in a step from the front if the difference of the lengths is odd, else in one from the back.
        let meeting = if delta % 2 != 0 { FRONT } else { BACK };
        for (d, side) in (0..most as isize).flat_map(|d| [(d, FRONT), (d, BACK)]) {
            let same = |x: usize, y: usize| match side {
                FRONT => a[x] == b[y],
                _ => a[n - 1 - x] == b[m - 1 - y],
            };
            for k in (-d..=d).step_by(2) {
                let start = furthest(&self.reached[side], at(k), k, d);
                // The position is after the end if diagonal `k` has no such line.
                let y = (start as isize - k) as usize;
                let left = n.saturating_sub(start).min(m.saturating_sub(y));
                let run = (0..left).take_while(|i| same(start + i, y + i)).count();
                let x = start + run;
                self.reached[side][at(k)] = x;
                self.steps = self.steps.checked_sub(1 + run)?;
                // The furthest position of the other search on this diagonal; its current step has not been made yet if it comes second.
                let other = delta - k;
                let known = if side == FRONT { d - 1 } else { d };
                if side == meeting && other.abs() <= known && x + self.reached[1 - side][at(other)] >= n {
                    let (x, y) = if side == FRONT { (start, y) } else { (n.checked_sub(x)?, m.checked_sub(y + run)?) };
                    let splits = x <= n && y <= m && (x, y) != (0, 0) && (x, y) != (n, m);
                    return splits.then_some((old.start + x, new.start + y));
                }
            }
        }
        None
    }
}

/// Where diagonal `k` begins its run at edit distance `d`: one step from the better of its neighbours.
fn furthest(reached: &[usize], at: usize, k: isize, d: isize) -> usize {
    if k == -d || (k != d && reached[at - 1] < reached[at + 1]) { reached[at + 1] } else { reached[at - 1] + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::test_random::Random;
    use crate::tool::tests::Scratch;
    use std::process::{Command, Stdio};

    const STEPS: usize = 1_000_000;

    fn unified(old: &str, new: &str) -> String {
        Comparison::new(old, new, STEPS).unified("a.txt")
    }

    /// Applies hunks like a patch program, and checks every line of context and every removed line.
    fn apply(old: &str, hunks: &str) -> String {
        let old: Vec<&str> = old.split_inclusive('\n').collect();
        let mut new = String::new();
        let mut at = 0;
        let mut lines = hunks.split_inclusive('\n').peekable();
        while let Some(line) = lines.next() {
            if let Some(range) = line.strip_prefix("@@ -") {
                let (start, rest) = range.split_once(',').expect("a hunk's start");
                let (len, _) = rest.split_once(' ').expect("a hunk's length");
                let start: usize = start.parse().expect("a number");
                let start = start - usize::from(len != "0");
                new.push_str(&old[at..start].concat());
                at = start;
                continue;
            }
            let (sign, body) = line.split_at(1);
            let bare = lines.next_if(|next| next.starts_with('\\')).is_some();
            let body = if bare { body.trim_end_matches('\n') } else { body };
            match sign {
                " " | "-" => {
                    assert_eq!(old[at], body, "the hunk names what is there");
                    at += 1;
                    if sign == " " {
                        new.push_str(body);
                    }
                }
                "+" => new.push_str(body),
                other => panic!("what is {other:?}?"),
            }
        }
        new.push_str(&old[at..].concat());
        new
    }

    fn random_text(random: &mut Random) -> String {
        let mut text = String::new();
        for _ in 0..random.below(30) {
            text.push_str(random.one_of(&["a", "b", "c", "dd", "", "e\r"]));
            text.push('\n');
        }
        if random.below(3) == 0 {
            text.push_str("end");
        }
        text
    }

    fn with_random_edits(text: &str, random: &mut Random) -> String {
        let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
        for _ in 0..random.below(4) {
            let at = random.below(lines.len() + 1);
            match random.below(2) {
                0 => lines.insert(at, "new\n"),
                _ if at < lines.len() => drop(lines.remove(at)),
                _ => {}
            }
        }
        lines.concat()
    }

    #[test]
    fn a_new_file() {
        assert_eq!(
            unified("", "hello"),
            "Index: a.txt\n\
             ===================================================================\n\
             --- a.txt\tCurrent\n\
             +++ a.txt\tProposed\n\
             @@ -0,0 +1,1 @@\n\
             +hello\n\
             \\ No newline at end of file\n"
        );
    }

    #[test]
    fn near_changes_share_a_hunk_and_distant_ones_do_not() {
        let old: String = (1..=20).map(|n| format!("{n}\n")).collect();
        let near = old.replace("\n5\n", "\nfive\n").replace("\n12\n", "\n");
        let far = old.replace("\n5\n", "\nfive\n").replace("\n13\n", "\n");
        assert_eq!(
            Comparison::new(&old, &near, STEPS).hunks(3),
            "@@ -2,14 +2,13 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n 9\n 10\n 11\n-12\n 13\n 14\n 15\n"
        );
        assert_eq!(
            Comparison::new(&old, &far, STEPS).hunks(3),
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n@@ -10,7 +10,6 @@\n 10\n 11\n 12\n-13\n 14\n 15\n 16\n"
        );
    }

    #[test]
    fn equal_texts_have_no_hunks() {
        let same = Comparison::new("a\nb", "a\nb", STEPS);
        assert_eq!((same.hunks(3), same.added(), same.removed()), (String::new(), 0, 0));
    }

    #[test]
    fn diffs_are_as_short_as_they_can_be() {
        let lines = |text: &str| -> String { text.chars().flat_map(|c| [c, '\n']).collect() };
        let (old, new) = (lines("abcabba"), lines("cbabac"));
        let found = Comparison::new(&old, &new, STEPS);
        assert_eq!(found.added() + found.removed(), 5);
    }

    #[test]
    fn hunks_apply_whatever_the_texts_and_the_effort() {
        let mut random = Random::new(1);
        for round in 0..3_000 {
            let old = random_text(&mut random);
            let new = if round % 2 == 0 { random_text(&mut random) } else { with_random_edits(&old, &mut random) };
            let steps = [STEPS, 0, 7, 60][random.below(4)];
            let context = [CONTEXT, 0, 5][random.below(3)];
            let found = Comparison::new(&old, &new, steps);
            let hunks = found.hunks(context);
            assert_eq!(apply(&old, &hunks), new, "round {round}, {steps} steps:\n{hunks}");
            let count = |sign| hunks.lines().filter(|line| line.starts_with(sign)).count();
            assert_eq!((found.added(), found.removed()), (count('+'), count('-')), "{hunks}");
        }
    }

    #[test]
    fn huge_differences_are_found_quickly_and_correctly() {
        let old: String = (0..20_000).map(|n| format!("old {n}\n")).collect();
        let new: String = (0..20_000).map(|n| format!("new {n}\n")).collect();
        let found = Comparison::new(&old, &new, STEPS);
        assert_eq!((found.added(), found.removed()), (20_000, 20_000));
        assert_eq!(apply(&old, &found.hunks(3)), new);
    }

    #[test]
    fn git_accepts_the_diffs() {
        let git = |args: &[&str], dir: &std::path::Path| {
            Command::new("git").args(args).current_dir(dir).stdout(Stdio::null()).stderr(Stdio::inherit()).status()
        };
        if Command::new("git").arg("--version").output().is_err() {
            eprintln!("skipped: there is no git here");
            return;
        }
        let mut random = Random::new(42);
        for _ in 0..25 {
            let scratch = Scratch::new();
            let old = random_text(&mut random);
            let new = with_random_edits(&old, &mut random);
            if old == new || old.is_empty() || new.is_empty() {
                continue;
            }
            let file = scratch.put("a.txt", &old);
            let hunks = Comparison::new(&old, &new, STEPS).hunks(CONTEXT);
            scratch.put("p.diff", format!("--- a/a.txt\n+++ b/a.txt\n{hunks}"));
            let status = git(&["apply", "p.diff"], scratch.path()).expect("git runs");
            assert!(status.success(), "{hunks}");
            assert_eq!(std::fs::read_to_string(&file).expect("it is there"), new);
        }
    }
}
