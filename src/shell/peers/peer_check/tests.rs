//! Tests of the peer check: tools, other servers, late connections.

use super::*;
use crate::base::id::Entropy;
use crate::base::slots::Slots;
use crate::shell::journal::instances::{Instance, Instances};
use crate::tool::tests::Scratch;
use std::net::{TcpListener, TcpStream};

/// A peer check and a directory of instances, which other servers may share.
struct Harness {
    scratch: Scratch,
    supervisors: Supervisors,
    peer_check: PeerCheck,
    listener: TcpListener,
    keys: Slots<()>,
}

fn control() -> Arc<std::os::unix::net::UnixStream> {
    Arc::new(std::os::unix::net::UnixStream::pair().unwrap().0)
}

/// A process that was not stopped.
fn never() -> Arc<AtomicBool> {
    Arc::default()
}

impl Harness {
    fn new() -> Harness {
        let scratch = Scratch::new();
        std::fs::create_dir_all(scratch.path().join("instances")).unwrap();
        let supervisors = Supervisors::default();
        let peer_check =
            PeerCheck::new(supervisors.clone(), &scratch.path().join("instances"), Some(never()), &Limits::default());
        Harness {
            scratch,
            supervisors,
            peer_check,
            listener: TcpListener::bind("127.0.0.1:0").unwrap(),
            keys: Slots::default(),
        }
    }

    /// A connection of this process, and how its peer is identified.
    fn connect(&mut self) -> (TcpStream, TcpStream, Peer, PeerProcess) {
        let client = TcpStream::connect(self.listener.local_addr().unwrap()).unwrap();
        let (stream, address) = self.listener.accept().unwrap();
        let (peer, process) = self.peer_check.tcp(address, stream.local_addr().unwrap());
        (client, stream, peer, process)
    }

    fn peer(&mut self) -> Peer {
        self.connect().2
    }

    /// Asks about a connection and waits for the answer.
    fn inquire(&mut self, process: PeerProcess) -> Identity {
        let key = self.keys.insert(());
        self.peer_check.ask(key, process);
        let answers = self.peer_check.inquiry().expect("something to find out").run();
        let mut found = self.peer_check.answered(answers);
        assert_eq!(found.len(), 1);
        let (answered, identity) = found.remove(0);
        assert_eq!(answered, key);
        identity
    }

    /// Another server in the same directory, whose process has this pid.
    fn other_server(&self, pid: u32) -> Instances {
        let mut instances = Instances::open(self.scratch.path(), &mut Entropy::counting_after(0)).unwrap();
        let instance = Instance { pid, listen: vec![], url: String::new(), started: String::new() };
        instances.announce(&instance).unwrap();
        instances
    }
}

#[test]
fn without_tools_and_other_servers_every_peer_is_the_user() {
    let mut harness = Harness::new();
    assert_eq!(harness.peer(), Peer::SameUser);
    assert!(harness.peer_check.inquiry().is_none());
}

#[test]
fn while_a_tool_runs_every_peer_may_be_a_tool() {
    let mut harness = Harness::new();
    harness.supervisors.begin(u32::MAX, control());
    let (client, _stream, peer, process) = harness.connect();
    assert_eq!(peer, Peer::MaybeTool);
    assert_eq!(harness.inquire(process), Identity::SameUser, "our own process holds it");
    drop(client);
    assert_eq!(harness.inquire(process), Identity::Unclear, "nobody holds it any more");
    // The process that holds it is a supervisor, as if it were below one.
    let (_client, _stream, _, process) = harness.connect();
    harness.supervisors.begin(std::process::id(), control());
    assert_eq!(harness.inquire(process), Identity::Tool);
}

#[test]
fn a_peer_that_is_gone_when_it_is_accepted_may_be_a_tool() {
    let mut harness = Harness::new();
    let gone = |harness: &mut Harness| {
        let client = TcpStream::connect(harness.listener.local_addr().unwrap()).unwrap();
        drop(client);
        let (stream, address) = harness.listener.accept().unwrap();
        harness.peer_check.tcp(address, stream.local_addr().unwrap()).0
    };
    assert_eq!(gone(&mut harness), Peer::Stranger, "there was no tool");
    harness.supervisors.begin(u32::MAX, control());
    assert_eq!(gone(&mut harness), Peer::Gone);
    let local = harness.listener.local_addr().unwrap();
    assert_eq!(harness.peer_check.tcp("192.0.2.1:80".parse().unwrap(), local).0, Peer::Stranger, "another machine");
}

