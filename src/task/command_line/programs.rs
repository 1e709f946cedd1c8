//! Programs that only read, with the options and operands they may have without approval.
//!
//! This is an allow-list: an option that is not here, also an abbreviated one, needs approval. It decides which lines run
//! without approval; that they change nothing is enforced by the kernel, not here. Programs that do not work when confined (ps and
//! df read /proc) are left out, so that they can be approved and then run unconfined.
//!
//! A program's options are written as words: `-abc` are flags, `-n:` takes a value, `-w?` takes one that must be attached, `-f@`
//! takes a path, `-#` is any number; `--all`, `--lines:`, `--color?`, `--file@` likewise. [`ReadAccess`] says which operands are paths;
//! the shell tool checks where they lead.

use super::{Simple, Word};

/// The files that a command accesses which only reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadAccess {
    /// Files and directories, relative to where it runs.
    pub paths: Vec<Word>,
    /// The command follows links in directories, so its paths must be files.
    pub only_files: bool,
    /// The command changes the directory of the commands after it to this one.
    pub moves_to: Option<String>,
    /// The command reads the git repository of its directory.
    pub is_git: bool,
    /// Files of the workspace may make the command run a program, so it may only run confined.
    pub only_confined: bool,
}

enum Operands {
    None,
    /// Words that are not paths and pass this check.
    Plain(fn(&str) -> bool),
    Paths,
    /// At most one path: a second one would be written to.
    OnePath,
    /// Paths that must not be directories.
    Files,
    /// A script or pattern, unless an option gives it, then paths.
    Script(fn(&str) -> bool),
    /// This function checks all words, options included.
    Free(fn(&[Word], &mut ReadAccess) -> Read<()>),
}

type Read<T> = Result<T, String>;

use Operands::{Files, Free, None as Nothing, OnePath, Paths, Script};

const PLAIN: Operands = Operands::Plain(|_| true);

