//! A fixture for tests of the file tools: a workspace `base/ws`, and files around it that no tool may reach.

#[path = "tool_context.rs"]
mod tool_context;

use gemini_a2a::task::machine::job::{Run, RunEnd};
use gemini_a2a::tool::{Ctx, NoPrograms, Toolbox};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use tool_context::{ToolContext, run_of};

pub struct ToolFixture {
    pub base: PathBuf,
    pub toolbox: Toolbox,
    pub context: ToolContext,
}

impl ToolFixture {
    /// With these directories and files below its base.
    pub fn with(name: &str, dirs: &[&str], files: &[(&str, &str)]) -> ToolFixture {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("gemini-a2a-{name}-{}-{number}", std::process::id());
        let base = std::env::temp_dir().join(name);
        for dir in dirs {
            fs::create_dir_all(base.join(dir)).expect("the temporary directory is writable");
        }
        for (file, text) in files {
            fs::write(base.join(file), text).expect("ours");
        }
        ToolFixture {
            base: base.canonicalize().expect("it was just made"),
            toolbox: Toolbox::built_in(),
            context: ToolContext::default(),
        }
    }

    pub fn ws(&self) -> PathBuf {
        self.base.join("ws")
    }

    pub fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.ws().join(name)).expect("ours");
    }

    /// Makes a call by `tool`.
    pub fn run(&self, name: &str, args: Value, tool: impl FnOnce(&Run, &Ctx<'_>) -> RunEnd) -> RunEnd {
        let run = run_of(&self.ws(), name, args);
        self.context.with(&self.ws(), &"t".into(), &NoPrograms, |ctx| tool(&run, ctx))
    }
}

impl Drop for ToolFixture {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.base);
    }
}
