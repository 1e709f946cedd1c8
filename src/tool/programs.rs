//! The programs a command line starts, for people to see before they allow it.
//!
//! This is a reader, not a shell: it knows quoting, lists, pipes, groups, substitutions, redirections, assignments and the words
//! that open and close compound commands. Where it is unsure it names too much rather than too little (the text of a here
//! document is read as commands), and nothing is ever allowed because of what it found.

/// In order of appearance, without repeats.
pub fn programs(command: &str) -> Vec<String> {
    let mut reader = Reader { chars: command.chars().collect(), at: 0, found: Vec::new(), depth: 0 };
    while reader.at < reader.chars.len() {
        reader.list(End::Text);
        // A closing bracket without an opening one: go on behind it.
        reader.at += 1;
    }
    reader.found
}

/// What ends the list being read.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Text,
    Bracket,
    Backtick,
}

struct Reader {
    chars: Vec<char>,
    at: usize,
    found: Vec<String>,
    depth: usize,
}

/// Substitutions within substitutions that are read as such. Deeper ones are read as if they were not nested, which finds
/// the same programs: the text comes from a model and must not exhaust the stack.
const DEEPEST: usize = 32;

impl Reader {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    /// Reads commands up to `end` and stops on it.
    fn list(&mut self, end: End) {
        let mut expects_program = true;
        while let Some(c) = self.peek(0) {
            match c {
                ')' => return,
                '`' if end == End::Backtick => return,
                ';' | '&' | '|' | '\n' | '(' => {
                    self.at += 1;
                    expects_program = true;
                }
                '#' => self.comment(),
                c if c.is_whitespace() => self.at += 1,
                '<' | '>' => self.redirection(),
                _ => {
                    let word = self.word(end);
                    // `2>file`: a number before a redirection is a descriptor.
                    let descriptor =
                        word.chars().all(|c| c.is_ascii_digit()) && matches!(self.peek(0), Some('<' | '>'));
                    if descriptor || !expects_program {
                        continue;
                    }
                    expects_program = opens(&word) || is_assignment(&word);
                    if !expects_program && !self.found.contains(&word) {
                        self.found.push(word);
                    }
                }
            }
        }
    }

    fn comment(&mut self) {
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.at += 1;
        }
    }

    /// `>file`, `<<<word`, `>&2`, `<(list)`: skips the sign and its target.
    fn redirection(&mut self) {
        while matches!(self.peek(0), Some('<' | '>' | '&' | '|')) {
            self.at += 1;
        }
        if self.peek(0) == Some('(') {
            if self.depth < DEEPEST {
                self.inner(End::Bracket);
            }
            return;
        }
        while self.peek(0).is_some_and(|c| c == ' ' || c == '\t') {
            self.at += 1;
        }
        self.word(End::Text);
    }

    /// One word with its quotes taken off. Substitutions in it are read for programs.
    fn word(&mut self, end: End) -> String {
        let mut word = String::new();
        while let Some(c) = self.peek(0) {
            match c {
                c if c.is_whitespace() || ";&|<>()".contains(c) => break,
                '`' if end == End::Backtick => break,
                '\'' => self.single(&mut word),
                '"' => self.double(&mut word, end),
                '\\' => {
                    word.extend(self.peek(1));
                    self.at += 2;
                }
                _ => self.plain(&mut word, end),
            }
        }
        if word.is_empty() && matches!(self.peek(0), Some(c) if c == '`') {
            self.at += 1;
        }
        word
    }

    fn single(&mut self, word: &mut String) {
        self.at += 1;
        while let Some(c) = self.peek(0) {
            self.at += 1;
            if c == '\'' {
                return;
            }
            word.push(c);
        }
    }

    fn double(&mut self, word: &mut String, end: End) {
        self.at += 1;
        while let Some(c) = self.peek(0) {
            match c {
                '"' => {
                    self.at += 1;
                    return;
                }
                '\\' => {
                    word.extend(self.peek(1));
                    self.at += 2;
                }
                '`' if end == End::Backtick => return,
                _ => self.plain(word, end),
            }
        }
    }

    /// One character, or a whole substitution, which a sign stands for.
    fn plain(&mut self, word: &mut String, end: End) {
        let nests = self.depth < DEEPEST;
        match (self.peek(0), self.peek(1)) {
            (Some('$'), Some('(')) if nests => {
                self.at += 1;
                self.inner(End::Bracket);
                word.push_str("$(…)");
            }
            (Some('`'), _) if nests && end != End::Backtick => {
                self.inner(End::Backtick);
                word.push_str("$(…)");
            }
            (c, _) => {
                word.extend(c);
                self.at += 1;
            }
        }
    }

    /// A list in brackets or backticks, from the opening sign to behind the closing one.
    fn inner(&mut self, end: End) {
        self.at += 1;
        self.depth += 1;
        self.list(end);
        self.depth -= 1;
        self.at += 1;
    }
}

