//! The token of a client: from a file or from the environment, not from the command line, which other processes can read.

use crate::base::secret::Secret;
use crate::limits::ui::TOKEN_BYTES;
use crate::shell::access::credentials::Readers;
use crate::shell::event_loop::sys;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

const VARIABLE: &str = "GEMINI_A2A_TOKEN";

/// The token in the file that was named, or that of the environment. An error is one line and contains no part of the token.
pub fn find(file: Option<&str>, env: &dyn Fn(&str) -> Option<String>) -> Result<Option<Secret>, String> {
    match file {
        Some(file) => {
            let token = read(file, Readers::of_environment(env));
            token.map(Some).map_err(|why| format!("the token file {} {why}", file.escape_debug()))
        }
        None => match env(VARIABLE).as_deref().map(str::trim).filter(|token| !token.is_empty()) {
            Some(token) => word(token).map(Some).map_err(|why| format!("{VARIABLE} {why}")),
            None => Ok(None),
        },
    }
}

fn read(file: &str, readers: Readers) -> Result<Secret, String> {
    let failed = |error| format!("cannot be read: {error}");
    let opened = File::open(file).map_err(failed)?;
    check(&opened.metadata().map_err(failed)?, readers)?;
    let mut bytes = Vec::new();
    opened.take(TOKEN_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > TOKEN_BYTES {
        return Err(format!("is larger than {TOKEN_BYTES} bytes"));
    }
    word(String::from_utf8(bytes).unwrap_or_default().trim())
}

/// Whoever can read the file can act as this client, and whoever can write it can make this client act for somebody else.
fn check(file: &Metadata, readers: Readers) -> Result<(), String> {
    let mode = file.mode() & 0o777;
    // The shell passes a pipe for <(command).
    if !file.is_file() && !file.file_type().is_fifo() {
        return Err("is no file".into());
    }
    if file.uid() != sys::effective_uid() && file.uid() != 0 {
        return Err("belongs to another user".into());
    }
    let closed = match readers {
        Readers::Owner => 0o066,
        Readers::Platform => 0o022,
    };
    match mode & closed {
        0 => Ok(()),
        _ => Err(format!("can be read or written by others (mode {mode:03o}); run chmod 600 on it")),
    }
}

fn word(token: &str) -> Result<Secret, String> {
    let is_word = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    is_word.then(|| Secret::new(token)).ok_or_else(|| "has to contain one word: the token".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::tests::Scratch;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn environment(variables: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        move |name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn the_file_counts_before_the_variable() {
        let scratch = Scratch::new();
        let path = scratch.path().join("token");
        let file = path.to_str().expect("a path");
        fs::write(&path, " of-file\n").expect("a file");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("our own file");
        let env = environment(&[(VARIABLE, " of-variable ")]);
        assert_eq!(find(Some(file), &env), Ok(Some(Secret::new("of-file"))));
        assert_eq!(find(None, &env), Ok(Some(Secret::new("of-variable"))));
        assert_eq!(find(None, &environment(&[(VARIABLE, " ")])), Ok(None));
        assert_eq!(find(None, &environment(&[])), Ok(None));
    }

    #[test]
    fn a_file_that_others_may_read_is_refused_and_no_error_contains_a_token() {
        let scratch = Scratch::new();
        let path = scratch.path().join("token");
        let file = path.to_str().expect("a path");
        let with = |text: &str, mode| {
            let _ = fs::remove_file(&path);
            fs::write(&path, text).expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("our own file");
        };
        let none = environment(&[]);
        for (text, mode, words) in [
            ("planted", 0o640, "can be read or written by others (mode 640); run chmod 600"),
            ("planted", 0o602, "can be read or written by others"),
            ("planted two", 0o600, "one word"),
            ("planted\r\nX: y", 0o600, "one word"),
            ("", 0o600, "one word"),
            (&"planted".repeat(10_000), 0o600, "is larger than"),
        ] {
            with(text, mode);
            let error = find(Some(file), &none).expect_err("it is wrong");
            assert!(error.contains(words) && !error.contains("planted") && !error.contains('\n'), "{error}");
        }
        with("planted", 0o644);
        let platform = environment(&[("KUBERNETES_SERVICE_HOST", "10.0.0.1")]);
        assert_eq!(find(Some(file), &platform), Ok(Some(Secret::new("planted"))));
        with("planted", 0o646);
        assert!(find(Some(file), &platform).is_err());
        for (file, words) in [("/none/such", "cannot be read"), ("/", "is no file")] {
            assert!(find(Some(file), &none).expect_err(file).contains(words), "{file}");
        }
        assert!(find(None, &environment(&[(VARIABLE, "planted two")])).expect_err("two").contains(VARIABLE));
    }
}
