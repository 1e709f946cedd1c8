//! The shell of a core for tests that run it without sockets, threads or files. It records the outputs of the core, and accepts as many
//! bytes of each connection as the test says. The order of a turn is the core's own (`src/core/turn.rs`).

#![allow(dead_code, reason = "each test target uses a part of it")]

pub mod failing_store;

use gemini_a2a::a2a::{self, Identity, Switches};
use gemini_a2a::base::clock::Now;
use gemini_a2a::base::id::Entropy;
use gemini_a2a::base::level::Level;
use gemini_a2a::base::slots::Key;
use gemini_a2a::core::connections::guard::HostPolicy;
use gemini_a2a::core::{
    Approval, Close, Core, Out, Setup, SharedStore, Shell, Site, Workspace, WorkspaceChoice, Written,
};
use gemini_a2a::limits::Limits;
use gemini_a2a::task::call::RequestPolicy;
use gemini_a2a::task::definitions::slash::Registry;
use std::collections::BTreeMap;
use std::io::IoSlice;

#[derive(Default)]
pub struct Outside {
    pub takes: Takes,
    /// The most bytes that one write accepts, if not 0.
    pub piece: usize,
    pub outs: Vec<Out>,
    /// The bytes that each connection has accepted.
    pub taken: BTreeMap<Key, Vec<u8>>,
    /// Connections that accepted none of the bytes that they were offered.
    pub blocked: Vec<Key>,
    pub closed: Vec<(Key, Close)>,
}

/// How many bytes connections accept.
#[derive(Default)]
pub enum Takes {
    /// None: tests look at the output that waits with [`waiting`].
    #[default]
    Nothing,
    Everything,
    /// As many as are left in the budget of the connection.
    Budget(BTreeMap<Key, usize>),
}

impl Shell for Outside {
    fn start(&mut self, out: Out) {
        self.outs.push(out);
    }

    fn write(&mut self, conn: Key, slices: &[IoSlice<'_>]) -> Written {
        let most = match &mut self.takes {
            Takes::Nothing => 0,
            Takes::Everything => usize::MAX,
            Takes::Budget(left) => left.get(&conn).copied().unwrap_or(0),
        };
        let piece = if self.piece == 0 { most } else { most.min(self.piece) };
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).take(piece).collect();
        if bytes.is_empty() {
            self.blocked.push(conn);
            return Written::Later;
        }
        if let Takes::Budget(left) = &mut self.takes {
            left.insert(conn, most - bytes.len());
        }
        let n = bytes.len();
        self.taken.entry(conn).or_default().extend(bytes);
        Written::Bytes(n)
    }

    /// Does nothing: tests pass the bytes of peers to the core themselves.
    fn read_on(&mut self, _: Key) {}

    fn close(&mut self, conn: Key, how: Close, _: Now) {
        self.closed.push((conn, how));
    }
}

impl Outside {
    pub fn take_outs(&mut self) -> Vec<Out> {
        std::mem::take(&mut self.outs)
    }
}

/// The output that waits for a connection.
pub fn waiting(core: &Core, conn: Key) -> Vec<u8> {
    core.slices(conn).iter().flat_map(|slice| slice.to_vec()).collect()
}

/// Makes the core of this setup one of several instances that share a store and a workspace.
pub fn share(setup: &mut Setup, instance: &str) {
    setup.shared_store = Some(SharedStore { instance: instance.into(), url: None, slow_ms: 5_000 });
    setup.workspace.site.id = Some("w".into());
}

/// The settings of a minimal core: no tools, one model whatever a client names, one directory, the same ids every time. Tests change
/// what they need.
pub fn setup(limits: Limits, switches: Switches, now: Now) -> Setup {
    let identity = Identity {
        base_url: "http://localhost/",
        is_public: false,
        needs_credential: false,
        openid: None,
        version: "0",
        unix_ms: 0,
    };
    Setup {
        access: Default::default(),
        shared_store: None,
        shares_session: true,
        limits,
        log_level: Level::default(),
        host_policy: HostPolicy::default(),
        client_mcp: Default::default(),
        tools: Vec::new(),
        commands: Registry::built_in(),
        choose: Box::new(|_| Ok("some-model".into())),
        models: Vec::new(),
        script: None,
        card: a2a::card(&identity, &switches),
        switches,
        workspace: Workspace {
            site: Site { path: "/w".into(), trusted: true, ..Site::default() },
            choice: WorkspaceChoice::Client,
        },
        approval: Approval::default(),
        request_policy: RequestPolicy::default(),
        unconfined: None,
        audit: None,
        entropy: Entropy::counting_after(0),
        operation: Default::default(),
        started: now,
    }
}