#[rustfmt::skip]
const PROGRAMS: &[(&str, &str, Operands)] = &[
    ("arch nproc whoami", "--all", Nothing),
    ("base32 base64", "-di -w: --decode --ignore-garbage --wrap:", OnePath),
    ("basename", "-az -s: --multiple --suffix: --zero", PLAIN),
    ("bc", "-lq --mathlib --quiet", Nothing),
    ("cat", "-AbeEnstTuv --number --number-nonblank --show-all --show-ends --show-nonprinting --show-tabs --squeeze-blank", Paths),
    ("cd", "", Free(cd)),
    ("cmp", "-bls -i: -n: --bytes: --ignore-initial: --print-bytes --quiet --silent --verbose", Paths),
    ("column", "-tnx -c: -N: -o: -R: -s: --output-separator: --separator: --table", Paths),
    ("comm", "-123z --check-order --nocheck-order --output-delimiter: --total --zero-terminated", Paths),
    ("command", "", Free(command)),
    ("cut", "-nsz -b: -c: -d: -f: --bytes: --characters: --complement --delimiter: --fields: --only-delimited", Paths),
    // An operand without the plus sign would set the clock.
    ("date", "-uR -d: -r@ -I? --date: --iso-8601? --reference@ --rfc-3339: --rfc-email --utc", Operands::Plain(|word| word.starts_with('+'))),
    ("diff", "-abBdeEinNpqstTuwyZ -C: -F: -I: -U: -W: --brief --color? --ignore-all-space --ignore-blank-lines --ignore-case --ignore-space-change \
        --label: --minimal --new-file --side-by-side --strip-trailing-cr --suppress-common-lines --text --unified? --width:", Files),
    ("dirname", "-z --zero", PLAIN),
    ("du", "-abchkmsSx0 -d: -t: --all --apparent-size --bytes --exclude: --human-readable --max-depth: --si --summarize --threshold: --total", Paths),
    ("echo expr false true", "", Free(any)),
    ("egrep fgrep grep", "-abcEFGhHiIlLnoPqrsTUvVwxyzZ -A: -B: -C: -d: -D: -e: -f@ -m: -# --after-context: --before-context: --binary-files: --color? \
        --context: --count --exclude-dir: --exclude-from@ --exclude: --extended-regexp --file@ --files-with-matches --files-without-match \
        --fixed-strings --ignore-case --include: --invert-match --line-number --line-regexp --max-count: --no-filename --no-messages --null \
        --only-matching --perl-regexp --quiet --recursive --regexp: --silent --text --with-filename --word-regexp", Script(|_| true)),
    ("env", "-0 --null", Nothing),
    ("groups", "", PLAIN),
    ("expand unexpand", "-ai -t: --all --initial --tabs:", Paths),
    ("fd fdfind", "-aFgHIipsu0 -c: -d: -e: -E: -S: -t: --absolute-path --color: --exclude: --extension: --fixed-strings --full-path --glob --hidden \
        --ignore-case --max-depth: --max-results: --min-depth: --no-ignore --print0 --size: --type:", Script(|_| true)),
    ("file", "-bhikNnr0 -F: --brief --dereference --extension --mime --mime-encoding --mime-type --no-dereference", Paths),
    ("find", "", Free(find)),
    ("fold", "-bcs -w: --bytes --spaces --width:", Paths),
    ("git", "", Free(git)),
    ("head tail", "-qvz -c: -n: -# --bytes: --lines: --quiet --silent --verbose --zero-terminated", Paths),
    ("hexdump hd", "-bcCdovx -e: -n: -s:", Paths),
    ("hostname", "-s --short", Nothing),
    ("id", "-agGnruzZ --group --groups --name --real --user --zero", PLAIN),
    ("jq", "-acCejMnrRsS --compact-output --exit-status --indent: --null-input --raw-input --raw-output --slurp --sort-keys --tab", Script(jq)),
    ("ls", "-aAbBcCdfFgGhiklmnNopqQrRsStuUvxXZ1 -I: -T: -w: --all --almost-all --block-size: --classify? --color? --directory --format: --full-time \
        --group-directories-first --hide: --human-readable --ignore: --inode --numeric-uid-gid --recursive --reverse --si --size --sort: --time: \
        --time-style: --width:", Paths),
    ("b2sum cksum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum", "-btz --binary --tag --text --zero", Paths),
    ("nl", "-p -b: -d: -f: -h: -i: -l: -n: -s: -v: -w: --body-numbering: --number-format: --number-separator: --number-width:", Paths),
    ("numfmt", "-z -d: --delimiter: --field: --format: --from: --from-unit: --header? --padding: --round: --suffix: --to: --to-unit:", PLAIN),
    ("od", "-abcdfilosxv -A: -j: -N: -S: -t: -w? --address-radix: --endian: --format: --output-duplicates --read-bytes: --skip-bytes:", Paths),
    ("paste", "-sz -d: --delimiters: --serial --zero-terminated", Paths),
    ("printenv", "-0 --null", PLAIN),
    ("printf", "", Free(printf)),
    ("pwd", "-LP --logical --physical", Nothing),
    ("readlink", "-efmnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline --zero", Paths),
    ("realpath", "-eLmPqsz --canonicalize-existing --canonicalize-missing --no-symlinks --quiet --relative-base@ --relative-to@", Paths),
    ("rev", "", Paths),
    ("rg", "-acFHhiIlnNopPqsSuUvVwx0. -A: -B: -C: -d: -e: -E: -f@ -g: -j: -m: -M: -r: -t: -T: --after-context: --before-context: --case-sensitive \
        --color: --column --context: --count --count-matches --file@ --files --files-with-matches --files-without-match --fixed-strings --glob: \
        --heading --hidden --iglob: --ignore-case --invert-match --json --line-number --line-regexp --max-columns: --max-count: --max-depth: \
        --multiline --multiline-dotall --no-config --no-filename --no-heading --no-ignore --no-ignore-vcs --no-line-number --no-messages --null \
        --only-matching --passthru --pcre2 --pretty --quiet --regexp: --replace: --smart-case --sort: --stats --text --threads: --trim --type-list \
        --type-not: --type: --unrestricted --vimgrep --with-filename --word-regexp", Script(|_| true)),
    ("sed", "-nErsuz -e: --expression: --null-data --quiet --regexp-extended --separate --silent --unbuffered", Script(sed)),
    ("seq", "-w -f: -s: --equal-width --format: --separator:", PLAIN),
    ("shuf", "-rz -i: -n: --head-count: --input-range: --repeat --zero-terminated", OnePath),
    ("sort", "-bcCdfghiMnrRsuVz -k: -t: --check? --field-separator: --general-numeric-sort --human-numeric-sort --ignore-case \
        --ignore-leading-blanks --key: --month-sort --numeric-sort --reverse --sort: --stable --unique --version-sort", Paths),
    ("stat", "-fLt -c: --dereference --file-system --format: --printf: --terse", Paths),
    ("strings", "-afw -e: -n: -t: -# --all --bytes: --encoding: --print-file-name --radix:", Paths),
    ("tac", "-br -s: --before --regex --separator:", Paths),
    ("[ test", "", Free(test)),
    ("tr", "-cCdst --complement --delete --squeeze-repeats --truncate-set1", PLAIN),
    ("tree", "-aACdDfFghiJnNpqQrsStuUvxX -I: -L: -P: --dirsfirst --du --filelimit: --gitignore --noreport --prune --sort:", Paths),
    ("type", "-afptP", PLAIN),
    ("uname", "-aimnoprsv --all --kernel-name --kernel-release --kernel-version --machine --nodename --operating-system --processor", Nothing),
    ("uniq", "-cdDiuz -f: -s: -w: --check-chars: --count --group? --ignore-case --repeated --skip-chars: --skip-fields: --unique", OnePath),
    ("wc", "-clLmw --bytes --chars --lines --max-line-length --words", Paths),
    ("which", "-as --all", PLAIN),
    ("xxd", "-abeEipu -c: -g: -l: -o: -s:", OnePath),
];

