//! Searches in tables of processes that change while they are read, in every order that could hide a process of a tool.

use super::*;
use std::collections::HashMap;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

const TRIES: u32 = 3;
const SOCKET: u64 = 77;

/// Our server is 10, started by the shell 5; 20 is a supervisor of its tools.
const OWN: u32 = 10;
const SUPERVISOR: u32 = 20;

#[derive(Clone, Default)]
struct Table {
    rows: HashMap<u32, Row>,
    /// What changes when the n-th question is asked.
    events: HashMap<usize, Vec<Event>>,
    /// How many questions were asked so far.
    asked: usize,
    /// The socket is held by a process that cannot be inspected.
    is_held: bool,
}

#[derive(Clone)]
struct Row {
    process: Stat,
    sockets: Vec<u64>,
    is_supervisor: bool,
    /// A user whose processes cannot be inspected.
    uid: Option<u32>,
}

#[derive(Clone)]
enum Event {
    Ended(u32),
    Started(u32, Row),
    Parent(u32, u32),
}

impl Table {
    fn happen(&mut self) {
        for event in self.events.remove(&self.asked).unwrap_or_default() {
            match event {
                Event::Ended(pid) => drop(self.rows.remove(&pid)),
                Event::Started(pid, row) => drop(self.rows.insert(pid, row)),
                Event::Parent(pid, parent) => {
                    if let Some(row) = self.rows.get_mut(&pid) {
                        row.process.parent = parent;
                    }
                }
            }
        }
        self.asked += 1;
    }

    fn when(mut self, asked: usize, event: Event) -> Table {
        self.events.entry(asked).or_default().push(event);
        self
    }

    fn with(mut self, pid: u32, row: Row) -> Table {
        self.rows.insert(pid, row);
        self
    }
}

impl Processes for Table {
    fn pids(&mut self) -> Vec<u32> {
        self.happen();
        let mut pids: Vec<u32> = self.rows.keys().copied().collect();
        pids.sort_unstable();
        pids
    }

    fn stat(&mut self, pid: u32) -> Option<Stat> {
        self.happen();
        self.rows.get(&pid).map(|row| row.process)
    }

    fn held_sockets(&mut self, pid: u32, sockets: &BTreeSet<u64>) -> Vec<u64> {
        self.happen();
        let held = self.rows.get(&pid).map(|row| row.sockets.clone()).unwrap_or_default();
        held.into_iter().filter(|socket| sockets.contains(socket)).collect()
    }

    fn is_supervisor(&mut self, pid: u32) -> bool {
        self.happen();
        self.rows.get(&pid).is_some_and(|row| row.is_supervisor)
    }

    fn runs_as(&mut self, pid: u32, uid: u32) -> bool {
        self.happen();
        self.rows.get(&pid).is_some_and(|row| row.uid == Some(uid))
    }

    fn is_held(&mut self, socket: u64) -> bool {
        self.happen();
        self.is_held && socket == SOCKET
    }
}

fn row(parent: u32, start: u64) -> Row {
    Row { process: Stat { parent, start, has_ended: false }, sockets: Vec::new(), is_supervisor: false, uid: None }
}

fn holding(parent: u32, start: u64) -> Row {
    Row { sockets: vec![SOCKET], ..row(parent, start) }
}

fn supervisor(parent: u32, start: u64) -> Row {
    Row { is_supervisor: true, ..row(parent, start) }
}

/// init, a shell, our server below it and a supervisor below that; 21 is the tool's program.
fn machine() -> Table {
    Table::default()
        .with(1, row(0, 1))
        .with(5, row(1, 50))
        .with(OWN, row(5, 100))
        .with(SUPERVISOR, row(OWN, 200))
        .with(21, row(SUPERVISOR, 201))
}

fn server() -> Roots {
    Roots { own: OWN, adopts: true, supervisors: vec![SUPERVISOR], servers: Vec::new() }
}

/// A program that this server is a part of, which adopts nobody.
fn host() -> Roots {
    Roots { adopts: false, ..server() }
}

fn holder(mut table: Table, roots: &Roots) -> Descent {
    find(&mut table, roots, &[Subject::Socket(SOCKET)], TRIES)[0]
}

#[test]
fn a_tools_process_is_found_at_any_depth_below_its_supervisor() {
    for parent in [SUPERVISOR, 21] {
        for roots in [server(), host()] {
            assert_eq!(holder(machine().with(30, holding(parent, 300)), &roots), Descent::Tool);
        }
    }
    let deep = (30..60).fold(machine().with(30, row(21, 300)), |table, pid| table.with(pid + 1, row(pid, 300)));
    assert_eq!(holder(deep.with(61, holding(60, 300)), &server()), Descent::Tool);
}

