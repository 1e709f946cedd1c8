//! `init`: makes a GEMINI.md for the project. An empty file is created at once, so that a second `init` does not start the same work, and
//! the model is asked to examine the project and to fill the file.

use super::{Asked, text_result};
use crate::task::definitions::slash::Commanded;
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::Path;

pub fn run(asked: &Asked) -> Result<Commanded, String> {
    let name = asked.prompt_context.memory_name(&asked.command.workspace);
    let path = Path::new(&*asked.command.workspace).join(&name);
    // Any file with this name is kept, also a dangling link.
    match OpenOptions::new().write(true).create_new(true).open(&path) {
        Ok(_) => Ok(Commanded::Ask { prompt: prompt(&name) }),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            text_result(format!("A {name} file already exists in this directory. No changes were made."))
        }
        Err(error) => {
            Err(format!("{} cannot be made: {error}. Make the workspace writable for the server.", path.display()))
        }
    }
}

fn prompt(name: &str) -> String {
    format!(
        "The file {name} in the current directory is empty. It will be given to you at the start of every later conversation \
         about this project, so write into it what somebody who is new here needs to know.\n\
         \n\
         First look around:\n\
         1. List the directory and read the README, if there is one.\n\
         2. Read up to ten more files, one after the other, each time the one you expect to learn most from: manifests, build \
         files, entry points, tests, documentation. Stop when you understand how it fits together.\n\
         3. Decide whether it is a software project or a collection of something else, such as notes or data.\n\
         \n\
         For a software project write about: what it is for, what it is made with and how it is structured; the commands to \
         build, run and test it, as you found them, and where you found none, say that they are unknown; the conventions of \
         its code, tests and commits that can be seen.\n\
         For anything else write about: what the directory holds and why, which files matter most, how it is meant to be used.\n\
         \n\
         State only what you have seen. Keep it short enough to be read each time. Then write the whole of it, as well-formed \
         Markdown, to {name}."
    )
}