/// Programs that may only print their version, and the option for that beside `--version`.
#[rustfmt::skip]
const VERSIONED: &[(&str, &str)] = &[
    ("bash bun cc clang clang++ cmake deno docker dotnet g++ gcc gh ninja perl pip pip3 podman ruby rustup sh tsc uv zig", "--version"),
    ("cargo python python3 rustc", "-V"), ("go", "version"), ("java javac", "-version"), ("make node npm npx php", "-v"),
];

const DIFF: &str = "-abcmpqRsuwWz -C? -G: -l: -M? -S: -U: --abbrev? --binary --cached --cc --check --color-words? --color? --compact-summary \
    --diff-algorithm: --diff-filter: --dirstat? --exit-code --find-copies? --find-renames? --full-index --function-context --histogram \
    --ignore-all-space --ignore-blank-lines --ignore-space-change --inter-hunk-context: --merge-base --minimal --name-only --name-status \
    --no-color --no-ext-diff --no-patch --no-prefix --no-renames --no-textconv --numstat --patch --patch-with-stat --patience --pickaxe-regex \
    --quiet --raw --relative? --shortstat --staged --stat? --summary --text --unified: --word-diff?";
const LOG: &str = "-cEFgiP -L: -n: -# --abbrev-commit --after: --all --all-match --ancestry-path --author: --before: --boundary --branches? \
    --cherry --cherry-pick --committer: --count --date-order --date: --decorate? --first-parent --follow --format: --full-history --graph --grep: \
    --invert-grep --left-right --max-count: --merges --no-abbrev-commit --no-decorate --no-merges --no-notes --no-walk --oneline --parents \
    --pretty? --relative-date --remotes? --reverse --simplify-by-decoration --since: --skip: --source --tags? --topo-order --until: \
    --walk-reflogs";
const LIST: &str = "-ailqrv -n? --abbrev? --all --color? --column? --contains? --format: --ignore-case --list --merged? --no-color --no-contains? \
    --no-merged? --points-at: --remotes --show-current --sort: --verbose";

