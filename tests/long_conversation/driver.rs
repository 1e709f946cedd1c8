//! Drives the conversation: sends prompts and answers, and waits for events of the log. Notes what the test must find at the end.

use crate::people::{Ann, Ben};
use crate::support::fake::FakeGemini;
use crate::support::message::{approval, prompt_in};
use crate::support::random::Random;
use crate::support::server::{Server, Setup};
use crate::support::{TempDir, eventually};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;

#[derive(Clone, Copy, Debug)]
pub enum Person {
    Ann,
    Ben,
}

pub struct Conversation {
    pub ann: Ann,
    pub ben: Ben,
    pub server: Server,
    pub fake: FakeGemini,
    /// The task of the conversation.
    pub task: String,
    pub random: Random,
    /// The number of the last prompt.
    pub number: usize,
    /// The number in `notes.txt`.
    pub version: usize,
    /// Calls that wait for an answer, oldest first.
    open: VecDeque<String>,
    /// Prompts whose answer must be in the log at the end.
    pub answered: Vec<usize>,
    /// Prompts that later requests to the model must not contain.
    pub hidden: Vec<usize>,
    /// Texts of which each must be in some request to the model.
    pub shown: Vec<String>,
    _home: TempDir,
}

impl Conversation {
    pub fn begin(seed: u64, settings: Value) -> Conversation {
        let home = TempDir::new("home");
        fs::write(home.folder(".gemini").join("settings.json"), settings.to_string()).expect("settings");
        let fake = FakeGemini::start();
        let server = Setup::new(&fake).env("HOME", home.path()).args(["--retry-wait", "5ms"]).start();
        let mut ann = Ann::join(&server.url());
        let task = ann.call(json!({"session": {}})).as_str().expect("the id of a task").to_owned();
        let mut conversation = Conversation {
            ben: Ben::new(&server.url()),
            ann,
            server,
            fake,
            task,
            random: Random::new(seed),
            number: 0,
            version: 1,
            open: VecDeque::new(),
            answered: vec![],
            hidden: vec![],
            shown: vec!["<state_snapshot>what was said before".to_owned()],
            _home: home,
        };
        conversation.fill_workspace();
        conversation
    }

    /// Writes the files that turns read, edit and test.
    fn fill_workspace(&mut self) {
        let test = "if grep -q \"version $1\" notes.txt; then echo \"passed: version $1.\"; exit; fi\n\
                    echo \"failed: version $1.\"\nexit 1\n";
        fs::write(self.file("test.sh"), test).expect("the workspace is ours");
        fs::write(self.file("notes.txt"), notes(self.version)).expect("the workspace is ours");
        for number in 0..3 {
            let text = format!("This is file-{number}.txt.\n{}\n", self.words(300));
            fs::write(self.file(&format!("file-{number}.txt")), text).expect("the workspace is ours");
        }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.server.workspace().join(name)
    }

    /// Random words, so that the text does not repeat itself.
    pub fn words(&mut self, count: usize) -> String {
        let word = |_| format!("{:x}", self.random.below(0x100_0000));
        (0..count).map(word).collect::<Vec<String>>().join(" ")
    }

    pub fn person(&mut self) -> Person {
        if self.random.percent(50) { Person::Ann } else { Person::Ben }
    }

    /// The number of the next prompt.
    pub fn next(&mut self) -> usize {
        self.number += 1;
        self.number
    }

    /// The script of the answer to a prompt. The answer must be in the log at the end.
    pub fn answer(&mut self, n: usize) -> String {
        self.answered.push(n);
        let length = 10 + self.random.below(50);
        format!("TEXT Answer {n:03}. {}", self.words(length))
    }

    /// A whole turn: a random person prompts, and each question gets one of `replies`.
    pub fn turn(&mut self, n: usize, script: &str, replies: &[&str]) {
        let turn = self.say(n, script);
        for option in replies {
            self.answer_question(option);
        }
        self.done(turn);
    }

    /// A random person answers the next question.
    pub fn answer_question(&mut self, option: &str) {
        let call = self.question();
        let who = self.person();
        self.reply(who, &call, option);
    }

    pub fn say(&mut self, n: usize, script: &str) -> u64 {
        let who = self.person();
        self.say_as(who, n, script, None)
    }

