//! Bytes against a corpus of cases. A judge reads bytes in whatever pieces they come and says what it makes of them; here it is held to
//! the same words for a case however the network cuts it, and for whatever a mutation makes of it.

#[path = "random.rs"]
mod random;

pub use random::Random;

/// What is sent, and what is to be made of it.
pub struct Case {
    name: String,
    bytes: Vec<u8>,
    verdicts: Vec<String>,
}

pub struct Corpus {
    pub cases: Vec<Case>,
    pub judge: fn(&[&[u8]]) -> Vec<String>,
    /// Whether it ends well.
    pub is_good: fn(&[String]) -> bool,
    /// What confuses such a judge.
    pub spice: &'static [&'static [u8]],
}

/// The cases of some files, each with its theme. A line is a mark, a blank and a text: `##` a case's name, `<` what is sent, `>` what
/// is made of it.
pub fn read(files: &[(&str, &str)], sent: impl Fn(&str) -> Vec<u8>, verdict: impl Fn(&str) -> String) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for (theme, text) in files {
        for line in text.lines().filter(|line| !line.is_empty()) {
            let (mark, rest) = line.split_once(' ').expect("a mark, a blank, a text");
            if mark == "##" {
                cases.push(Case { name: format!("{theme}: {rest}"), bytes: Vec::new(), verdicts: Vec::new() });
                continue;
            }
            let case = cases.last_mut().expect("a file begins with a name");
            match mark {
                "<" => case.bytes.extend(sent(rest)),
                ">" => case.verdicts.push(verdict(rest)),
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
            other => panic!("an escape nobody knows, {other:?}, in {text}"),
        });
    }
    out
}

impl Corpus {
    pub fn gives_its_verdicts(&self) {
        for case in &self.cases {
            let found = (self.judge)(&[&case.bytes]);
            assert_eq!(found, case.verdicts, "{}", case.name);
        }
    }

    pub fn may_be_cut_anywhere(&self) {
        for (n, case) in (0..).zip(&self.cases) {
            let bytes = &case.bytes[..];
            let expect = |how: &str, pieces: &[&[u8]]| {
                assert_eq!((self.judge)(pieces), case.verdicts, "{}, {how}", case.name);
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

    pub fn mutations_are_judged_alike(&self) {
        const MUTATIONS: u64 = 25_000;
        let mut refused = 0;
        for seed in 1..=MUTATIONS {
            let mut random = Random::new(seed);
            let bytes = self.mutate(&mut random);
            let whole = (self.judge)(&[&bytes]);
            let pieces = random.cut(&bytes, 24);
            assert_eq!((self.judge)(&pieces), whole, "seed {seed}: {}", bytes.escape_ascii());
            refused += u64::from(!(self.is_good)(&whole));
        }
        // Neither a test of the refusals only, nor one that refuses nothing.
        assert!(refused > MUTATIONS / 4, "{refused} refused");
        assert!(refused < MUTATIONS * 3 / 4, "{refused} refused");
    }

    /// One or two cases, the first of them a good one, with a few changes of the kind that confuse parsers.
    fn mutate(&self, random: &mut Random) -> Vec<u8> {
        let good = self.cases.iter();
        let good: Vec<&Case> = good.filter(|case| (self.is_good)(&case.verdicts)).collect();
        let mut bytes = good[random.below(good.len())].bytes.clone();
        if random.below(4) == 0 {
            bytes.extend(&self.cases[random.below(self.cases.len())].bytes);
        }
        for _ in 0..random.below(4) {
            let at = random.below(bytes.len() + 1);
            let until = (at + random.below(8)).min(bytes.len());
            match random.below(5) {
                0 => drop(bytes.drain(at..until)),
                1 => {
                    let spice = self.spice[random.below(self.spice.len())];
                    bytes.splice(at..at, spice.iter().copied());
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