/// Subcommands of git. Some read or write by their operands; those are checked in [`git`].
#[rustfmt::skip]
const GIT: &[(&str, &[&str], Operands)] = &[
    ("blame", &["-bceflnpstw -C? -L: -M? --abbrev: --date: --first-parent --line-porcelain --porcelain --root --show-email --since:"], Paths),
    ("branch tag", &[LIST], PLAIN),
    ("cat-file", &["-epst"], Paths),
    ("check-ignore", &["-nqvz --no-index --non-matching --quiet --verbose"], Paths),
    ("config", &["-lz --get-all: --get-regexp: --get: --list --local --name-only --null --show-origin --show-scope"], Nothing),
    // With --dirty it runs git in submodules, whatever the settings say about these; and so do diff-files and diff-index.
    ("describe", &["--abbrev? --all --always --contains --exact-match --exclude: --first-parent --long --match: --tags"], PLAIN),
    ("diff diff-tree", &[DIFF, "-rt --root"], Paths),
    ("for-each-ref", &[LIST, "--count:"], PLAIN),
    ("grep", &["-acEFGhHiIlLnopPqvwWz -A: -B: -C: -e: -f@ -m: -# --after-context: --all-match --and --before-context: --break --cached --color? \
        --column --context: --count --exclude-standard --extended-regexp --files-with-matches --files-without-match --fixed-strings --full-name \
        --function-context --heading --ignore-case --invert-match --line-number --max-count: --max-depth: --name-only --no-color --null \
        --only-matching --or --perl-regexp --quiet --show-function --text --untracked --word-regexp"], Script(|_| true)),
    ("log show whatchanged", &[LOG, DIFF], Paths),
    ("ls-files", &["-cdikmostuvz -x: --abbrev? --cached --deduplicate --deleted --directory --eol --error-unmatch --exclude-standard --exclude: \
        --format: --full-name --ignored --killed --modified --others --stage --unmerged"], Paths),
    ("ls-tree", &["-dlrtz --abbrev? --format: --full-name --full-tree --long --name-only --name-status --object-only"], Paths),
    ("merge-base", &["-a --all --fork-point --independent --is-ancestor --octopus"], PLAIN),
    ("reflog stash", &[LOG, DIFF], PLAIN),
    ("remote worktree", &["-v --porcelain --verbose"], PLAIN),
    ("rev-list", &[LOG, "--objects"], Paths),
    ("rev-parse", &["-q --abbrev-ref? --absolute-git-dir --all --branches? --git-common-dir --git-dir --git-path: --is-bare-repository \
        --is-inside-work-tree --is-shallow-repository --quiet --remotes? --short? --show-cdup --show-prefix --show-toplevel --symbolic-full-name \
        --tags? --verify"], Paths),
    ("shortlog", &["-cens -w? --email --group: --numbered --summary", LOG], Paths),
    ("show-ref", &["-dqs --abbrev? --branches --dereference --hash? --head --heads --tags --verify"], PLAIN),
    ("status", &["-bsvz -u? --ahead-behind --branch --ignored? --long --no-renames --porcelain? --renames --short --show-stash \
        --untracked-files? --verbose"], Paths),
    ("symbolic-ref", &["-q --quiet --short"], OnePath),
];

/// Whether a command is a builtin of the shell, for which no program is searched.
pub fn is_builtin(name: &str) -> bool {
    matches!(name, "[" | "cd" | "command" | "echo" | "false" | "printf" | "pwd" | "test" | "true" | "type")
}

/// What a command accesses if it is known to only read; otherwise why it is not known to.
pub fn read_only(simple: &Simple) -> Result<ReadAccess, String> {
    let mut known = ReadAccess::default();
    known.paths.extend(simple.reads.iter().map(|file| literal(file)));
    let (program, words) = (simple.program(), &simple.words[1..]);
    if let Some((_, short)) = VERSIONED.iter().find(|(names, _)| is_one_of(names, program)) {
        known.only_confined = true;
        return match words {
            [word] if word.text == "--version" || word.text == *short => Ok(known),
            _ => Err(format!("{program} runs unasked only to tell its version")),
        };
    }
    let Some((_, spec, operands)) = PROGRAMS.iter().find(|(names, ..)| is_one_of(names, program)) else {
        return Err(format!("{program} is not known to only read"));
    };
    check(&[spec], operands, words, &mut known).map_err(|why| format!("{program} {why}"))?;
    Ok(known)
}

