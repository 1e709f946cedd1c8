//! What goes wrong with a turn, through every entry point: one file per entry point in `tests/golden/trouble`, with a section for each
//! row of [`TROUBLES`], which ends with the warnings of the server's log. They are written anew as those of the story.

use super::{DIALECTS, Dialect, FakeGemini, Setup, Story, compare, eventually, none_differs};

struct Trouble {
    name: &'static str,
    /// Options of the server.
    args: &'static [&'static str],
    prompt: &'static str,
}

const TROUBLES: [Trouble; 6] = [
    Trouble { name: "the API is down and comes back: retries", args: &[], prompt: "ERR503 2" },
    Trouble { name: "the API does not know the model: a fallback", args: &[], prompt: "ERR404 1" },
    Trouble { name: "the API stays down: a failed turn", args: &["--max-attempts", "2"], prompt: "ERR500" },
    Trouble { name: "the API always breaks off: void text, a failed turn", args: &[], prompt: "TEXT Hel ++ GARBAGE" },
    Trouble { name: "the API refuses the key: a failed turn", args: &[], prompt: "ERR403" },
    Trouble {
        name: "the API is too slow: a failed turn",
        args: &["--model-timeout", "100ms", "--retry-for", "1ms", "--model", "gemma-4-31b-it"],
        prompt: "HANG",
    },
];

#[test]
fn trouble_through_every_entry_point() {
    let mut texts = vec![String::new(); DIALECTS.len()];
    // The sections of several entry points are made at the same time: most of them wait.
    std::thread::scope(|scope| {
        for (dialect, text) in DIALECTS.iter().zip(&mut texts) {
            scope.spawn(|| text.extend(TROUBLES.iter().map(|trouble| live(dialect, trouble))));
        }
    });
    none_differs(DIALECTS.iter().zip(&texts).filter_map(|(dialect, text)| compare("trouble", dialect, text)));
}

fn live(dialect: &Dialect, trouble: &Trouble) -> String {
    let fake = FakeGemini::start();
    let setup = Setup::new(&fake).env("GEMINI_API_KEY", "k-123").arg("--debug").args(["--retry-wait", "10ms"]);
    let server = setup.args(trouble.args).start();
    let told = Story::new(dialect, &server, trouble.prompt, &[]).told();
    super::Client::new(&server.url()).get("/health");
    let log = eventually("the last line of the log", || {
        let output = server.output();
        output.contains("request health").then_some(output)
    });
    let warnings =
        log.lines().filter_map(|line| Some(line.split_once("] ")?.1)).filter(|line| line.starts_with("warn"));
    let warnings: Vec<String> = warnings.map(|line| format!("log: {}\n", told.renamed(line))).collect();
    format!("$ {}\n{}{}", trouble.name, told.text, warnings.concat()).replace(&fake.url(), "URL")
}