#[test]
fn another_user_of_this_machine_may_be_a_tool_while_one_runs() {
    let switch = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let able = std::process::Command::new("setpriv").args(switch).arg("true").status();
    if !able.is_ok_and(|status| status.success()) {
        println!("skipped: becoming another user takes root and setpriv");
        return;
    }
    let mut harness = Harness::new();
    let port = harness.listener.local_addr().unwrap().port();
    // The child connects, and runs until its connection ends.
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; read -r line <&3");
    let connect = |harness: &mut Harness| {
        let mut command = std::process::Command::new("setpriv");
        let child = command.args(switch).args(["bash", "-c", &script]).spawn().unwrap();
        let (stream, address) = harness.listener.accept().unwrap();
        let (peer, process) = harness.peer_check.tcp(address, stream.local_addr().unwrap());
        (child, stream, peer, process)
    };
    let (mut child, stream, peer, _) = connect(&mut harness);
    assert_eq!(peer, Peer::Stranger, "there was no tool");
    drop(stream);
    child.wait().unwrap();
    harness.supervisors.begin(u32::MAX, control());
    let (mut child, stream, peer, process) = connect(&mut harness);
    assert_eq!(peer, Peer::OtherUser);
    assert_eq!(harness.inquire(process), Identity::Stranger, "our own child");
    harness.supervisors.begin(child.id(), control());
    assert_eq!(harness.inquire(process), Identity::Tool, "a child of a supervisor");
    drop(stream);
    child.wait().unwrap();
    assert_eq!(harness.inquire(process), Identity::Unclear, "it has ended");
}

#[test]
fn a_peer_that_may_have_connected_while_a_tool_ran_may_be_a_tool() {
    let mut harness = Harness::new();
    harness.peer_check.poll_begins();
    harness.supervisors.begin(7, control());
    harness.supervisors.end(7);
    assert_eq!(harness.peer(), Peer::MaybeTool, "it may have waited in the backlog since then");
    harness.peer_check.accept_queues_were_empty();
    assert_eq!(harness.peer(), Peer::MaybeTool, "the poll began before the tool");
    harness.peer_check.poll_begins();
    harness.peer_check.accept_queues_were_empty();
    assert_eq!(harness.peer(), Peer::SameUser);
}

#[test]
fn after_a_full_accept_queue_connections_of_ended_tools_may_come_late() {
    let after_full_queue = |limits: &Limits| {
        let mut harness = Harness::new();
        harness.peer_check = PeerCheck::new(
            harness.supervisors.clone(),
            &harness.scratch.path().join("instances"),
            Some(never()),
            limits,
        );
        harness.peer_check.accept_queue_was_full();
        assert_eq!(harness.peer(), Peer::SameUser, "no tool had connected");
        harness.supervisors.begin(7, control());
        harness.peer_check.accept_queue_was_full();
        harness.supervisors.end(7);
        harness.peer_check.poll_begins();
        harness.peer_check.accept_queues_were_empty();
        let (client, _stream, peer, process) = harness.connect();
        if peer == Peer::MaybeTool {
            assert_eq!(harness.inquire(process), Identity::SameUser, "our own process holds it");
            drop(client);
            assert_eq!(harness.inquire(process), Identity::Unclear, "nobody holds it");
        }
        peer
    };
    assert_eq!(after_full_queue(&Limits::default()), Peer::MaybeTool);
    assert_eq!(after_full_queue(&Limits { late_connection_ms: 0, ..Limits::default() }), Peer::SameUser, "it is over");
}