fn is_one_of(names: &str, name: &str) -> bool {
    names.split_ascii_whitespace().any(|known| known == name)
}

fn literal(text: &str) -> Word {
    Word { text: text.to_owned(), is_pattern: false }
}

fn check(spec: &[&str], operands: &Operands, words: &[Word], known: &mut ReadAccess) -> Read<()> {
    if let Free(check) = operands {
        return check(words, known);
    }
    let given = options(spec, words, known)?;
    match operands {
        Nothing if !given.operands.is_empty() => return Err("runs unasked only without operands".into()),
        Nothing | Free(_) => {}
        Operands::Plain(fits) => {
            if let Some(word) = given.operands.iter().find(|word| word.is_pattern || !fits(&word.text)) {
                return Err(format!("has the operand {}", word.text));
            }
        }
        OnePath if given.operands.len() > 1 || given.operands.iter().any(|word| word.is_pattern) => {
            return Err("may write to its second operand".into());
        }
        Paths | OnePath => known.paths.extend(given.operands.into_iter().cloned()),
        Files => {
            known.only_files = true;
            known.paths.extend(given.operands.into_iter().cloned());
        }
        Script(fits) => {
            let mut paths = given.operands.into_iter();
            let first = match given.scripts.is_empty() && !given.is_without_script {
                true => paths.next(),
                false => None,
            };
            if first.is_some_and(|word| word.is_pattern || !fits(&word.text))
                || !given.scripts.iter().all(|text| fits(text))
            {
                return Err("has a script that is not known to only read".into());
            }
            known.paths.extend(paths.cloned());
        }
    }
    Ok(())
}

/// The arguments of a program by kind.
#[derive(Default)]
struct Given<'a> {
    operands: Vec<&'a Word>,
    /// The names of the options.
    options: Vec<String>,
    /// The values of `-e` and its long forms.
    scripts: Vec<&'a str>,
    /// Because of an option, the first operand is a path and not a script.
    is_without_script: bool,
}

fn options<'a>(spec: &[&str], words: &'a [Word], known: &mut ReadAccess) -> Read<Given<'a>> {
    let mut given = Given::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let text = word.text.as_str();
        if text == "--" {
            given.operands.extend(words);
            break;
        }
        if text == "-" || !text.starts_with('-') {
            given.operands.push(word);
            continue;
        }
        let (name, kind, attached) = option(spec, text).ok_or_else(|| format!("has the option {text}"))?;
        if word.is_pattern && kind == '@' {
            return Err(format!("reads what {text} matches"));
        }
        let value = match (kind, attached) {
            ('?' | '-', attached) => attached,
            (_, Some(attached)) => Some(attached),
            (_, None) => match words.next().and_then(Word::literal) {
                Some(value) => Some(value),
                None => return Err(format!("has no plain value for {name}")),
            },
        };
        if matches!(name.as_str(), "-f" | "--file" | "--files" | "--type-list") {
            given.is_without_script = true;
        }
        match (kind, value) {
            ('@', Some(path)) => known.paths.push(literal(path)),
            (_, Some(script)) if matches!(name.as_str(), "-e" | "--regexp" | "--expression") => {
                given.scripts.push(script);
            }
            _ => {}
        }
        given.options.push(name);
    }
    Ok(given)
}

