//! Data types for things that users define and tasks use: agents, command hooks, skills, slash commands.

pub mod agent;
pub mod command_hook;
pub mod skill;
pub mod slash;
