//! Reads git's index to find out whether it contains submodules. Versions 2 to 4 with any object format are understood. For another
//! version, or a damaged index, the result is None.

/// The number of bytes of an entry before the object name, and the position of the mode in them.
const STAT: usize = 40;
const MODE: usize = 24;

/// Whether an index contains submodules. None if it is not understood, or if some of its entries are in another file.
pub(in crate::tool) fn names_submodules(index: &[u8], hash_bytes: usize) -> Option<bool> {
    let version = number(index, 4)?;
    if index.get(..4)? != b"DIRC" || !(2..=4).contains(&version) {
        return None;
    }
    let mut at = 12;
    for _ in 0..number(index, 8)? {
        const TYPE: u32 = 0o170_000;
        const SUBMODULE: u32 = 0o160_000;
        if number(index, at + MODE)? & TYPE == SUBMODULE {
            return Some(true);
        }
        at = next(index, at, version, hash_bytes)?;
    }
    let mut extensions = index.get(at..index.len().checked_sub(hash_bytes)?)?;
    while !extensions.is_empty() {
        if extensions.get(..4)? == b"link" {
            return None;
        }
        let len = usize::try_from(number(extensions, 4)?).ok()?;
        extensions = extensions.get(8..)?.get(len..)?;
    }
    Some(false)
}

/// The position of the entry after the one at `at`.
fn next(index: &[u8], at: usize, version: u32, hash_bytes: usize) -> Option<usize> {
    /// This flag means that two more bytes of flags follow.
    const IS_EXTENDED: u8 = 0x40;
    let flags = at + STAT + hash_bytes;
    let is_extended = index.get(flags)? & IS_EXTENDED != 0;
    let name = flags + if is_extended { 4 } else { 2 };
    let end_of = |from: usize| Some(from + memchr::memchr(0, index.get(from..)?)?);
    if version < 4 {
        // One to eight zeros fill the entry to a multiple of eight bytes.
        let len = end_of(name)? - at;
        return Some(at + (len + 8) / 8 * 8);
    }
    // The number of bytes to remove from the end of the name before, as a variable-length integer whose last byte has no top bit; then
    // the rest of the name.
    let last = index.get(name..)?.iter().position(|byte| byte & 0x80 == 0)?;
    Some(end_of(name + last + 1)? + 1)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::tests::Scratch;
    use std::process::Command;

    /// The index that git itself writes for some files and, with `gitlink`, a submodule between them.
    fn written_by_git(format: &str, version: &str, gitlink: bool) -> Option<Vec<u8>> {
        let scratch = Scratch::new();
        let git = |args: &[&str]| {
            let mut command = Command::new("git");
            command.args(["-c", "core.splitIndex=false"]).args(args).current_dir(scratch.path());
            let done = command.env("GIT_CONFIG_GLOBAL", "/dev/null").output().ok()?;
            done.status.success().then_some(())
        };
        git(&["init", "-q", "--object-format", format])?;
        for name in ["a", "dir/a-name-of-some-length", "dir/another-name-of-some-length", "z"] {
            scratch.put(name, name);
        }
        git(&["add", "."])?;
        git(&["add", "-N", "z"])?;
        if gitlink {
            let object = "1".repeat(if format == "sha1" { 40 } else { 64 });
            git(&["update-index", "--add", "--cacheinfo", &format!("160000,{object},dir/sub")])?;
        }
        scratch.put("later", "");
        git(&["add", "-N", "later"])?;
        git(&["update-index", "--index-version", version])?;
        std::fs::read(scratch.path().join(".git/index")).ok()
    }

    #[test]
    fn submodules_are_found_in_what_git_writes() {
        for (format, hash_bytes) in [("sha1", 20), ("sha256", 32)] {
            for version in ["2", "3", "4"] {
                let case = format!("{format} {version}");
                let [without, with] = [false, true].map(|gitlink| written_by_git(format, version, gitlink));
                let (Some(without), Some(with)) = (without, with) else {
                    println!("skipped: {case}: git does not write it");
                    continue;
                };
                assert_eq!(names_submodules(&without, hash_bytes), Some(false), "{case}");
                assert_eq!(names_submodules(&with, hash_bytes), Some(true), "{case}");
                for end in 0..without.len() {
                    assert_ne!(names_submodules(&without[..end], hash_bytes), Some(true), "{case}");
                }
            }
        }
    }

    #[test]
    fn unknown_index_formats_give_no_answer() {
        let empty = |version: u8, rest: &[u8]| [b"DIRC\0\0\0", &[version][..], &[0; 4], rest, &[0; 20]].concat();
        assert_eq!(names_submodules(&empty(2, b""), 20), Some(false));
        assert_eq!(names_submodules(&empty(2, b"TREE\0\0\0\x02ab"), 20), Some(false));
        assert_eq!(names_submodules(&empty(2, b"TREE\0\0\0\x03ab"), 20), None, "the index is incomplete");
        assert_eq!(names_submodules(&empty(2, b"TREE\xff\xff\xff\xffab"), 20), None);
        assert_eq!(names_submodules(&empty(2, b"link\0\0\0\0"), 20), None, "the other entries are in another file");
        assert_eq!(names_submodules(&empty(5, b""), 20), None);
        assert_eq!(names_submodules(b"", 20), None);
    }
}
