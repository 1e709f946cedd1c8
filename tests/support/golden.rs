//! Comparison of whole outputs with files of `tests/golden`.

use std::path::PathBuf;

/// Fails at the first line in which the output differs from the file. With `GOLDEN=write` the output is written to the file first.
pub fn compare(file: &str, seen: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    if std::env::var_os("GOLDEN").is_some_and(|word| word == "write") {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder for golden files");
        std::fs::write(&path, seen).expect("the golden file can be written");
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = golden.lines().zip(seen.lines()).zip(1..).find(|((golden, seen), _)| golden != seen);
    assert_eq!(differs, None, "{file}; if that is meant, run this test with GOLDEN=write and read the diff");
    assert_eq!(golden, seen, "{file}");
}