#[test]
fn other_processes_of_the_user_are_no_tools() {
    assert_eq!(holder(machine().with(30, holding(5, 300)), &server()), Descent::NoTool, "from the same shell");
    assert_eq!(holder(machine().with(30, holding(1, 40)), &server()), Descent::NoTool, "a service");
    assert_eq!(holder(machine().with(30, holding(0, 40)), &server()), Descent::NoTool, "its parent is outside");
    assert_eq!(holder(machine().with(OWN, holding(5, 100)), &server()), Descent::NoTool, "our own process");
}

#[test]
fn a_process_that_is_not_found_may_be_a_tool() {
    assert_eq!(holder(machine(), &server()), Descent::NotFound);
    let other = Row { sockets: vec![SOCKET + 1], ..row(5, 300) };
    assert_eq!(holder(machine().with(30, other), &server()), Descent::NotFound);
}

#[test]
fn a_socket_that_a_tool_shares_is_a_tools() {
    let shared = machine().with(30, holding(5, 300)).with(31, holding(21, 300));
    assert_eq!(holder(shared, &server()), Descent::Tool);
    let shared = machine().with(30, holding(21, 300)).with(31, holding(5, 300));
    assert_eq!(holder(shared, &server()), Descent::Tool, "in the other order");
}

#[test]
fn orphans_that_came_to_the_server_are_tools_and_a_hosts_own_children_are_not() {
    let child = machine().with(30, holding(OWN, 300));
    assert_eq!(holder(child.clone(), &server()), Descent::Tool);
    assert_eq!(holder(child, &host()), Descent::NoTool);
    let grandchild = machine().with(30, row(OWN, 300)).with(31, holding(30, 301));
    assert_eq!(holder(grandchild.clone(), &server()), Descent::Tool);
    assert_eq!(holder(grandchild, &host()), Descent::NoTool);
}

#[test]
fn a_process_that_another_server_started_is_a_tools() {
    let roots = Roots { servers: vec![6], ..server() };
    let there = machine().with(6, row(1, 60)).with(7, supervisor(6, 70)).with(8, row(7, 80));
    for parent in [6, 7, 8] {
        let table = there.clone().with(30, holding(parent, 300));
        assert_eq!(holder(table, &roots), Descent::Tool, "below {parent}");
    }
    assert_eq!(holder(there.clone().with(6, holding(1, 60)), &roots), Descent::NoTool, "that server itself");
    // The supervisor of a server that has ended, or that is unknown to us, may still run.
    let orphaned = machine().with(7, supervisor(1, 70)).with(30, holding(7, 300));
    assert_eq!(holder(orphaned, &server()), Descent::Tool);
}

#[test]
fn a_supervisor_above_ourselves_is_no_boundary() {
    // A tool of another server has started both this server and its client.
    let nested = Table::default()
        .with(1, row(0, 1))
        .with(3, row(1, 30))
        .with(4, supervisor(3, 40))
        .with(5, row(4, 50))
        .with(OWN, row(5, 100));
    let roots = Roots { servers: vec![3], ..server() };
    assert_eq!(holder(nested.clone().with(30, holding(5, 300)), &roots), Descent::NoTool);
    let other = nested.with(40, supervisor(3, 400)).with(41, holding(40, 401));
    assert_eq!(holder(other.clone(), &roots), Descent::Tool, "another tool of that server");
    assert_eq!(holder(other.with(41, holding(3, 401)), &roots), Descent::Tool, "an orphan that it adopted");
}

/// Questions until the first holder is asked for its parents: the list, the descriptors of each process, our own ancestors, and
/// the holder's second look.
fn questions_before_descent(table: &Table) -> usize {
    let ancestors = 3;
    1 + table.rows.len() + ancestors + 2
}

#[test]
fn a_parent_that_ends_while_it_is_read_is_read_again() {
    // 31 holds the socket; its parent 30 ends just before it is read, and 31 becomes a child of the supervisor.
    let table = machine().with(30, row(21, 300)).with(31, holding(30, 301));
    let first = questions_before_descent(&table);
    let late = table.when(first + 2, Event::Ended(30)).when(first + 2, Event::Parent(31, SUPERVISOR));
    assert_eq!(holder(late, &server()), Descent::Tool);
    // The same, but the process is no tool's.
    let table = machine().with(30, row(5, 300)).with(31, holding(30, 301));
    let late = table.when(first + 2, Event::Ended(30)).when(first + 2, Event::Parent(31, 1));
    assert_eq!(holder(late, &server()), Descent::NoTool);
}

#[test]
fn a_chain_that_stays_broken_is_not_cleared() {
    let table = machine().with(31, holding(30, 301));
    assert_eq!(holder(table, &server()), Descent::Broken);
    // A socket that is shared with such a process is not cleared either.
    let table = machine().with(31, holding(30, 301)).with(32, holding(5, 300));
    assert_eq!(holder(table, &server()), Descent::Broken);
}