    /// Sends a prompt and waits until it is in the log. Returns the number of its turn.
    pub fn say_as(&mut self, who: Person, n: usize, script: &str, image: Option<&str>) -> u64 {
        let text = format!("{}{script}", heading(n, who));
        match who {
            Person::Ann => {
                let mut parts = vec![json!({"content": {"text": text}})];
                parts.extend(image.map(|data| json!({"content": {"bytes": data}, "media_type": "image/png"})));
                let message = json!({"id": format!("m-{n}"), "role": "user", "parts": parts});
                let say = json!({"say": {"task": self.task, "id": format!("key-{n}"), "message": message}});
                // A client that is not sure whether it was heard sends its prompt again, with the same key.
                let times = 1 + usize::from(self.random.percent(20));
                (0..times).for_each(|_| drop(self.ann.call(say.clone())));
            }
            Person::Ben => {
                let mut params = prompt_in(&self.task, &text);
                if let Some(bytes) = image {
                    let part = json!({"kind": "file", "file": {"bytes": bytes, "mimeType": "image/png"}});
                    params["message"]["parts"].as_array_mut().expect("parts").push(part);
                }
                self.ben.stream(params);
            }
        }
        let mark = heading(n, who);
        self.ann.until(|event| {
            let prompted = event.get("prompted")?;
            let text = prompted["message"]["parts"][0]["content"]["text"].as_str()?;
            text.starts_with(&mark).then(|| prompted["turn"].as_u64())?
        })
    }

    /// Waits until the turn is paused. Returns the call with the oldest open question.
    pub fn question(&mut self) -> String {
        let open = &mut self.open;
        self.ann.until(|event| {
            open.extend(event["call_asked"]["call"].as_str().map(str::to_owned));
            (*event == "paused").then_some(())
        });
        self.open.pop_front().expect("a question")
    }

    pub fn reply(&mut self, who: Person, call: &str, option: &str) {
        match who {
            Person::Ann => drop(self.ann.call(json!({"answer": {"task": self.task, "call": call, "option": option}}))),
            Person::Ben => self.ben.stream(approval(&self.task, call, option)),
        }
    }

    pub fn done(&mut self, turn: u64) {
        self.ends(turn, |end| *end == "done");
    }

    /// Waits until the turn has ended and Ben's stream, too.
    pub fn ends(&mut self, turn: u64, as_expected: fn(&Value) -> bool) {
        let end = self.ann.until(|event| {
            let ended = &event["turn_ended"];
            (ended["turn"] == turn).then(|| ended["end"].clone())
        });
        assert!(as_expected(&end), "turn {turn} ended so: {end}");
        self.ben.finish();
    }

    /// Arguments of the edit that increments the version in `notes.txt`.
    pub fn edit(&self) -> Value {
        let version = |version| format!("version {version}");
        json!({"file_path": "notes.txt", "instruction": "Count up.", "old_string": version(self.version),
               "new_string": version(self.version + 1)})
    }

    /// Expects that the version in `notes.txt` was incremented `by` times.
    pub fn edited(&mut self, by: usize) {
        self.version += by;
        let text = fs::read_to_string(self.file("notes.txt")).expect("the notes");
        assert_eq!(text, notes(self.version));
    }

    pub fn until_file(&self, name: &str) {
        let file = self.file(name);
        eventually(name, || file.exists().then_some(()));
    }

    /// Waits until the model has held more than `held` answers back.
    pub fn until_held(&self, held: u64) {
        eventually("the model holds its answer", || (self.fake.held() > held).then_some(()));
    }

    /// Some request to the model must contain this text.
    pub fn shows(&mut self, text: &str) {
        self.shown.push(text.to_owned());
    }

    /// `kill -9` and a new server process; both people connect again.
    pub fn crash(&mut self) {
        self.server.kill9();
        self.server.restart();
        let url = self.server.url();
        self.ann.rejoin(&url);
        self.ben.rejoin(&url, &self.task);
    }
}

/// The first line of a prompt.
pub fn heading(n: usize, who: Person) -> String {
    format!("Request {n:03} of {who:?}.\n")
}

pub fn notes(version: usize) -> String {
    format!("Notes\nversion {version}\n")
}