/// Words after which a command still follows.
fn opens(word: &str) -> bool {
    const WORDS: [&str; 16] =
        ["if", "then", "else", "elif", "fi", "do", "done", "while", "until", "{", "}", "!", "time", "esac", "in", "[["];
    WORDS.contains(&word)
}

fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else {
        return false;
    };
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_alphabetic() || c == '_')
        && chars.all(|c| c.is_alphanumeric() || "_+[]".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_is_named() {
        let cases: &[(&str, &[&str])] = &[
            ("ls -la", &["ls"]),
            ("ls | wc -l && ls; echo done & sleep 1", &["ls", "wc", "echo", "sleep"]),
            ("FOO=1 BAR='a b' make all", &["make"]),
            ("echo \"$(rm -rf x)\" `date`", &["rm", "echo", "date"]),
            ("echo '$(rm x) `rm`'", &["echo"]),
            ("git log > out 2>&1 < in", &["git"]),
            ("2>/dev/null cat x", &["cat"]),
            ("diff <(sort a) <(uniq b)", &["diff", "sort", "uniq"]),
            ("(cd x; ./run) || { exit 1; }", &["cd", "./run", "exit"]),
            ("if test -f x; then cat x; else touch x; fi", &["test", "cat", "touch"]),
            ("while true; do curl x; done", &["true", "curl"]),
            ("a\\ b c", &["a b"]),
            ("\"/usr/bin/e\"cho hi # rm -rf", &["/usr/bin/echo"]),
            ("echo a\nrm b", &["echo", "rm"]),
            ("$CMD x", &["$CMD"]),
            ("echo $(echo $(whoami))", &["whoami", "echo"]),
            ("$(which ls)/x y", &["which", "$(…)/x"]),
            ("echo )rm x", &["echo", "rm"]),
            ("! time make", &["make"]),
            ("cat <<< 'x y'", &["cat"]),
            ("", &[]),
            ("   # only words", &[]),
        ];
        for (command, expected) in cases {
            let mut found = programs(command);
            let mut expected: Vec<String> = expected.iter().map(|p| p.to_string()).collect();
            found.sort();
            expected.sort();
            assert_eq!(found, expected, "{command}");
        }
    }

    #[test]
    fn order_is_kept_and_repeats_are_not() {
        assert_eq!(programs("b; a; b"), ["b", "a"]);
    }

    #[test]
    fn any_text_is_read_to_its_end() {
        let pieces = ["\"", "'", "`", "$(", ")", "\\", "<", "(", "a", " ", ";", "#", "\n", "=", "<<", "|"];
        let mut seed: u32 = 7;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..8 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                text.push_str(pieces[(seed >> 16) as usize % pieces.len()]);
            }
            programs(&text);
        }
        let mut deep = programs(&("$(".repeat(100_000) + "rm"));
        deep.sort();
        assert_eq!(deep, ["$", "$(…)", "rm"]);
    }
}