/// Processes of which the first reads of a parent fail.
struct Restless {
    table: Table,
    looks: u32,
    broken: u32,
}

impl Processes for Restless {
    fn pids(&mut self) -> Vec<u32> {
        self.looks += 1;
        self.table.pids()
    }

    fn stat(&mut self, pid: u32) -> Option<Stat> {
        let hidden = pid == 30 && self.looks <= self.broken;
        self.table.stat(pid).filter(|_| !hidden)
    }

    fn held_sockets(&mut self, pid: u32, sockets: &BTreeSet<u64>) -> Vec<u64> {
        self.table.held_sockets(pid, sockets)
    }

    fn is_supervisor(&mut self, pid: u32) -> bool {
        self.table.is_supervisor(pid)
    }

    fn runs_as(&mut self, pid: u32, uid: u32) -> bool {
        self.table.runs_as(pid, uid)
    }

    fn is_held(&mut self, socket: u64) -> bool {
        self.table.is_held(socket)
    }
}

#[test]
fn a_socket_of_another_user_is_no_tools_if_none_of_his_processes_is() {
    const PROXY: u32 = 33;
    let ask = |table: &Table| {
        find(&mut table.clone(), &server(), &[Subject::SocketOf { inode: SOCKET, uid: PROXY }], TRIES)[0]
    };
    let of = |uid, row: Row| Row { uid: Some(uid), ..row };
    let held = Table { is_held: true, ..machine() };
    let proxy = held.clone().with(30, of(PROXY, row(1, 60)));
    assert_eq!(ask(&proxy), Descent::NoTool, "a proxy beside us");
    assert_eq!(ask(&held), Descent::NoTool, "his processes are in another PID namespace");
    assert_eq!(ask(&held.clone().with(30, of(PROXY + 1, row(1, 60)))), Descent::NoTool, "a third user is here");
    assert_eq!(ask(&Table { is_held: false, ..machine() }), Descent::NotFound, "nobody holds it");
    let mut hidden = held.clone();
    hidden.rows.remove(&1);
    assert_eq!(ask(&hidden), Descent::NotFound, "his processes cannot be seen");
    assert_eq!(ask(&Table { is_held: false, ..proxy.clone() }), Descent::NotFound, "it has ended since");
    for parent in [SUPERVISOR, 21] {
        let table = proxy.clone().with(31, of(PROXY, row(parent, 300)));
        assert_eq!(ask(&table), Descent::NotFound, "a tool has become that user");
    }
    let other = proxy.clone().with(31, of(PROXY + 1, row(21, 300)));
    assert_eq!(ask(&other), Descent::NoTool, "a tool has become a third user");
    assert_eq!(ask(&proxy.clone().with(31, of(PROXY, row(99, 300)))), Descent::Broken);
    // A server that may inspect all processes finds the holder.
    assert_eq!(ask(&proxy.clone().with(31, of(PROXY, holding(21, 300)))), Descent::Tool);
    let found = proxy.with(31, of(PROXY, row(21, 300))).with(32, of(PROXY, holding(1, 70)));
    assert_eq!(ask(&found), Descent::NoTool);
}

#[test]
fn a_broken_chain_is_read_a_limited_number_of_times() {
    let table = machine().with(30, row(5, 300)).with(31, holding(30, 301));
    for (broken, expected) in [(TRIES - 1, Descent::NoTool), (TRIES, Descent::Broken)] {
        let mut restless = Restless { table: table.clone(), looks: 0, broken };
        assert_eq!(find(&mut restless, &server(), &[Subject::Socket(SOCKET)], TRIES), [expected]);
        assert_eq!(restless.looks, TRIES);
    }
}

#[test]
fn a_parent_younger_than_its_child_is_another_process() {
    // The tool's parent ended, and its pid went to a process of the user's that started later.
    let table = machine().with(30, row(5, 400)).with(31, holding(30, 301));
    assert_eq!(holder(table, &server()), Descent::Broken);
    // A parent with the same start time is possible, because the clock is coarse.
    let table = machine().with(30, row(5, 301)).with(31, holding(30, 301));
    assert_eq!(holder(table, &server()), Descent::NoTool);
}

#[test]
fn a_holder_whose_pid_was_reused_is_not_cleared() {
    let table = machine().with(31, holding(21, 301));
    let before = questions_before_descent(&table);
    let another = row(5, 302);
    // At every moment after it was seen to hold the socket.
    for asked in before - 2..before + 2 {
        let table = table.clone().when(asked, Event::Started(31, another.clone()));
        assert_ne!(holder(table, &server()), Descent::NoTool, "at question {asked}");
    }
}

