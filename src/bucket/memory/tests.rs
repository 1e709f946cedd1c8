use super::*;

fn put(bucket: &MemoryBucket, name: &str, text: &str, expect: Expect) -> Answer<Put> {
    bucket.put(name, &text.as_bytes().into(), &Meta::new(), &expect)
}

fn get(bucket: &MemoryBucket, name: &str) -> Option<String> {
    let object = bucket.get(name).unwrap().value?;
    Some(String::from_utf8(object.bytes.to_vec()).unwrap())
}

#[test]
fn only_the_first_create_succeeds() {
    let bucket = MemoryBucket::new();
    let Put::Written(version) = put(&bucket, "a", "1", Expect::Absent).unwrap().value else { panic!("refused") };
    assert_eq!(put(&bucket, "a", "2", Expect::Absent).unwrap().value, Put::PreconditionFailed);
    assert!(matches!(put(&bucket, "a", "3", Expect::Version(version.clone())).unwrap().value, Put::Written(_)));
    assert_eq!(put(&bucket, "a", "4", Expect::Version(version.clone())).unwrap().value, Put::PreconditionFailed);
    assert_eq!(bucket.delete("a", Some(&version)).unwrap().value, Deletion::PreconditionFailed);
    assert_eq!(get(&bucket, "a").as_deref(), Some("3"));
    assert_eq!(bucket.delete("a", None).unwrap().value, Deletion::Deleted);
    assert_eq!(bucket.delete("a", None).unwrap().value, Deletion::Deleted);
    assert_eq!(get(&bucket, "a"), None);
}

#[test]
fn lists_have_pages_and_folders() {
    let bucket = MemoryBucket::new().with_pages_of(2);
    for name in ["t/a/1", "t/a/2", "t/b/1", "t/c", "t/d", "u"] {
        put(&bucket, name, "", Expect::Any).unwrap();
    }
    for (folders, expected) in [(true, "t/a/ t/b/ t/c t/d"), (false, "t/a/1 t/a/2 t/b/1 t/c t/d")] {
        let mut list = List { prefix: "t/".to_owned(), after: None, folders };
        let mut names = Vec::new();
        loop {
            let page = bucket.list(&list).unwrap().value;
            assert!(page.entries.len() + page.folders.len() <= 2);
            names.extend(page.folders);
            names.extend(page.entries.into_iter().map(|entry| entry.name));
            match page.next {
                Some(next) => list.after = Some(next),
                None => break,
            }
        }
        assert_eq!(names.join(" "), expected);
    }
}

#[test]
fn faults_are_as_planned() {
    let mut faults =
        VecDeque::from([Some(Fault::LostRequest), Some(Fault::LostAnswer), Some(Fault::Late { after: 2 }), None]);
    let bucket = MemoryBucket::with_faults(move |_| faults.pop_front().flatten());
    put(&bucket, "lost", "1", Expect::Absent).unwrap_err();
    put(&bucket, "done", "1", Expect::Absent).unwrap_err();
    put(&bucket, "late", "1", Expect::Absent).unwrap_err();
    assert_eq!(get(&bucket, "lost"), None);
    assert_eq!(get(&bucket, "late").as_deref(), Some("1"));
    assert_eq!(get(&bucket, "done").as_deref(), Some("1"));
}

#[test]
fn a_request_may_be_carried_out_again() {
    let mut faults = VecDeque::from([Some(Fault::Twice { after: 2 })]);
    let bucket = MemoryBucket::with_faults(move |_| faults.pop_front().flatten());
    assert!(matches!(put(&bucket, "a", "1", Expect::Absent).unwrap().value, Put::Written(_)));
    bucket.delete("a", None).unwrap();
    assert_eq!(get(&bucket, "a").as_deref(), Some("1"));
}
