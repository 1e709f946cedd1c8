use super::*;
use crate::base::id::Entropy;
use crate::base::slots::Slots;
use crate::shell::journal::instances::{Instance, Instances};
use crate::tool::tests::Scratch;
use std::net::{TcpListener, TcpStream};

/// A server's view, and a directory that others may be in too.
struct Stage {
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

impl Stage {
    fn new() -> Stage {
        let scratch = Scratch::new();
        std::fs::create_dir_all(scratch.path().join("instances")).unwrap();
        let supervisors = Supervisors::default();
        let peer_check =
            PeerCheck::new(supervisors.clone(), &scratch.path().join("instances"), Some(never()), &Limits::default());
        Stage {
            scratch,
            supervisors,
            peer_check,
            listener: TcpListener::bind("127.0.0.1:0").unwrap(),
            keys: Slots::default(),
        }
    }

    /// A connection of our own, and what is made of it.
    fn connect(&mut self) -> (TcpStream, TcpStream, Peer, Caller) {
        let client = TcpStream::connect(self.listener.local_addr().unwrap()).unwrap();
        let (stream, address) = self.listener.accept().unwrap();
        let (peer, caller) = self.peer_check.tcp(address, stream.local_addr().unwrap());
        (client, stream, peer, caller)
    }

    fn peer(&mut self) -> Peer {
        self.connect().2
    }