/// A tool's process hands the socket from fork to fork: at any question the holder may end and its child take over.
#[test]
fn forking_away_at_any_moment_never_clears_a_tool() {
    let table = machine().with(31, holding(21, 301));
    for asked in 0..40 {
        for (child, parent) in [(32, SUPERVISOR), (32, 21), (6, SUPERVISOR), (6, 21)] {
            let table = table
                .clone()
                .when(asked, Event::Ended(31))
                .when(asked, Event::Started(child, holding(parent, 302)))
                .when(asked + 3, Event::Started(31, row(5, 303)));
            assert_ne!(holder(table, &server()), Descent::NoTool, "at question {asked} as {child} below {parent}");
        }
        // Its supervisor is killed: it becomes a child of the server.
        let killed = table.clone().when(asked, Event::Ended(SUPERVISOR)).when(asked, Event::Ended(21));
        let killed = killed.when(asked, Event::Parent(31, OWN));
        assert_ne!(holder(killed, &server()), Descent::NoTool, "at question {asked}");
    }
}

#[test]
fn a_process_is_asked_about_by_pid() {
    let ask = |table: &Table, pid, not_after| {
        let mut table = table.clone();
        find(&mut table, &server(), &[Subject::Process { pid, not_after }], TRIES)[0]
    };
    let table = machine().with(30, row(5, 300)).with(31, row(21, 300));
    assert_eq!(ask(&table, 30, 300), Descent::NoTool);
    assert_eq!(ask(&table, 31, 300), Descent::Tool);
    assert_eq!(ask(&table, 30, 299), Descent::NotFound, "it started after the connection was accepted");
    assert_eq!(ask(&table, 32, 300), Descent::NotFound);
    assert_eq!(ask(&table, 0, u64::MAX), Descent::NotFound, "in another namespace");
}

#[test]
fn many_subjects_are_found_in_one_pass() {
    let table = machine().with(30, holding(5, 300)).with(31, Row { sockets: vec![78], ..row(21, 300) });
    let mut asked = table.clone();
    let subjects = [
        Subject::Socket(78),
        Subject::Socket(79),
        Subject::Process { pid: 30, not_after: 300 },
        Subject::Socket(SOCKET),
    ];
    let found = find(&mut asked, &server(), &subjects, TRIES);
    assert_eq!(found, [Descent::Tool, Descent::NotFound, Descent::NoTool, Descent::NoTool]);
    assert!(find(&mut asked, &server(), &[], TRIES).is_empty());
}

#[test]
fn the_length_of_a_chain_is_limited() {
    let chain = |length: u32| {
        let table =
            (0..length).fold(machine().with(1_000, row(5, 300)), |table, n| table.with(1_001 + n, row(1_000 + n, 300)));
        let last = 1_000 + length;
        let parent = if length == 0 { 5 } else { last - 1 };
        holder(table.with(last, holding(parent, 300)), &server())
    };
    // The chain has `length` + 1 processes below the shell, which decides.
    let most = u32::try_from(PEER_ANCESTORS).unwrap() - 2;
    assert_eq!(chain(most), Descent::NoTool);
    assert_eq!(chain(most + 1), Descent::Broken);
}

/// A child process that holds a connection, with roots by which it is a tool's and with others.
#[test]
fn real_processes_are_found() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let inode = rustix::fs::fstat(&client).unwrap().st_ino;
    let own = std::process::id();
    let host = Roots { own, ..Roots::default() };
    let ask = |roots: &Roots| find(&mut ProcFs, roots, &[Subject::Socket(inode)], TRIES)[0];
    assert_eq!(ask(&host), Descent::NoTool, "we hold it ourselves");
    let input = client.as_fd().try_clone_to_owned().unwrap();
    let mut child = Command::new("cat").stdin(input).stdout(Stdio::null()).spawn().unwrap();
    assert_eq!(ask(&host), Descent::NoTool, "a child of a host program");
    let tool = Roots { supervisors: vec![child.id()], ..host.clone() };
    assert_eq!(ask(&tool), Descent::Tool, "it has it too");
    drop(client);
    assert_eq!(ask(&tool), Descent::Tool);
    assert_eq!(ask(&Roots { adopts: true, ..host.clone() }), Descent::Tool);
    let start = ProcFs.stat(child.id()).unwrap().start;
    let by_pid = |not_after| Subject::Process { pid: child.id(), not_after };
    let found = find(&mut ProcFs, &tool, &[by_pid(start), by_pid(start - 1)], TRIES);
    assert_eq!(found, [Descent::Tool, Descent::NotFound]);
    drop(listener);
    child.wait().unwrap();
    assert_eq!(ask(&host), Descent::NotFound, "nobody holds it any more");
}
