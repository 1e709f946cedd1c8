//! ToolFixture for tests of confinement: a workspace `base/ws`, and things around it that no tool may reach.

use gemini_a2a::base::cancel::Cancel;
use gemini_a2a::limits::Limits;
use gemini_a2a::task::machine::job::{Run, RunEnd};
use gemini_a2a::tool::commands::background::Background;
use gemini_a2a::tool::files::path::Workspace;
use gemini_a2a::tool::web::Web;
use gemini_a2a::tool::{Child, Ctx, Launch, Spawn, Toolbox};
use serde_json::Value;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

struct NoChildren;

impl Spawn for NoChildren {
    fn spawn(&self, _: Launch) -> io::Result<Box<dyn Child>> {
        Err(io::Error::other("nothing is started here"))
    }

    fn can_confine(&self, _: &Path) -> Result<(), String> {
        Err("No programs can be started in this test".into())
    }

    fn can_run_confined(&self, _: &str) -> Result<(), String> {
        Ok(())
    }
}

pub struct ToolFixture {
    pub base: PathBuf,
    pub toolbox: Toolbox,
    pub cancel: Cancel,
    pub limits: Limits,
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
            cancel: Cancel::default(),
            limits: Limits::default(),
        }
    }

    pub fn ws(&self) -> PathBuf {
        self.base.join("ws")
    }

    pub fn link(&self, target: impl AsRef<Path>, name: &str) {
        symlink(target, self.ws().join(name)).expect("ours");
    }

    /// Hands a call to whatever runs it.
    pub fn run(&self, name: &str, args: Value, tool: impl FnOnce(&Run, &Ctx<'_>) -> RunEnd) -> RunEnd {
        let ctx = Ctx {
            workspace: Workspace::open(&self.ws()).expect("the workspace opens"),
            cancel: &self.cancel,
            limits: &self.limits,
            children: &NoChildren,
            task: &"t".into(),
            background: &Background::default(),
            web: &Web::default(),
            ask: None,
        };
        let run = Run {
            workspace: self.ws().to_str().expect("a plain name").into(),
            call: "c1".into(),
            name: name.into(),
            args,
            base: None,
            edited: None,
            answers: None,
            confinement: Default::default(),
        };
        tool(&run, &ctx)
    }
}

impl Drop for ToolFixture {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.base);
    }
}
