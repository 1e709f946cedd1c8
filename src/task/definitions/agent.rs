//! Other agents that the model may call, as values. The shell layer finds them and talks to them.

use crate::limits::agents::AGENT_THREADS;
use serde::{Deserialize, Serialize};

/// The name of the tool that calls them.
pub const INVOKE: &str = "invoke_agent";

/// The header that says through how many agents a request has come.
pub const DEPTH_HEADER: &str = "x-gemini-a2a-depth";

/// An agent that can be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callee {
    pub name: String,
    pub display_name: String,
    pub description: String,
    /// Where it is, without secrets: scheme, host and port.
    pub origin: String,
    /// The hash of its definition: another definition of the same name is another agent.
    pub fingerprint: String,
}

/// A conversation of a task with an agent, which the next call goes on with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentThread {
    pub agent: String,
    pub fingerprint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The agent's task, unless it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

impl AgentThread {
    /// Adds it to the conversations of a task, in place of the one with the same agent. The newest is the last.
    pub fn keep_in(&self, threads: &mut Vec<AgentThread>) {
        threads.retain(|known| known.agent != self.agent);
        threads.push(self.clone());
        if threads.len() > AGENT_THREADS {
            threads.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_has_one_conversation_and_only_so_many_are_remembered() {
        let mut threads = Vec::new();
        let thread = |n: usize, task: &str| AgentThread {
            agent: n.to_string(),
            fingerprint: "f".into(),
            context: None,
            task: Some(task.into()),
        };
        (0..AGENT_THREADS).for_each(|n| thread(n, "old").keep_in(&mut threads));
        thread(0, "new").keep_in(&mut threads);
        assert_eq!((threads.len(), threads.last()), (AGENT_THREADS, Some(&thread(0, "new"))));
        thread(AGENT_THREADS, "old").keep_in(&mut threads);
        assert_eq!((threads.len(), &threads[0]), (AGENT_THREADS, &thread(2, "old")));
    }
}
