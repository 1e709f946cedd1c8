//! The kinds of turns of the conversation. Each is a function that prompts, answers the questions, waits for the end of the turn and
//! notes what the test must find at the end.

use crate::driver::{Conversation, Person, heading, notes};
use crate::support::eventually;
use crate::support::message::approval;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fs;

/// A PNG of one pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

pub type TurnKind = fn(&mut Conversation);

/// How many turns of each kind there are. The seed decides their order.
pub const TABLE: [(usize, TurnKind); 25] = [
    (38, answer),
    (14, thoughts_and_seal),
    (20, read),
    (16, approved_edit),
    (8, refused_edit),
    (5, edit_in_own_words),
    (12, parallel_reads),
    (7, parallel_edits),
    (5, both_people_answer),
    (7, tests),
    (6, image_in_prompt),
    (3, image_by_read_file),
    (4, file_in_prompt),
    (4, own_command),
    (5, cut_off),
    (6, api_error),
    (6, broken_stream),
    (5, failed_turn),
    (4, stopped_before_first_word),
    (4, stopped_in_sentence),
    (3, stopped_in_command),
    (3, stopped_at_question),
    (5, steered),
    (5, queued),
    (4, dropped),
];

/// A PNG that no other prompt has: decoders do not read what comes after its end.
fn image(n: usize) -> String {
    let pixel = STANDARD.decode(PIXEL).expect("base64");
    STANDARD.encode([&pixel, n.to_string().as_bytes()].concat())
}

fn answer(conversation: &mut Conversation) {
    let n = conversation.next();
    let answer = conversation.answer(n);
    conversation.turn(n, &answer, &[]);
}

fn thoughts_and_seal(conversation: &mut Conversation) {
    let n = conversation.next();
    let script = format!("THINK Plan {n} | What to do first ++ {} ++ SEAL s{n}", conversation.answer(n));
    conversation.turn(n, &script, &[]);
}

fn read(conversation: &mut Conversation) {
    let n = conversation.next();
    let script = format!(
        "TEXT I will look at it. ++ KEYED c{n} read_file {{\"file_path\":\"file-{}.txt\"}} ;; {}",
        n % 3,
        conversation.answer(n)
    );
    conversation.turn(n, &script, &[]);
}

fn approved_edit(conversation: &mut Conversation) {
    let n = conversation.next();
    let script = format!("KEYED c{n} replace {} ;; {}", conversation.edit(), conversation.answer(n));
    conversation.turn(n, &script, &["proceed_once"]);
    conversation.edited(1);
}

/// All calls of the model were refused, so the turn ends without another model request.
fn refused_edit(conversation: &mut Conversation) {
    let n = conversation.next();
    let turn = conversation.say(n, &format!("KEYED c{n} replace {} ;; TEXT Never said.", conversation.edit()));
    conversation.answer_question("cancel");
    conversation.ends(turn, |end| *end == "refused");
}

fn edit_in_own_words(conversation: &mut Conversation) {
    let n = conversation.next();
    let script = format!("CALL replace {} ;; {}", conversation.edit(), conversation.answer(n));
    let turn = conversation.say(n, &script);
    let call = conversation.question();
    let text = notes(conversation.version + 2);
    let task = &conversation.task;
    conversation.ann.call(json!({"answer": {"task": task, "call": call, "option": "proceed_once", "edited": text}}));
    conversation.done(turn);
    conversation.edited(2);
}

fn parallel_reads(conversation: &mut Conversation) {
    let n = conversation.next();
    let calls = match conversation.random.percent(50) {
        true => format!(
            "KEYED a{n} read_file {{\"file_path\":\"file-0.txt\"}} ++ KEYED b{n} list_directory {{\"dir_path\":\".\"}}"
        ),
        false => format!("READ file-1.txt ++ READ file-2.txt ++ READ missing-{n}.txt"),
    };
    let script = format!("{calls} ;; {}", conversation.answer(n));
    conversation.turn(n, &script, &[]);
}

