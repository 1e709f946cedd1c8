//! The formats of files: JSON with comments, TOML, YAML and variables, as trees of values.

pub mod dotenv;
pub mod jsonc;
pub mod jsonc_edit;
pub mod toml;
pub mod tree;
pub mod yaml;
