//! Tools that read and change files, and the path resolution that keeps them inside the workspace.

pub mod activate_skill;
pub mod attachments;
pub mod changes;
pub mod diff;
pub mod edit;
pub mod kept_output;
pub mod list_directory;
pub mod open;
pub mod path;
mod put;
pub mod read_file;
pub mod replace;
pub mod restore;
pub mod text;
pub mod write_file;