/// One of two edits is refused; the model is told of both.
fn parallel_edits(conversation: &mut Conversation) {
    let n = conversation.next();
    let other = json!({"file_path": format!("new-{n}.txt"), "content": "It is new.\n"});
    let script = format!(
        "KEYED a{n} replace {} ++ KEYED b{n} write_file {other} ;; {}",
        conversation.edit(),
        conversation.answer(n)
    );
    conversation.turn(n, &script, &["proceed_once", "cancel"]);
    conversation.edited(1);
    assert!(!conversation.file(&format!("new-{n}.txt")).exists(), "the refused file was not written");
}

/// Both people answer the same question; the first answer counts.
fn both_people_answer(conversation: &mut Conversation) {
    let n = conversation.next();
    let script = format!("KEYED c{n} replace {} ;; {}", conversation.edit(), conversation.answer(n));
    let turn = conversation.say(n, &script);
    let call = conversation.question();
    let task = conversation.task.clone();
    let ann = conversation.ann.send(json!({"answer": {"task": task, "call": call, "option": "proceed_once"}}));
    let ben = conversation.ben.client.rpc("message/send", approval(&task, &call, "proceed_once"));
    let ann = conversation.ann.reply(ann);
    assert!(ann["error"].is_null() || ben["error"].is_null(), "{ann} {ben}");
    conversation.done(turn);
    conversation.edited(1);
}

/// A test command fails, an edit repairs what it tests, and the same command succeeds.
fn tests(conversation: &mut Conversation) {
    let n = conversation.next();
    let version = conversation.version + 1;
    let edit = conversation.edit();
    let test = format!("SHELL sh test.sh {version}");
    let script = format!(
        "KEYED c{n} read_file {{\"file_path\":\"test.sh\"}} ;; {test} ;; KEYED d{n} replace {edit} ;; {test} ;; {}",
        conversation.answer(n)
    );
    conversation.turn(n, &script, &["proceed_once"; 3]);
    conversation.edited(1);
    conversation.shows(&format!("failed: version {version}."));
    conversation.shows(&format!("passed: version {version}."));
}

fn image_in_prompt(conversation: &mut Conversation) {
    let n = conversation.next();
    let script = conversation.answer(n);
    let image = image(n);
    let who = conversation.person();
    let turn = conversation.say_as(who, n, &script, Some(&image));
    conversation.done(turn);
    conversation.shows(&image);
}

fn image_by_read_file(conversation: &mut Conversation) {
    let n = conversation.next();
    let image = image(n);
    fs::write(conversation.file(&format!("{n}.png")), STANDARD.decode(&image).expect("base64"))
        .expect("the workspace is ours");
    let script = format!("KEYED c{n} read_file {{\"file_path\":\"{n}.png\"}} ;; {}", conversation.answer(n));
    conversation.turn(n, &script, &[]);
    conversation.shows(&image);
}

fn file_in_prompt(conversation: &mut Conversation) {
    let n = conversation.next();
    let script = format!("{}\nThat is about @file-{}.txt and nothing else.", conversation.answer(n), n % 3);
    conversation.turn(n, &script, &[]);
}

/// Ann runs a command herself. The model gets the command and its output with the next prompt.
fn own_command(conversation: &mut Conversation) {
    let task = &conversation.task;
    let command = format!("echo by hand {}", conversation.number);
    conversation.ann.call(json!({"shell": {"task": task, "command": command}}));
    conversation.ann.until(|event| event.get("shell_ended").cloned());
    conversation.shows(&command);
    answer(conversation);
}

fn cut_off(conversation: &mut Conversation) {
    let n = conversation.next();
    let script = format!("{} ++ FINISH MAX_TOKENS", conversation.answer(n));
    conversation.turn(n, &script, &[]);
}

fn api_error(conversation: &mut Conversation) {
    let n = conversation.next();
    let code = [429, 500, 503][n % 3];
    let script = format!("ERR{code} {} ++ {}", 1 + n % 2, conversation.answer(n));
    conversation.turn(n, &script, &[]);
}

