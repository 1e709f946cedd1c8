//! The first event of a task, for tests that differ from each other in a few of its members. Unit tests include this file, too.

use gemini_a2a::task::log::event::{Created, Lifecycle, Profile, Protocol};

/// A conversation of a plain client of A2A 1.0, in the workspace `/w`.
pub fn created(task: &str) -> Created {
    Created {
        task: task.into(),
        context: "c".into(),
        tenant: Default::default(),
        owner: Default::default(),
        shared: false,
        parent: None,
        lifecycle: Lifecycle::Conversational,
        protocol: Protocol::V10,
        profile: Profile::Plain,
        workspace: "/w".into(),
        workspace_id: None,
        trusted: false,
        model: "m".into(),
        mode: Default::default(),
        auto_execute: false,
        tools: None,
        servers: Vec::new(),
        client_key: false,
        depth: 0,
        command: None,
    }
}