    /// Asks about a connection and waits for the answer.
    fn inquire(&mut self, caller: Caller) -> Identity {
        let key = self.keys.insert(());
        self.peer_check.ask(key, caller);
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
    let mut stage = Stage::new();
    assert_eq!(stage.peer(), Peer::SameUser);
    assert!(stage.peer_check.inquiry().is_none());
}

#[test]
fn while_a_tool_lives_everybody_is_looked_for() {
    let mut stage = Stage::new();
    stage.supervisors.begin(u32::MAX, control());
    let (client, _stream, peer, caller) = stage.connect();
    assert_eq!(peer, Peer::MaybeTool);
    assert_eq!(stage.inquire(caller), Identity::SameUser, "our own process holds it");
    drop(client);
    assert_eq!(stage.inquire(caller), Identity::Unclear, "nobody holds it any more");
    // The process that holds it is a supervisor, as if it were below one.
    let (_client, _stream, _, caller) = stage.connect();
    stage.supervisors.begin(std::process::id(), control());
    assert_eq!(stage.inquire(caller), Identity::Tool);
}

#[test]
fn a_peer_that_is_gone_when_it_is_accepted_may_be_a_tool() {
    let mut stage = Stage::new();
    let gone = |stage: &mut Stage| {
        let client = TcpStream::connect(stage.listener.local_addr().unwrap()).unwrap();
        drop(client);
        let (stream, address) = stage.listener.accept().unwrap();
        stage.peer_check.tcp(address, stream.local_addr().unwrap()).0
    };
    assert_eq!(gone(&mut stage), Peer::Stranger, "there was no tool");
    stage.supervisors.begin(u32::MAX, control());
    assert_eq!(gone(&mut stage), Peer::Gone);
    let local = stage.listener.local_addr().unwrap();
    assert_eq!(stage.peer_check.tcp("192.0.2.1:80".parse().unwrap(), local).0, Peer::Stranger, "another machine");
}

#[test]
fn another_user_of_this_machine_may_be_a_tool_while_one_runs() {
    let switch = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let able = std::process::Command::new("setpriv").args(switch).arg("true").status();
    if !able.is_ok_and(|status| status.success()) {
        println!("skipped: becoming another user takes root and setpriv");
        return;
    }
    let mut stage = Stage::new();
    let port = stage.listener.local_addr().unwrap().port();
    // It connects, and stays until its connection ends.
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; read -r line <&3");
    let connect = |stage: &mut Stage| {
        let mut command = std::process::Command::new("setpriv");
        let child = command.args(switch).args(["bash", "-c", &script]).spawn().unwrap();
        let (stream, address) = stage.listener.accept().unwrap();
        let (peer, caller) = stage.peer_check.tcp(address, stream.local_addr().unwrap());
        (child, stream, peer, caller)
    };
    let (mut child, stream, peer, _) = connect(&mut stage);
    assert_eq!(peer, Peer::Stranger, "there was no tool");
    drop(stream);
    child.wait().unwrap();
    stage.supervisors.begin(u32::MAX, control());
    let (mut child, stream, peer, caller) = connect(&mut stage);
    assert_eq!(peer, Peer::OtherUser);
    assert_eq!(stage.inquire(caller), Identity::Stranger, "our own child");
    stage.supervisors.begin(child.id(), control());
    assert_eq!(stage.inquire(caller), Identity::Tool, "a child of a supervisor");
    drop(stream);
    child.wait().unwrap();
    assert_eq!(stage.inquire(caller), Identity::Unclear, "it has ended");
}

#[test]
fn a_peer_that_may_have_connected_while_a_tool_ran_may_be_a_tool() {
    let mut stage = Stage::new();
    stage.peer_check.polls();
    stage.supervisors.begin(7, control());
    stage.supervisors.end(7);
    assert_eq!(stage.peer(), Peer::MaybeTool, "it may have waited in the backlog since then");
    stage.peer_check.accept_queues_were_empty();
    assert_eq!(stage.peer(), Peer::MaybeTool, "the poll began before the tool");
    stage.peer_check.polls();
    stage.peer_check.accept_queues_were_empty();
    assert_eq!(stage.peer(), Peer::SameUser);
}

#[test]
fn after_a_crowd_connections_of_ended_tools_may_come_late() {
    let after_crowd = |limits: &Limits| {
        let mut stage = Stage::new();
        stage.peer_check =
            PeerCheck::new(stage.supervisors.clone(), &stage.scratch.path().join("instances"), Some(never()), limits);
        stage.peer_check.accept_queue_was_full();
        assert_eq!(stage.peer(), Peer::SameUser, "no tool was in the crowd");
        stage.supervisors.begin(7, control());
        stage.peer_check.accept_queue_was_full();
        stage.supervisors.end(7);
        stage.peer_check.polls();
        stage.peer_check.accept_queues_were_empty();
        let (client, _stream, peer, caller) = stage.connect();
        if peer == Peer::MaybeTool {
            assert_eq!(stage.inquire(caller), Identity::SameUser, "our own process holds it");
            drop(client);
            assert_eq!(stage.inquire(caller), Identity::Unclear, "nobody holds it");
        }
        peer
    };
    assert_eq!(after_crowd(&Limits::default()), Peer::MaybeTool);
    assert_eq!(after_crowd(&Limits { late_connection_ms: 0, ..Limits::default() }), Peer::SameUser, "it is over");
}

#[test]
fn another_server_is_noticed_when_it_comes_and_forgotten_when_it_is_gone() {
    let mut stage = Stage::new();
    let other = stage.other_server(u32::MAX);
    let (_client, _stream, peer, caller) = stage.connect();
    assert_eq!(peer, Peer::MaybeTool);
    assert_eq!(stage.inquire(caller), Identity::SameUser);
    assert_eq!(stage.peer(), Peer::MaybeTool, "it is still there");
    drop(other);
    assert_eq!(stage.peer(), Peer::MaybeTool, "nobody has looked since");
    assert_eq!(stage.inquire(caller), Identity::SameUser);
    assert_eq!(stage.peer(), Peer::SameUser);
    // It is there when we start, and it is the parent of whoever holds the socket.
    let parent = rustix::process::getppid().unwrap().as_raw_pid() as u32;
    let _other = stage.other_server(parent);
    let instances = stage.scratch.path().join("instances");
    stage.peer_check = PeerCheck::new(stage.supervisors.clone(), &instances, Some(never()), &Limits::default());
    assert_eq!(stage.peer(), Peer::MaybeTool);
    let mut child = std::process::Command::new("cat");
    let (client, _stream, _, caller) = stage.connect();
    let mut child = child.stdin(OwnedFd::from(client)).stdout(std::process::Stdio::null()).spawn().unwrap();
    assert_eq!(stage.inquire(caller), Identity::SameUser, "our own child, and we are no tool of theirs");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_change_during_an_inquiry_is_not_missed() {
    let mut stage = Stage::new();
    let first = stage.other_server(u32::MAX);
    let (_client, _stream, _, caller) = stage.connect();
    drop(first);
    let key = stage.keys.insert(());
    stage.peer_check.ask(key, caller);
    let answers = stage.peer_check.inquiry().expect("something to find out").run();
    let _second = stage.other_server(u32::MAX);
    stage.peer_check.answered(answers);
    assert_eq!(stage.peer(), Peer::MaybeTool, "the answer is older than the second server");
}

#[test]
fn a_directory_that_cannot_be_watched_makes_everybody_doubtful() {
    let mut stage = Stage::new();
    std::fs::remove_dir(stage.scratch.path().join("instances")).unwrap();
    let (_client, _stream, peer, caller) = stage.connect();
    assert_eq!(peer, Peer::MaybeTool, "the directory is gone");
    assert_eq!(stage.inquire(caller), Identity::SameUser);
    assert_eq!(stage.peer(), Peer::MaybeTool);
}

#[test]
fn one_inquiry_answers_for_all_waiting_connections() {
    let mut stage = Stage::new();
    stage.supervisors.begin(u32::MAX, control());
    let first = stage.connect();
    let others: Vec<_> = (0..3).map(|_| stage.connect()).collect();
    let key = stage.keys.insert(());
    stage.peer_check.ask(key, first.3);
    let inquiry = stage.peer_check.inquiry().expect("one");
    let keys: Vec<Key> = others.iter().map(|_| stage.keys.insert(())).collect();
    for (key, (.., caller)) in keys.iter().zip(&others) {
        stage.peer_check.ask(*key, *caller);
    }
    assert!(stage.peer_check.inquiry().is_none(), "one at a time");
    assert_eq!(inquiry.connections(), [key]);
    let answers = Answers::unavailable(inquiry.connections(), "too busy");
    assert_eq!(stage.peer_check.answered(answers), [(key, Identity::Unavailable("too busy".into()))]);
    let inquiry = stage.peer_check.inquiry().expect("the next one");
    assert_eq!(inquiry.connections(), keys);
    let found = stage.peer_check.answered(inquiry.run());
    assert_eq!(found, keys.iter().map(|key| (*key, Identity::SameUser)).collect::<Vec<_>>());
    assert!(stage.peer_check.inquiry().is_none());
}

#[test]
fn without_netlink_the_tables_are_read_later() {
    let mut stage = Stage::new();
    let (_client, stream, ..) = stage.connect();
    let (peer, local) = (stream.peer_addr().unwrap(), stream.local_addr().unwrap());
    for ours in [Peer::SameUser, Peer::MaybeTool] {
        assert_eq!(stage.inquire(Caller::Connection { peer, local, ours }), Identity::SameUser);
    }
    let inquire = |stage: &mut Stage, peer: &str, ours| {
        stage.inquire(Caller::Connection { peer: peer.parse().unwrap(), local, ours })
    };
    for (ours, gone) in [(Peer::SameUser, Identity::Stranger), (Peer::MaybeTool, Identity::Gone)] {
        assert_eq!(inquire(&mut stage, "127.0.0.1:1", ours), gone);
        assert_eq!(inquire(&mut stage, "192.0.2.1:1", ours), Identity::Stranger, "another machine");
    }
}

#[test]
fn over_a_unix_socket_the_kernel_names_the_process() {
    let mut stage = Stage::new();
    let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    assert_eq!(stage.peer_check.unix(&ours, Accepted::AtOnce).0, Peer::SameUser);
    stage.supervisors.begin(u32::MAX, control());
    let (peer, caller) = stage.peer_check.unix(&ours, Accepted::AtOnce);
    assert_eq!(peer, Peer::MaybeTool);
    assert_eq!(stage.inquire(caller), Identity::SameUser);
    let subject = |(_, caller): (Peer, Caller)| match caller {
        Caller::Known(Subject::Process { pid, not_after }) => (pid, not_after),
        other => panic!("{other:?}"),
    };
    let empty = stage.peer_check.empty.ticks;
    let (pid, late) = subject(stage.peer_check.unix(&ours, Accepted::Late));
    assert_eq!((pid, late), (std::process::id(), empty), "it may have connected at any time since then");
    // Also if we were stopped, in this turn of the loop or in the one before.
    stage.peer_check.empty.ticks -= 1;
    let at_once = |stage: &mut Stage| subject(stage.peer_check.unix(&ours, Accepted::AtOnce)).1;
    assert!(at_once(&mut stage) >= empty);
    stage.peer_check.continued.as_ref().expect("it is known").store(true, Ordering::Release);
    assert_eq!(at_once(&mut stage), empty - 1);
    stage.peer_check.polls();
    assert_eq!(at_once(&mut stage), empty - 1);
    stage.peer_check.polls();
    assert!(at_once(&mut stage) >= empty);
    // A server that cannot know whether it was stopped may always have been.
    stage.peer_check.continued = None;
    for _ in 0..3 {
        stage.peer_check.polls();
        assert_eq!(at_once(&mut stage), empty - 1);
    }
    stage.supervisors.begin(std::process::id(), control());
    assert_eq!(stage.inquire(caller), Identity::Tool);
}