fn broken_stream(conversation: &mut Conversation) {
    let n = conversation.next();
    let script = format!("READ file-1.txt ;; TEXT Half of it. ++ BREAK ++ {}", conversation.answer(n));
    conversation.turn(n, &script, &[]);
}

/// The API refuses every attempt of the request: later requests contain neither the prompt nor the file that it names.
fn failed_turn(conversation: &mut Conversation) {
    let n = conversation.next();
    let file = if conversation.random.percent(50) { "\nSee @file-0.txt." } else { "" };
    let turn = conversation.say(n, &format!("ERR400 9 refused-{n}{file}"));
    conversation.ends(turn, |end| end.get("failed").is_some());
    conversation.hidden.push(n);
}

fn stopped_before_first_word(conversation: &mut Conversation) {
    stopped_in_answer(conversation, "HOLD ++ TEXT Never said.");
}

fn stopped_in_sentence(conversation: &mut Conversation) {
    let words = conversation.words(20);
    stopped_in_answer(conversation, &format!("READ file-0.txt ;; TEXT {words} ++ HOLD ++ TEXT Never said."));
}

fn stopped_in_answer(conversation: &mut Conversation, script: &str) {
    let n = conversation.next();
    let held = conversation.fake.held();
    let turn = conversation.say(n, script);
    conversation.until_held(held);
    stop(conversation);
    conversation.ends(turn, is_stopped);
    until_streams_are_closed(conversation);
}

/// Waits until the fake model has noticed that the client of its stream has disconnected.
fn until_streams_are_closed(conversation: &Conversation) {
    eventually("the end of all streams of the model", || (conversation.fake.counters().open == 0).then_some(()));
}

fn stopped_at_question(conversation: &mut Conversation) {
    let n = conversation.next();
    let turn =
        conversation.say(n, &format!("READ file-1.txt ++ CALL replace {} ;; TEXT Never said.", conversation.edit()));
    conversation.question();
    stop(conversation);
    conversation.ends(turn, is_stopped);
}

fn stopped_in_command(conversation: &mut Conversation) {
    let n = conversation.next();
    let turn = conversation.say(n, &format!("KEYED c{n} run_shell_command {} ;; TEXT Never said.", waiting(n)));
    conversation.answer_question("proceed_once");
    conversation.until_file(&format!("began-{n}"));
    stop(conversation);
    conversation.ends(turn, is_stopped);
}

fn is_stopped(end: &Value) -> bool {
    end.get("interrupted").is_some()
}

/// A random person stops the turn.
fn stop(conversation: &mut Conversation) {
    let task = conversation.task.clone();
    match conversation.person() {
        Person::Ann => drop(conversation.ann.call(json!({"abort": {"task": task}}))),
        Person::Ben => drop(conversation.ben.command("stop", &[&task])),
    }
}

/// The arguments of a command that creates the file `began-N` and waits for the file `go-N`.
fn waiting(n: usize) -> Value {
    let command = format!("touch began-{n}; until test -e go-{n}; do sleep 0.01; done; echo went on");
    json!({"command": command, "description": "Wait"})
}

/// A second prompt reaches the model with the tool results of the first one's turn.
fn steered(conversation: &mut Conversation) {
    let n = conversation.next();
    let script = format!("KEYED c{n} run_shell_command {} ;; {}", waiting(n), conversation.answer(n));
    let turn = conversation.say(n, &script);
    conversation.answer_question("proceed_once");
    conversation.until_file(&format!("began-{n}"));
    let second = conversation.next();
    let text = format!("{}Rather keep it short.", heading(second, Person::Ann));
    let task = &conversation.task;
    conversation.ann.call(json!({"say": {"task": task, "text": text, "steer": true}}));
    fs::write(conversation.file(&format!("go-{n}")), "").expect("the workspace is ours");
    conversation.ann.until(|event| event.get("steered").cloned());
    conversation.done(turn);
}

