//! A typical turn with the real binary and a fake model: list and search a small repository, edit a file, run its tests, which fail,
//! edit the file again and run the tests again, which pass. Three times: with every question answered, without questions, and with the
//! last edit replaced by the user's own text.

mod support;

use serde_json::{Value, json};
use support::client::{Client, Event};
use support::fake::FakeGemini;
use support::message::{approval, asked_of, call_of, call_status_of, kind_of, prompt, task_of};
use support::server::{Server, Setup};

const BROKEN: &str = "add() {\n  echo $(( $1 - $2 ))\n}\n";
const CORRECT: &str = "add() {\n  echo $(( $1 + $2 ))\n}\n";
const TEST: &str = ". ./add.sh\necho testing\nsleep 0.3\ntest \"$(add 2 3)\" = 5 && echo passed\n";

fn edit(old: &str, new: &str) -> String {
    let args = json!({
        "file_path": "add.sh", "instruction": "make it add", "old_string": old, "new_string": new,
    });
    format!("CALL replace {args}")
}

fn script() -> String {
    [
        "LS .".to_owned(),
        "CALL grep_search {\"pattern\":\"add\"} ++ READ add.sh".to_owned(),
        edit("$1 - $2", "$1 * $2"),
        "SHELL sh test.sh".to_owned(),
        edit("$1 * $2", "$1 + $2"),
        "SHELL sh test.sh".to_owned(),
        "TEXT It adds now.".to_owned(),
    ]
    .join(" ;; ")
}

struct CodingTurn {
    fake: FakeGemini,
    server: Server,
    client: Client,
    events: Vec<Event>,
}

impl CodingTurn {
    fn begin(arrange: impl FnOnce(Setup) -> Setup) -> CodingTurn {
        let fake = FakeGemini::start();
        let server = arrange(Setup::new(&fake)).start();
        std::fs::write(server.workspace().join("add.sh"), BROKEN).expect("the workspace is ours");
        std::fs::write(server.workspace().join("test.sh"), TEST).expect("the workspace is ours");
        let client = Client::new(&server.url());
        CodingTurn { fake, server, client, events: Vec::new() }
    }

    /// Sends the prompt and approves every call, with the members that `reply` returns for it, until the turn has ended.
    fn run(&mut self, mut reply: impl FnMut(&Value) -> Value) {
        let mut params = prompt(&script());
        loop {
            let seen: Vec<Event> = self.client.stream("message/stream", params).collect();
            let asked: Vec<(String, Value)> = seen
                .iter()
                .filter(|event| call_status_of(event.result()) == "awaiting_approval")
                .filter(|event| call_of(event.result())["outcome"].is_null())
                .filter_map(|event| Some((asked_of(event.result())?.to_owned(), call_of(event.result()).clone())))
                .collect();
            let task = seen.iter().find_map(|event| task_of(event.result())).expect("a task").to_owned();
            self.events.extend(seen);
            let Some((call, data)) = asked.first() else {
                return;
            };
            params = approval(&task, call, "proceed_once");
            let part = &mut params["message"]["parts"][0]["data"];
            for (name, value) in reply(data).as_object().expect("an object") {
                part[name] = value.clone();
            }
        }
    }

    fn file(&self) -> String {
        std::fs::read_to_string(self.server.workspace().join("add.sh")).expect("it is there")
    }

    /// Names and final statuses of the calls, in the order in which they ended.
    fn calls(&self) -> Vec<(String, String)> {
        let ended = self
            .events
            .iter()
            .filter(|event| matches!(call_status_of(event.result()), "success" | "error" | "cancelled"));
        ended
            .map(|event| {
                let call = call_of(event.result());
                let name = call["request"]["name"].as_str().expect("a name").to_owned();
                (name, call_status_of(event.result()).to_owned())
            })
            .collect()
    }

    fn questions(&self) -> usize {
        let asked = |event: &&Event| kind_of(event.result()) == "tool-call-confirmation";
        let open = |event: &&Event| call_of(event.result())["outcome"].is_null();
        self.events.iter().filter(asked).filter(open).count()
    }

    /// The live output of the test commands.
    fn live_output(&self) -> String {
        let pieces = self.events.iter().map(Event::result).filter(|result| result["kind"] == "artifact-update");
        pieces.filter_map(|result| result["artifact"]["parts"][0]["text"].as_str()).collect()
    }

    fn answer(&self) -> String {
        let texts = self.events.iter().filter(|event| kind_of(event.result()) == "text-content");
        texts.map(|event| support::message::text_of(event.result())).collect()
    }

    fn check_events(&self) {
        let names: Vec<(String, String)> = self.calls();
        let expected = [
            "list_directory",
            "grep_search",
            "read_file",
            "replace",
            "run_shell_command",
            "replace",
            "run_shell_command",
        ];
        let mut got: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
        // The two calls of one model answer run in parallel and may end in either order.
        got[1..3].sort_unstable();
        assert_eq!(got, expected);
        assert!(names.iter().all(|(_, status)| status == "success"), "{names:?}");
        assert_eq!(self.live_output(), "testing\ntesting\npassed\n");
        assert_eq!(self.answer(), "It adds now.");
        assert!(self.events.last().expect("frames").is_final());
        let finals = self.events.iter().filter(|event| event.is_final()).count();
        assert_eq!(finals, self.questions() + 1, "each stream ends once");
        let failing = self.fake.turns().iter().any(|turn| turn.body["contents"].to_string().contains("Exit Code: 1"));
        assert!(failing, "the model was told that the tests failed");
    }
}

#[test]
fn with_every_question_answered() {
    let mut turn = CodingTurn::begin(|setup| setup);
    turn.run(|_| json!({}));
    turn.check_events();
    assert_eq!(turn.questions(), 4, "two edits and two runs");
    assert_eq!(turn.file(), CORRECT);
}

#[test]
fn without_questions_in_a_trusted_workspace() {
    let mut turn = CodingTurn::begin(|setup| setup.arg("--trust-workspace").arg("--approval-mode").arg("yolo"));
    turn.run(|call| panic!("nobody should be asked about {call}"));
    turn.check_events();
    assert_eq!(turn.questions(), 0);
    assert_eq!(turn.file(), CORRECT);
}

#[test]
fn with_the_last_edit_replaced_by_the_user() {
    let mut turn = CodingTurn::begin(|setup| setup);
    let own = "add() { expr $1 + $2; }\n";
    let mut edits = 0;
    turn.run(|call| {
        edits += u32::from(call["request"]["name"] == "replace");
        match (call["request"]["name"].as_str(), edits) {
            (Some("replace"), 2) => json!({ "newContent": own }),
            _ => json!({}),
        }
    });
    turn.check_events();
    assert_eq!(turn.file(), own);
}
