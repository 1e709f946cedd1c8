//! Data types for other agents that the model may call. The shell layer finds the agents and sends the requests.

use crate::limits::agents::AGENT_THREADS;
use serde::{Deserialize, Serialize};

/// The name of the tool that calls them.
pub const INVOKE: &str = "invoke_agent";

/// The header field with the number of agents through which a request has come.
pub const DEPTH_HEADER: &str = "x-gemini-a2a-depth";

/// An agent that can be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callee {
    pub name: String,
    pub display_name: String,
    pub description: String,
    /// The origin of its URL: scheme, host and port. It contains no secrets.
    pub origin: String,
    /// The hash of its definition. An agent with another definition counts as another agent, even if it has the same name.
    pub fingerprint: String,
}

/// A conversation of a task with an agent, which the next call continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentThread {
    pub agent: String,
    pub fingerprint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The agent's task, unless it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

impl AgentThread {
    /// Adds it to the conversations of a task, replacing the one with the same agent. The newest is the last.
    pub fn add_to(&self, threads: &mut Vec<AgentThread>) {
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
    fn an_agent_has_one_conversation_and_the_oldest_is_forgotten() {
        let mut threads = Vec::new();
        let thread = |n: usize, task: &str| AgentThread {
            agent: n.to_string(),
            fingerprint: "f".into(),
            context: None,
            task: Some(task.into()),
        };
        (0..AGENT_THREADS).for_each(|n| thread(n, "old").add_to(&mut threads));
        thread(0, "new").add_to(&mut threads);
        assert_eq!((threads.len(), threads.last()), (AGENT_THREADS, Some(&thread(0, "new"))));
        thread(AGENT_THREADS, "old").add_to(&mut threads);
        assert_eq!((threads.len(), &threads[0]), (AGENT_THREADS, &thread(2, "old")));
    }
}