fn queued(conversation: &mut Conversation) {
    let turn = wait_with_a_second_prompt(conversation);
    conversation.fake.release();
    conversation.done(turn);
    conversation.done(turn + 1);
}

fn dropped(conversation: &mut Conversation) {
    let turn = wait_with_a_second_prompt(conversation);
    let task = &conversation.task;
    conversation.ann.call(json!({"drop": {"task": task, "turn": turn + 1}}));
    conversation.hidden.extend(conversation.answered.pop());
    conversation.fake.release();
    conversation.done(turn);
}

/// Sends two prompts: the model is held in the turn of the first one, so that the second one waits. Returns the first turn.
fn wait_with_a_second_prompt(conversation: &mut Conversation) -> u64 {
    let first = conversation.next();
    let held = conversation.fake.held();
    let script = format!("HOLD ++ {}", conversation.answer(first));
    let turn = conversation.say_as(Person::Ben, first, &script, None);
    conversation.until_held(held);
    let second = conversation.next();
    let script = conversation.answer(second);
    conversation.say_as(Person::Ann, second, &script, None);
    turn
}

/// `kill -9` while a command runs.
pub fn crash_in_command(conversation: &mut Conversation) {
    let n = conversation.next();
    let script = format!(
        "KEYED a{n} read_file {{\"file_path\":\"file-0.txt\"}} ++ KEYED b{n} run_shell_command {} ;; TEXT Never said.",
        waiting(n)
    );
    let turn = conversation.say_as(Person::Ann, n, &script, None);
    let call = conversation.question();
    conversation.reply(Person::Ann, &call, "proceed_once");
    conversation.until_file(&format!("began-{n}"));
    conversation.crash();
    conversation.ends(turn, is_stopped);
    conversation.shows("The server was stopped while this call was running.");
    answer(conversation);
}

/// `kill -9` while the model streams a sentence.
pub fn crash_in_sentence(conversation: &mut Conversation) {
    let n = conversation.next();
    let held = conversation.fake.held();
    let turn = conversation.say_as(Person::Ann, n, "TEXT Half a sentence ++ HOLD ++ TEXT Never said.", None);
    conversation.until_held(held);
    conversation.crash();
    conversation.ends(turn, is_stopped);
    until_streams_are_closed(conversation);
}

/// `kill -9` while a question is open and a prompt waits.
pub fn crash_at_question(conversation: &mut Conversation) {
    let n = conversation.next();
    let script = format!("KEYED c{n} replace {} ;; {}", conversation.edit(), conversation.answer(n));
    let turn = conversation.say_as(Person::Ann, n, &script, None);
    let call = conversation.question();
    let second = conversation.next();
    let script = conversation.answer(second);
    conversation.say_as(Person::Ann, second, &script, None);
    conversation.crash();
    conversation.reply(Person::Ben, &call, "proceed_once");
    conversation.done(turn);
    conversation.done(turn + 1);
    conversation.edited(1);
}

pub fn remember(conversation: &mut Conversation) {
    let fact = format!("The colour of request {} is blue.", conversation.number);
    conversation.ben.command("memory add", &[&fact]);
    let shown = conversation.ben.command("memory show", &[]);
    assert!(shown.to_string().contains(&fact), "{shown}");
    conversation.shows(&fact);
    answer(conversation);
}

/// The model is not available any more, and its fallback answers for the rest of the conversation.
pub fn fallback(conversation: &mut Conversation) {
    let n = conversation.next();
    let script = format!("ERR404 1 ++ {}", conversation.answer(n));
    let turn = conversation.say(n, &script);
    conversation.ann.until(|event| event.get("fell_back").cloned());
    conversation.done(turn);
}

pub fn statistics(conversation: &mut Conversation) {
    let stats = conversation.ben.command("stats", &[]);
    assert!(!stats.is_null());
    let task = conversation.ann.call(json!({"execute": {"text": "/memory show"}}))["taskId"].clone();
    assert_ne!(task, json!(conversation.task), "a command is a task of its own");
    answer(conversation);
}
