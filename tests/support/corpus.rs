//! Tests of a parser with a corpus of cases. The parser takes bytes in pieces and returns lines that describe its results. The lines must
//! be those of the corpus, must not depend on the pieces, and must not do so for random mutations of the cases either.

#[path = "random.rs"]
mod random;

pub use random::Random;

/// Bytes, and the lines that describe their parsing.
pub struct Case {
    name: String,
    bytes: Vec<u8>,
    results: Vec<String>,
}

pub struct Corpus {
    pub cases: Vec<Case>,
    pub parse: fn(&[&[u8]]) -> Vec<String>,
    /// Whether the bytes were accepted.
    pub is_accepted: fn(&[String]) -> bool,
    /// Bytes that mutations insert because they confuse such parsers.
    pub confusing_bytes: &'static [&'static [u8]],
}

/// The cases of some files, each with a prefix for their names. A line is a mark, a space and a text: `##` the name of a case, `<` bytes,
/// `>` a result.
pub fn read(files: &[(&str, &str)], sent: impl Fn(&str) -> Vec<u8>, result: impl Fn(&str) -> String) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for (prefix, text) in files {
        for line in text.lines().filter(|line| !line.is_empty()) {
            let (mark, rest) = line.split_once(' ').expect("a mark, a blank, a text");
            if mark == "##" {
                cases.push(Case { name: format!("{prefix}: {rest}"), bytes: Vec::new(), results: Vec::new() });
                continue;
            }
            let case = cases.last_mut().expect("a file begins with a name");
            match mark {
                "<" => case.bytes.extend(sent(rest)),
                ">" => case.results.push(result(rest)),
                _ => panic!("{}: what is {line:?}?", case.name),
            }
        }
    }
    cases
}

pub fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match rest.next() {
            Some(b'r') => b'\r',
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(byte @ (b'"' | b'\\')) => byte,
            Some(b'x') => {
                let digits = [rest.next(), rest.next()].map(|digit| digit.expect("two digits"));
                let digits = str::from_utf8(&digits).expect("digits");
                u8::from_str_radix(digits, 16).expect("hexadecimal digits")
            }
            other => panic!("an unknown escape, {other:?}, in {text}"),
        });
    }
    out
}

impl Corpus {
    pub fn check_results(&self) {
        for case in &self.cases {
            let found = (self.parse)(&[&case.bytes]);
            assert_eq!(found, case.results, "{}", case.name);
        }
    }

    pub fn check_all_cuts(&self) {
        for (n, case) in (0..).zip(&self.cases) {
            let bytes = &case.bytes[..];
            let expect = |how: &str, pieces: &[&[u8]]| {
                assert_eq!((self.parse)(pieces), case.results, "{}, {how}", case.name);
            };
            expect("byte by byte", &bytes.chunks(1).collect::<Vec<_>>());
            for at in 0..=bytes.len() {
                let (front, back) = bytes.split_at(at);
                expect(&format!("cut at {at}"), &[front, back]);
            }
            for seed in 1..=20 {
                let pieces = Random::new(seed * 1000 + n).cut(bytes, 16);
                expect(&format!("cut by seed {seed}"), &pieces);
            }
        }
    }

    pub fn check_mutations(&self) {
        const MUTATIONS: u64 = 25_000;
        let mut refused = 0;
        for seed in 1..=MUTATIONS {
            let mut random = Random::new(seed);
            let bytes = self.mutate(&mut random);
            let whole = (self.parse)(&[&bytes]);
            let pieces = random.cut(&bytes, 24);
            assert_eq!((self.parse)(&pieces), whole, "seed {seed}: {}", bytes.escape_ascii());
            refused += u64::from(!(self.is_accepted)(&whole));
        }
        // The mutations are useless if nearly all of them are accepted or nearly all are refused.
        assert!(refused > MUTATIONS / 4, "{refused} refused");
        assert!(refused < MUTATIONS * 3 / 4, "{refused} refused");
    }

    /// An accepted case, perhaps followed by another case, with a few random changes.
    fn mutate(&self, random: &mut Random) -> Vec<u8> {
        let accepted = self.cases.iter();
        let accepted: Vec<&Case> = accepted.filter(|case| (self.is_accepted)(&case.results)).collect();
        let mut bytes = accepted[random.below(accepted.len())].bytes.clone();
        if random.below(4) == 0 {
            bytes.extend(&self.cases[random.below(self.cases.len())].bytes);
        }
        for _ in 0..random.below(4) {
            let at = random.below(bytes.len() + 1);
            let until = (at + random.below(8)).min(bytes.len());
            match random.below(5) {
                0 => drop(bytes.drain(at..until)),
                1 => {
                    let inserted = self.confusing_bytes[random.below(self.confusing_bytes.len())];
                    bytes.splice(at..at, inserted.iter().copied());
                }
                2 => {
                    let again = bytes[at..until].to_vec();
                    bytes.splice(at..at, again);
                }
                3 => bytes[at..until].reverse(),
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << random.below(8);
                    }
                }
            }
        }
        bytes
    }
}
