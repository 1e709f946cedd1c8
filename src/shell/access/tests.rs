//! Tests of reading, checking and changing the credentials file.

use super::credentials::{CredentialsReader, Readers, change};
use crate::limits::access::CREDENTIALS_BYTES;
use crate::task::access::Right;
use crate::task::access::credentials::{Credential, CredentialsFile, RightWord};
use crate::task::access::token::Hash;
use crate::tool::tests::Scratch;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn credential(id: &str) -> Credential {
    Credential {
        id: id.into(),
        subject: "dev".into(),
        rights: vec![RightWord(Right::View)],
        sha256: Hash::of(id),
        was: None,
        not_after: None,
        roots: Vec::new(),
        tenant: None,
        rate: None,
        note: String::new(),
    }
}

fn write(path: &Path, ids: &[&str], mode: u32) {
    let file = CredentialsFile { credentials: ids.iter().map(|id| credential(id)).collect(), ..Default::default() };
    fs::write(path, file.write()).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn credentials_path(scratch: &Scratch) -> PathBuf {
    scratch.path().join("credentials.json")
}

fn ids(file: &CredentialsFile) -> Vec<&str> {
    file.credentials.iter().map(|credential| &*credential.id).collect()
}

#[test]
fn a_file_that_others_could_change_or_read_is_refused() {
    let scratch = Scratch::new();
    let path = credentials_path(&scratch);
    for (mode, readers, words) in [
        (0o600, Readers::Owner, None),
        (0o400, Readers::Owner, None),
        (0o644, Readers::Owner, Some("can be read by others (mode 644)")),
        (0o640, Readers::Owner, Some("can be read by others")),
        (0o644, Readers::Platform, None),
        (0o620, Readers::Owner, Some("can be written by others (mode 620)")),
        (0o666, Readers::Platform, Some("can be written by others")),
    ] {
        write(&path, &["a"], mode);
        let opened = CredentialsReader::open(&path, readers).map(drop);
        match words {
            None => assert_eq!(opened, Ok(()), "{mode:o}"),
            Some(words) => assert!(opened.as_ref().is_err_and(|error| error.contains(words)), "{mode:o} {opened:?}"),
        }
        fs::remove_file(&path).unwrap();
    }
    // A link is checked as the file that it leads to.
    write(&path, &["a"], 0o600);
    let link = scratch.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert!(CredentialsReader::open(&link, Readers::Owner).is_ok());
    assert!(CredentialsReader::open(scratch.path(), Readers::Owner).map(drop).unwrap_err().contains("is not a file"));
}

#[test]
fn a_file_is_as_large_as_the_limit_says() {
    let scratch = Scratch::new();
    let path = credentials_path(&scratch);
    for (bytes, fits) in [(CREDENTIALS_BYTES, true), (CREDENTIALS_BYTES + 1, false)] {
        let mut text = br#"{"v":1,"credentials":[]}"#.to_vec();
        text.resize(bytes as usize, b' ');
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(CredentialsReader::open(&path, Readers::Owner).is_ok(), fits, "{bytes}");
    }
}

#[test]
fn platforms_that_mount_secrets_are_known_by_their_variables() {
    for name in ["K_SERVICE", "KUBERNETES_SERVICE_HOST", "CREDENTIALS_DIRECTORY"] {
        assert_eq!(Readers::of_environment(&|asked| (asked == name).then(|| "x".into())), Readers::Platform);
        assert_eq!(Readers::of_environment(&|asked| (asked == name).then(String::new)), Readers::Owner, "empty");
    }
    assert_eq!(Readers::of_environment(&|_| None), Readers::Owner);
}

#[test]
fn a_change_is_noticed_once_and_a_broken_file_is_an_error() {
    let scratch = Scratch::new();
    let path = credentials_path(&scratch);
    let (reader, file) = CredentialsReader::open(&path, Readers::Owner).unwrap();
    assert_eq!((ids(&file).len(), reader.changed()), (0, None), "there is none yet");
    write(&path, &["a"], 0o600);
    assert_eq!(ids(&reader.changed().expect("it is new").unwrap()), ["a"]);
    assert_eq!(reader.changed(), None);
    fs::write(&path, "{").unwrap();
    assert!(reader.changed().expect("it changed").unwrap_err().contains("is not valid"));
    assert_eq!(reader.changed(), None, "once");
    fs::remove_file(&path).unwrap();
    assert!(reader.changed().expect("it is gone").unwrap_err().contains("cannot be read"));
}

#[test]
fn the_file_is_changed_as_a_whole_and_stays_private() {
    let scratch = Scratch::new();
    let path = scratch.path().join("new/credentials.json");
    let add = |credential: Credential| {
        change(&path, |file| {
            file.credentials.push(credential);
            Ok(())
        })
    };
    add(credential("a")).unwrap();
    add(credential("b")).unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let before = fs::read(&path).unwrap();
    assert_eq!(change(&path, |_| Err::<(), _>("no".to_owned())), Err("no".into()));
    let invalid = add(Credential { subject: " ".into(), ..credential("c") });
    assert!(invalid.unwrap_err().contains("credential \"c\": a subject has"));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn changes_that_are_made_at_the_same_time_are_all_kept() {
    const ALL: usize = 24;
    let scratch = Scratch::new();
    let path = credentials_path(&scratch);
    write(&path, &["gone"], 0o600);
    std::thread::scope(|scope| {
        for n in 0..ALL {
            let path = &path;
            scope.spawn(move || {
                change(path, |file| {
                    file.credentials.push(credential(&format!("c{n}")));
                    Ok(())
                })
                .unwrap();
            });
        }
        scope.spawn(|| {
            change(&path, |file| {
                file.credentials.retain(|credential| &*credential.id != "gone");
                Ok(())
            })
            .unwrap();
        });
    });
    let (_, file) = CredentialsReader::open(&path, Readers::Owner).unwrap();
    let mut found: Vec<String> = ids(&file).into_iter().map(str::to_owned).collect();
    let mut expected: Vec<String> = (0..ALL).map(|n| format!("c{n}")).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn a_pipe_is_refused_and_not_waited_for() {
    let scratch = Scratch::new();
    let path = credentials_path(&scratch);
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let opened = CredentialsReader::open(&path, Readers::Owner).map(drop);
    assert!(opened.unwrap_err().contains("is not a file"));
}
