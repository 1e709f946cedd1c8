//! What users define and a task uses: agents, command hooks, skills, slash commands.

pub mod agent;
pub mod command_hook;
pub mod skill;
pub mod slash;