/// Parses a word as an option: its name, its kind (`-` for a flag) and the value attached to it. A group of flags has the name of
/// its last one.
fn option<'a>(spec: &[&str], text: &'a str) -> Option<(String, char, Option<&'a str>)> {
    let mut spec = spec.iter().flat_map(|spec| spec.split_ascii_whitespace());
    if text.starts_with("--") {
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let kind = spec.find_map(|known| match known.strip_prefix(name)? {
            "" => value.is_none().then_some('-'),
            kind @ (":" | "@" | "?") => kind.chars().next(),
            _ => None,
        })?;
        return Some((name.to_owned(), kind, value));
    }
    let spec: Vec<&str> = spec.filter(|known| !known.starts_with("--")).collect();
    let letters = &text[1..];
    if spec.contains(&"-#") && letters.chars().all(|c| c.is_ascii_digit()) {
        return Some((text.to_owned(), '-', None));
    }
    for (at, letter) in letters.char_indices() {
        let (name, rest) = (format!("-{letter}"), &letters[at + letter.len_utf8()..]);
        let kind = spec.iter().find_map(|known| match known.strip_prefix(&name) {
            Some(kind @ (":" | "@" | "?")) => kind.chars().next(),
            _ => (!known.ends_with([':', '@', '?', '#']) && known[1..].contains(letter)).then_some('-'),
        })?;
        if kind != '-' || rest.is_empty() {
            return Some((name, kind, Some(rest).filter(|rest| !rest.is_empty())));
        }
    }
    None
}

fn texts(words: &[Word]) -> Read<Vec<&str>> {
    let plain = |word: &Word| format!("gets what {} matches", word.text);
    words.iter().map(|word| word.literal().ok_or_else(|| plain(word))).collect()
}

/// Accepts all words. Only patterns access files, because the shell reads directories to expand them.
fn any(words: &[Word], known: &mut ReadAccess) -> Read<()> {
    known.paths.extend(words.iter().filter(|word| word.is_pattern).cloned());
    Ok(())
}

fn cd(words: &[Word], known: &mut ReadAccess) -> Read<()> {
    match texts(words)?[..] {
        [dir] if !dir.is_empty() && !dir.starts_with('-') => known.moves_to = Some(dir.to_owned()),
        _ => return Err("runs unasked only with one directory".into()),
    }
    Ok(())
}

fn command(words: &[Word], _: &mut ReadAccess) -> Read<()> {
    match texts(words)?[..] {
        ["-v" | "-V", ..] => Ok(()),
        _ => Err("runs unasked only with -v".into()),
    }
}

fn find(words: &[Word], known: &mut ReadAccess) -> Read<()> {
    const TESTS: &str = "! ( ) , -P -a -amin: -and -anewer@ -atime: -cmin: -cnewer@ -ctime: -daystart -depth -empty -executable -false \
        -group: -ilname: -iname: -inum: -ipath: -iregex: -iwholename: -links: -lname: -ls -maxdepth: -mindepth: -mmin: -mount \
        -mtime: -name: -newer@ -newerct: -newermt: -nogroup -not -nouser -o -or -path: -perm: -print -print0 -printf: -prune \
        -quit -readable -regex: -regextype: -samefile@ -size: -true -type: -uid: -user: -wholename: -writable -xdev -xtype:";
    let is_test = |word: &&Word| word.text.starts_with(['-', '(', ')', '!', ',']);
    let start = words.iter().position(|word| is_test(&word) && word.text != "-P").unwrap_or(words.len());
    known.paths.extend(words[..start].iter().filter(|word| word.text != "-P").cloned());
    let mut tests = texts(&words[start..])?.into_iter();
    while let Some(test) = tests.next() {
        let kind =
            TESTS.split_ascii_whitespace().find_map(|known| known.strip_prefix(test).filter(|kind| kind.len() < 2));
        match (kind, kind.filter(|kind| !kind.is_empty()).and_then(|_| tests.next())) {
            (Some(""), _) | (Some(":"), Some(_)) => {}
            (Some("@"), Some(path)) => known.paths.push(literal(path)),
            _ => return Err(format!("has {test}")),
        }
    }
    Ok(())
}

/// Refuses `%n`, which sets a variable.
fn printf(words: &[Word], _: &mut ReadAccess) -> Read<()> {
    let format = *texts(words)?.first().unwrap_or(&"-");
    let counts = format.split('%').skip(1).any(|rest| {
        rest.trim_start_matches(|c: char| c.is_ascii_digit() || "#-+ '.*hlLjzt".contains(c)).starts_with('n')
    });
    match counts || format.starts_with('-') {
        true => Err("may set a variable".into()),
        false => Ok(()),
    }
}

