//! The files of servers that share a state directory.

use super::*;
use crate::shell::journal::instances::Instance;

#[test]
fn the_id_of_a_dead_server_is_taken_by_one_other_server() {
    let scratch = Scratch::new();
    let (first, second) = (scratch.instances(), scratch.instances());
    let ids = [first.own().to_owned(), second.own().to_owned()];
    assert_ne!(ids[0], ids[1]);
    drop(first);
    let third = scratch.instances();
    assert_eq!(third.all().collect::<Vec<_>>(), [ids[0].as_str()]);
    drop((second, third));
    let last = scratch.instances();
    let mut all: Vec<_> = last.all().map(str::to_owned).collect();
    assert_eq!(all[0], last.own());
    all.sort();
    let mut expected = ids.to_vec();
    expected.sort();
    assert_eq!(all, expected, "one server answers for both that are gone");
}

#[test]
fn only_living_servers_are_listed() {
    let scratch = Scratch::new();
    let dir = scratch.0.join("instances");
    let instance = |pid| Instance {
        pid,
        listen: vec!["127.0.0.1:41242".into(), "unix:/run/a.sock".into()],
        url: "http://localhost:41242/".into(),
        started: "2026-01-01T12:00:00.000Z".into(),
    };
    let living = || {
        let mut living = instances::living(&dir);
        living.sort_by_key(|instance| instance.pid);
        living
    };
    let (mut first, mut second) = (scratch.instances(), scratch.instances());
    assert_eq!(living(), [], "they are starting");
    first.announce(&instance(1)).unwrap();
    second.announce(&instance(2)).unwrap();
    assert_eq!(living(), [instance(1), instance(2)]);
    second.announce(&Instance { listen: vec![], ..instance(2) }).unwrap();
    assert_eq!(living(), [instance(1), Instance { listen: vec![], ..instance(2) }]);
    drop(first);
    assert_eq!(living().len(), 1, "it ended in order");

    // A server that was killed leaves its file, unlocked.
    let text = serde_json::to_string(&instance(3)).unwrap();
    assert_eq!(
        text,
        r#"{"pid":3,"listen":["127.0.0.1:41242","unix:/run/a.sock"],"url":"http://localhost:41242/","started":"2026-01-01T12:00:00.000Z"}"#
    );
    let killed = dir.join("killed");
    fs::write(&killed, &text).unwrap();
    assert_eq!(living().len(), 1, "it is not locked");
    let third = scratch.instances();
    assert_eq!(living().len(), 1, "it is locked by one who is starting, and emptied");
    assert_eq!(fs::read(&killed).unwrap(), b"");
    drop(third);
    let room = usize::try_from(INSTANCE_BYTES).unwrap()
        - serde_json::to_vec(&Instance { url: "".into(), ..instance(2) }).unwrap().len();
    for (more, count) in [(0, 1), (1, 0)] {
        second.announce(&Instance { url: "x".repeat(room + more), ..instance(2) }).unwrap();
        assert_eq!(living().len(), count, "{more} more bytes than are read");
    }
    drop(second);
    let pipe = std::process::Command::new("mkfifo").arg(dir.join("pipe")).status();
    assert!(pipe.unwrap().success());
    assert_eq!(living(), [], "nobody waits for a writer");
}