#[test]
fn another_server_is_noticed_when_it_starts_and_when_it_ends() {
    let mut harness = Harness::new();
    let other = harness.other_server(u32::MAX);
    let (_client, _stream, peer, process) = harness.connect();
    assert_eq!(peer, Peer::MaybeTool);
    assert_eq!(harness.inquire(process), Identity::SameUser);
    assert_eq!(harness.peer(), Peer::MaybeTool, "it is still there");
    drop(other);
    assert_eq!(harness.peer(), Peer::MaybeTool, "nobody has looked since");
    assert_eq!(harness.inquire(process), Identity::SameUser);
    assert_eq!(harness.peer(), Peer::SameUser);
    // The other server runs before this one starts, and it is the parent of the process that holds the socket.
    let parent = rustix::process::getppid().unwrap().as_raw_pid() as u32;
    let _other = harness.other_server(parent);
    let instances = harness.scratch.path().join("instances");
    harness.peer_check = PeerCheck::new(harness.supervisors.clone(), &instances, Some(never()), &Limits::default());
    assert_eq!(harness.peer(), Peer::MaybeTool);
    let mut child = std::process::Command::new("cat");
    let (client, _stream, _, process) = harness.connect();
    let mut child = child.stdin(OwnedFd::from(client)).stdout(std::process::Stdio::null()).spawn().unwrap();
    assert_eq!(harness.inquire(process), Identity::SameUser, "our own child, and we are no tool of theirs");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_change_during_an_inquiry_is_not_missed() {
    let mut harness = Harness::new();
    let first = harness.other_server(u32::MAX);
    let (_client, _stream, _, process) = harness.connect();
    drop(first);
    let key = harness.keys.insert(());
    harness.peer_check.ask(key, process);
    let answers = harness.peer_check.inquiry().expect("something to find out").run();
    let _second = harness.other_server(u32::MAX);
    harness.peer_check.answered(answers);
    assert_eq!(harness.peer(), Peer::MaybeTool, "the answer is older than the second server");
}

#[test]
fn without_a_watched_directory_every_peer_may_be_a_tool() {
    let mut harness = Harness::new();
    std::fs::remove_dir(harness.scratch.path().join("instances")).unwrap();
    let (_client, _stream, peer, process) = harness.connect();
    assert_eq!(peer, Peer::MaybeTool, "the directory is gone");
    assert_eq!(harness.inquire(process), Identity::SameUser);
    assert_eq!(harness.peer(), Peer::MaybeTool);
}

#[test]
fn one_inquiry_answers_for_all_waiting_connections() {
    let mut harness = Harness::new();
    harness.supervisors.begin(u32::MAX, control());
    let first = harness.connect();
    let others: Vec<_> = (0..3).map(|_| harness.connect()).collect();
    let key = harness.keys.insert(());
    harness.peer_check.ask(key, first.3);
    let inquiry = harness.peer_check.inquiry().expect("one");
    let keys: Vec<Key> = others.iter().map(|_| harness.keys.insert(())).collect();
    for (key, (.., process)) in keys.iter().zip(&others) {
        harness.peer_check.ask(*key, *process);
    }
    assert!(harness.peer_check.inquiry().is_none(), "one at a time");
    assert_eq!(inquiry.connections(), [key]);
    let answers = Answers::unavailable(inquiry.connections(), "too busy");
    assert_eq!(harness.peer_check.answered(answers), [(key, Identity::Unavailable("too busy".into()))]);
    let inquiry = harness.peer_check.inquiry().expect("the next one");
    assert_eq!(inquiry.connections(), keys);
    let found = harness.peer_check.answered(inquiry.run());
    assert_eq!(found, keys.iter().map(|key| (*key, Identity::SameUser)).collect::<Vec<_>>());
    assert!(harness.peer_check.inquiry().is_none());
}

#[test]
fn without_netlink_the_tables_are_read_later() {
    let mut harness = Harness::new();
    let (_client, stream, ..) = harness.connect();
    let (peer, local) = (stream.peer_addr().unwrap(), stream.local_addr().unwrap());
    for ours in [Peer::SameUser, Peer::MaybeTool] {
        assert_eq!(harness.inquire(PeerProcess::Unknown { peer, local, ours }), Identity::SameUser);
    }
    let inquire = |harness: &mut Harness, peer: &str, ours| {
        harness.inquire(PeerProcess::Unknown { peer: peer.parse().unwrap(), local, ours })
    };
    for (ours, gone) in [(Peer::SameUser, Identity::Stranger), (Peer::MaybeTool, Identity::Gone)] {
        assert_eq!(inquire(&mut harness, "127.0.0.1:1", ours), gone);
        assert_eq!(inquire(&mut harness, "192.0.2.1:1", ours), Identity::Stranger, "another machine");
    }
}

#[test]
fn over_a_unix_socket_the_kernel_names_the_process() {
    let mut harness = Harness::new();
    let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    assert_eq!(harness.peer_check.unix(&ours, Accepted::AtOnce).0, Peer::SameUser);
    harness.supervisors.begin(u32::MAX, control());
    let (peer, process) = harness.peer_check.unix(&ours, Accepted::AtOnce);
    assert_eq!(peer, Peer::MaybeTool);
    assert_eq!(harness.inquire(process), Identity::SameUser);
    let subject = |(_, process): (Peer, PeerProcess)| match process {
        PeerProcess::SameUser(Subject::Process { pid, not_after }) => (pid, not_after),
        other => panic!("{other:?}"),
    };
    let empty = harness.peer_check.empty.ticks;
    let (pid, late) = subject(harness.peer_check.unix(&ours, Accepted::Late));
    assert_eq!((pid, late), (std::process::id(), empty), "it may have connected at any time since then");
    // The same if this process was stopped, in this turn of the loop or in the one before.
    harness.peer_check.empty.ticks -= 1;
    let at_once = |harness: &mut Harness| subject(harness.peer_check.unix(&ours, Accepted::AtOnce)).1;
    assert!(at_once(&mut harness) >= empty);
    harness.peer_check.continued.as_ref().expect("it is known").store(true, Ordering::Release);
    assert_eq!(at_once(&mut harness), empty - 1);
    harness.peer_check.poll_begins();
    assert_eq!(at_once(&mut harness), empty - 1);
    harness.peer_check.poll_begins();
    assert!(at_once(&mut harness) >= empty);
    // A server that cannot know whether it was stopped may always have been.
    harness.peer_check.continued = None;
    for _ in 0..3 {
        harness.peer_check.poll_begins();
        assert_eq!(at_once(&mut harness), empty - 1);
    }
    harness.supervisors.begin(std::process::id(), control());
    assert_eq!(harness.inquire(process), Identity::Tool);
}