fn test(words: &[Word], known: &mut ReadAccess) -> Read<()> {
    let words = texts(words)?;
    let words = words.strip_suffix(&["]"]).unwrap_or(&words);
    match words {
        ["-e" | "-f" | "-d" | "-s" | "-r" | "-w" | "-x" | "-L" | "-h", path] => known.paths.push(literal(path)),
        ["-n" | "-z", _] => {}
        [_, "=" | "==" | "!=" | "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge", _] => {}
        [one, "-nt" | "-ot" | "-ef", other] => known.paths.extend([literal(one), literal(other)]),
        _ => return Err("has a condition that is not known".into()),
    }
    Ok(())
}

/// Refuses modules, which could be read from anywhere.
fn jq(filter: &str) -> bool {
    !["#", "import", "include", "module"].iter().any(|word| filter.trim_start().starts_with(word))
}

/// Accepts `3,9p`, `/a/,/b/p`, `$=`, `5q` and `s/a/b/g`, and several of them separated by `;`.
///
/// An address must not end in a backslash, because the slash after it would be part of the address, and the text that looks like the next
/// address would be a command: `/\/p;/e touch x/p` runs a program.
fn sed(script: &str) -> bool {
    let address = |text: &str| {
        let inner = text.strip_prefix('/').and_then(|text| text.strip_suffix('/'));
        text == "$"
            || inner.is_some_and(|text| !text.contains(['/', '\n']) && !text.ends_with('\\'))
            || (!text.is_empty() && text.chars().all(|c| c.is_ascii_digit()))
    };
    let substitutes = |text: &str| {
        let sign = text.strip_prefix('s').and_then(|rest| rest.chars().next()).filter(|sign| "/|,#:@".contains(*sign));
        let parts: Vec<&str> = sign.map_or(Vec::new(), |sign| text.split(sign).collect());
        matches!(parts[..], [_, _, _, flags] if flags.chars().all(|c| c.is_ascii_digit() || "gIp".contains(c)))
    };
    if substitutes(script) && !script.contains('\n') {
        return true;
    }
    script.split(';').map(str::trim).all(|command| {
        command.strip_suffix(['p', '=', 'q']).is_some_and(|range| match range.split_once(',') {
            Some((from, to)) => address(from) && address(to),
            None => range.is_empty() || address(range),
        })
    })
}

fn git(words: &[Word], known: &mut ReadAccess) -> Read<()> {
    let words = match words.first() {
        Some(first) if matches!(first.text.as_str(), "--no-pager" | "-P") => &words[1..],
        _ => words,
    };
    let Some((subcommand, rest)) = words.split_first() else {
        return Err("does nothing without a subcommand".into());
    };
    let name = subcommand.text.as_str();
    if matches!(name, "--version" | "version") && rest.is_empty() {
        return Ok(());
    }
    known.is_git = true;
    let Some((_, spec, operands)) = GIT.iter().find(|(names, ..)| is_one_of(names, name)) else {
        return Err(format!("{name} is not known to only read"));
    };
    let Given { operands: given, options: names, .. } = options(spec, rest, &mut ReadAccess::default())?;
    let given: Vec<&str> = given.iter().map(|word| word.text.as_str()).collect();
    let lists =
        |option: &String| is_one_of("-l --list --contains --no-contains --merged --no-merged --points-at", option);
    let reads = match name {
        // Another operand would be the name of a new branch or tag.
        "branch" | "tag" => given.is_empty() || names.iter().any(lists),
        "stash" => matches!(given[..], ["list" | "show", ..]),
        "reflog" => matches!(given[..], [] | ["show", ..]),
        "remote" => matches!(given[..], [] | ["get-url", _]),
        "worktree" => matches!(given[..], ["list"]),
        _ => true,
    };
    if !reads {
        return Err(format!("{name} may change something with these operands"));
    }
    check(spec, operands, rest, known).map_err(|why| format!("{name} {why}"))
}
