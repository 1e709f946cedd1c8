//! The kinds of turns that a day is made of. Each is a function that prompts, answers what is asked, waits for the end of the turn and
//! notes what must be found afterwards.

use crate::driver::{Day, Person, heading, notes};
use crate::support::eventually;
use crate::support::message::approval;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fs;

/// A PNG of one pixel.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

pub type Kind = fn(&mut Day);

/// How often each kind comes in a day. The seed decides in which order.
pub const TABLE: [(usize, Kind); 25] = [
    (38, answer),
    (14, thoughts_and_seal),
    (20, read),
    (16, approved_edit),
    (8, refused_edit),
    (5, edit_in_own_words),
    (12, parallel_reads),
    (7, parallel_edits),
    (5, both_answer),
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

fn answer(day: &mut Day) {
    let n = day.next();
    let answer = day.answer(n);
    day.turn(n, &answer, &[]);
}

fn thoughts_and_seal(day: &mut Day) {
    let n = day.next();
    let script = format!("THINK Plan {n} | What to do first ++ {} ++ SEAL s{n}", day.answer(n));
    day.turn(n, &script, &[]);
}

fn read(day: &mut Day) {
    let n = day.next();
    let script = format!(
        "TEXT I will look at it. ++ KEYED c{n} read_file {{\"file_path\":\"file-{}.txt\"}} ;; {}",
        n % 3,
        day.answer(n)
    );
    day.turn(n, &script, &[]);
}

fn approved_edit(day: &mut Day) {
    let n = day.next();
    let script = format!("KEYED c{n} replace {} ;; {}", day.edit(), day.answer(n));
    day.turn(n, &script, &["proceed_once"]);
    day.edited(1);
}

/// Everything that the model wanted was refused, so it is not asked again.
fn refused_edit(day: &mut Day) {
    let n = day.next();
    let turn = day.say(n, &format!("KEYED c{n} replace {} ;; TEXT Never said.", day.edit()));
    day.answer_question("cancel");
    day.ends(turn, |end| *end == "refused");
}

fn edit_in_own_words(day: &mut Day) {
    let n = day.next();
    let script = format!("CALL replace {} ;; {}", day.edit(), day.answer(n));
    let turn = day.say(n, &script);
    let call = day.question();
    let text = notes(day.version + 2);
    let task = &day.task;
    day.ann.call(json!({"answer": {"task": task, "call": call, "option": "proceed_once", "edited": text}}));
    day.done(turn);
    day.edited(2);
}

fn parallel_reads(day: &mut Day) {
    let n = day.next();
    let calls = match day.chance.percent(50) {
        true => format!(
            "KEYED a{n} read_file {{\"file_path\":\"file-0.txt\"}} ++ KEYED b{n} list_directory {{\"dir_path\":\".\"}}"
        ),
        false => format!("READ file-1.txt ++ READ file-2.txt ++ READ missing-{n}.txt"),
    };
    let script = format!("{calls} ;; {}", day.answer(n));
    day.turn(n, &script, &[]);
}

/// One of two edits is refused; the model is told of both.
fn parallel_edits(day: &mut Day) {
    let n = day.next();
    let other = json!({"file_path": format!("new-{n}.txt"), "content": "It is new.\n"});
    let script = format!("KEYED a{n} replace {} ++ KEYED b{n} write_file {other} ;; {}", day.edit(), day.answer(n));
    day.turn(n, &script, &["proceed_once", "cancel"]);
    day.edited(1);
    assert!(!day.file(&format!("new-{n}.txt")).exists(), "the refused file was not written");
}

/// Both people answer the same question; the first answer counts.
fn both_answer(day: &mut Day) {
    let n = day.next();
    let script = format!("KEYED c{n} replace {} ;; {}", day.edit(), day.answer(n));
    let turn = day.say(n, &script);
    let call = day.question();
    let task = day.task.clone();
    let ann = day.ann.send(json!({"answer": {"task": task, "call": call, "option": "proceed_once"}}));
    let ben = day.ben.client.rpc("message/send", approval(&task, &call, "proceed_once"));
    let ann = day.ann.reply(ann);
    assert!(ann["error"].is_null() || ben["error"].is_null(), "{ann} {ben}");
    day.done(turn);
    day.edited(1);
}

/// Tests fail, are mended, and pass.
fn tests(day: &mut Day) {
    let n = day.next();
    let version = day.version + 1;
    let edit = day.edit();
    let test = format!("SHELL sh test.sh {version}");
    let script = format!(
        "KEYED c{n} read_file {{\"file_path\":\"test.sh\"}} ;; {test} ;; KEYED d{n} replace {edit} ;; {test} ;; {}",
        day.answer(n)
    );
    day.turn(n, &script, &["proceed_once"; 3]);
    day.edited(1);
    day.shows(&format!("failed: version {version}."));
    day.shows(&format!("passed: version {version}."));
}

fn image_in_prompt(day: &mut Day) {
    let n = day.next();
    let script = day.answer(n);
    let image = image(n);
    let who = day.person();
    let turn = day.say_as(who, n, &script, Some(&image));
    day.done(turn);
    day.shows(&image);
}

fn image_by_read_file(day: &mut Day) {
    let n = day.next();
    let image = image(n);
    fs::write(day.file(&format!("{n}.png")), STANDARD.decode(&image).expect("base64")).expect("the workspace is ours");
    let script = format!("KEYED c{n} read_file {{\"file_path\":\"{n}.png\"}} ;; {}", day.answer(n));
    day.turn(n, &script, &[]);
    day.shows(&image);
}

fn file_in_prompt(day: &mut Day) {
    let n = day.next();
    let script = format!("{}\nThat is about @file-{}.txt and nothing else.", day.answer(n), n % 3);
    day.turn(n, &script, &[]);
}

/// Ann runs a command of her own; the model is shown it with the next prompt.
fn own_command(day: &mut Day) {
    let task = &day.task;
    let command = format!("echo by hand {}", day.number);
    day.ann.call(json!({"shell": {"task": task, "command": command}}));
    day.ann.until(|event| event.get("shell_ended").cloned());
    day.shows(&command);
    answer(day);
}

fn cut_off(day: &mut Day) {
    let n = day.next();
    let script = format!("{} ++ FINISH MAX_TOKENS", day.answer(n));
    day.turn(n, &script, &[]);
}

fn api_error(day: &mut Day) {
    let n = day.next();
    let code = [429, 500, 503][n % 3];
    let script = format!("ERR{code} {} ++ {}", 1 + n % 2, day.answer(n));
    day.turn(n, &script, &[]);
}

fn broken_stream(day: &mut Day) {
    let n = day.next();
    let script = format!("READ file-1.txt ;; TEXT Half of it. ++ BREAK ++ {}", day.answer(n));
    day.turn(n, &script, &[]);
}

/// The API refuses the request for good: neither the prompt nor a file that it names is sent again.
fn failed_turn(day: &mut Day) {
    let n = day.next();
    let file = if day.chance.percent(50) { "\nSee @file-0.txt." } else { "" };
    let turn = day.say(n, &format!("ERR400 9 refused-{n}{file}"));
    day.ends(turn, |end| end.get("failed").is_some());
    day.hidden.push(n);
}

fn stopped_before_first_word(day: &mut Day) {
    stopped_in_answer(day, "HOLD ++ TEXT Never said.");
}

fn stopped_in_sentence(day: &mut Day) {
    let words = day.words(20);
    stopped_in_answer(day, &format!("READ file-0.txt ;; TEXT {words} ++ HOLD ++ TEXT Never said."));
}

fn stopped_in_answer(day: &mut Day, script: &str) {
    let n = day.next();
    let held = day.fake.held();
    let turn = day.say(n, script);
    day.until_held(held);
    stop(day);
    day.ends(turn, is_stopped);
    until_nobody_listens(day);
}

/// The model has seen that nobody waits for its answer any more.
fn until_nobody_listens(day: &Day) {
    eventually("the end of all streams of the model", || (day.fake.counters().open == 0).then_some(()));
}

fn stopped_at_question(day: &mut Day) {
    let n = day.next();
    let turn = day.say(n, &format!("READ file-1.txt ++ CALL replace {} ;; TEXT Never said.", day.edit()));
    day.question();
    stop(day);
    day.ends(turn, is_stopped);
}

fn stopped_in_command(day: &mut Day) {
    let n = day.next();
    let turn = day.say(n, &format!("KEYED c{n} run_shell_command {} ;; TEXT Never said.", waiting(n)));
    day.answer_question("proceed_once");
    day.until_file(&format!("began-{n}"));
    stop(day);
    day.ends(turn, is_stopped);
}

fn is_stopped(end: &Value) -> bool {
    end.get("interrupted").is_some()
}

/// Either of them stops the turn.
fn stop(day: &mut Day) {
    let task = day.task.clone();
    match day.person() {
        Person::Ann => drop(day.ann.call(json!({"abort": {"task": task}}))),
        Person::Ben => drop(day.ben.command("stop", &[&task])),
    }
}

/// The arguments of a command that says that it has begun, and waits for a file.
fn waiting(n: usize) -> Value {
    let command = format!("touch began-{n}; until test -e go-{n}; do sleep 0.01; done; echo went on");
    json!({"command": command, "description": "Wait"})
}

/// A second prompt reaches the model together with the results of the first.
fn steered(day: &mut Day) {
    let n = day.next();
    let script = format!("KEYED c{n} run_shell_command {} ;; {}", waiting(n), day.answer(n));
    let turn = day.say(n, &script);
    day.answer_question("proceed_once");
    day.until_file(&format!("began-{n}"));
    let second = day.next();
    let text = format!("{}Rather keep it short.", heading(second, Person::Ann));
    let task = &day.task;
    day.ann.call(json!({"say": {"task": task, "text": text, "steer": true}}));
    fs::write(day.file(&format!("go-{n}")), "").expect("the workspace is ours");
    day.ann.until(|event| event.get("steered").cloned());
    day.done(turn);
}

fn queued(day: &mut Day) {
    let turn = wait_with_a_second_prompt(day);
    day.fake.release();
    day.done(turn);
    day.done(turn + 1);
}

fn dropped(day: &mut Day) {
    let turn = wait_with_a_second_prompt(day);
    let task = &day.task;
    day.ann.call(json!({"drop": {"task": task, "turn": turn + 1}}));
    day.hidden.extend(day.answered.pop());
    day.fake.release();
    day.done(turn);
}

/// Two prompts: the model is held in the first turn, which is given, and the second waits.
fn wait_with_a_second_prompt(day: &mut Day) -> u64 {
    let first = day.next();
    let held = day.fake.held();
    let script = format!("HOLD ++ {}", day.answer(first));
    let turn = day.say_as(Person::Ben, first, &script, None);
    day.until_held(held);
    let second = day.next();
    let script = day.answer(second);
    day.say_as(Person::Ann, second, &script, None);
    turn
}

/// `kill -9` in the middle of a command.
pub fn crash_in_command(day: &mut Day) {
    let n = day.next();
    let script = format!(
        "KEYED a{n} read_file {{\"file_path\":\"file-0.txt\"}} ++ KEYED b{n} run_shell_command {} ;; TEXT Never said.",
        waiting(n)
    );
    let turn = day.say_as(Person::Ann, n, &script, None);
    let call = day.question();
    day.reply(Person::Ann, &call, "proceed_once");
    day.until_file(&format!("began-{n}"));
    day.crash();
    day.ends(turn, is_stopped);
    day.shows("The server was stopped while this call was running.");
    answer(day);
}

/// `kill -9` in the middle of a sentence.
pub fn crash_in_sentence(day: &mut Day) {
    let n = day.next();
    let held = day.fake.held();
    let turn = day.say_as(Person::Ann, n, "TEXT Half a sentence ++ HOLD ++ TEXT Never said.", None);
    day.until_held(held);
    day.crash();
    day.ends(turn, is_stopped);
    until_nobody_listens(day);
}

/// `kill -9` while a question is open and a prompt waits.
pub fn crash_at_question(day: &mut Day) {
    let n = day.next();
    let script = format!("KEYED c{n} replace {} ;; {}", day.edit(), day.answer(n));
    let turn = day.say_as(Person::Ann, n, &script, None);
    let call = day.question();
    let second = day.next();
    let script = day.answer(second);
    day.say_as(Person::Ann, second, &script, None);
    day.crash();
    day.reply(Person::Ben, &call, "proceed_once");
    day.done(turn);
    day.done(turn + 1);
    day.edited(1);
}

pub fn remember(day: &mut Day) {
    let fact = format!("The colour of day {} is blue.", day.number);
    day.ben.command("memory add", &[&fact]);
    let shown = day.ben.command("memory show", &[]);
    assert!(shown.to_string().contains(&fact), "{shown}");
    day.shows(&fact);
    answer(day);
}

/// The model is not there any more, and another one is asked for the rest of the day.
pub fn fallback(day: &mut Day) {
    let n = day.next();
    let script = format!("ERR404 1 ++ {}", day.answer(n));
    let turn = day.say(n, &script);
    day.ann.until(|event| event.get("fell_back").cloned());
    day.done(turn);
}

pub fn statistics(day: &mut Day) {
    let stats = day.ben.command("stats", &[]);
    assert!(!stats.is_null());
    let task = day.ann.call(json!({"execute": {"text": "/memory show"}}))["taskId"].clone();
    assert_ne!(task, json!(day.task), "a command is a task of its own");
    answer(day);
}
