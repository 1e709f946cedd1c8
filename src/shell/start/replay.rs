//! `gemini-a2a replay`: shows a journal as clients of a dialect see it. One line per frame, with the number of its event before it,
//! so that the output can be searched and compared. Nothing is written or locked: a server may be using the journal.

use crate::a2a::{self, Body, SnapshotOptions, Tools, View};
use crate::args::{Replay, Shown};
use crate::base::id::Seq;
use crate::base::json;
use crate::shell::journal::blobs::FileBlobs;
use crate::task::log::blob::Blobs;
use crate::task::log::record::{BadLine, Record};
use crate::task::machine::state::State;
use crate::tool::Toolbox;
use crate::ui::scene::Scene;
use std::io::{self, ErrorKind, Write};
use std::ops::ControlFlow;

/// Replays the file with the tools that are built in. An error is one line.
pub fn run(replay: &Replay, out: impl Write) -> Result<(), String> {
    let file = &replay.file;
    let journal = std::fs::read(file).map_err(|e| format!("{file} cannot be read: {e}"))?;
    let tools = Tools::new(&Toolbox::built_in().specs());
    let mut out = io::BufWriter::new(out);
    let log = Log { journal: &journal, blobs: &FileBlobs::of_journal(file.as_ref()) };
    let shown = match (replay.shown, replay.at) {
        (Shown::Dialect(view), Some(at)) => snapshot(log, view, at, &mut out),
        (Shown::Dialect(view), None) => events(log, view, &tools, &mut out),
        (Shown::Scene, at) => scene(log, at, &mut out),
    };
    match shown.and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        // The reader has closed the pipe.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) if error.kind() == ErrorKind::InvalidData => Err(format!("{file}: {error}")),
        Err(error) => Err(format!("the output cannot be written: {error}")),
    }
}

/// What is replayed.
#[derive(Clone, Copy)]
pub struct Log<'a> {
    pub journal: &'a [u8],
    /// The content that the journal names. For content that is missing a notice is shown.
    pub blobs: &'a dyn Blobs,
}

/// The error of a journal that cannot be shown. Other errors are errors of the output.
fn unusable(why: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

/// Every event that the view shows. The last frame is the one that a stream would end with.
pub fn events(log: Log<'_>, view: View, tools: &Tools, out: &mut impl Write) -> io::Result<()> {
    let mut last: Option<(Seq, Body)> = None;
    fold(log, Texts::of(view), |state, record| {
        let Some(body) = a2a::event(view, state, record, tools) else {
            return Ok(ControlFlow::Continue(()));
        };
        if let Some((seq, before)) = last.replace((record.seq, body)) {
            line(out, seq, before.frame(false))?;
        }
        Ok(ControlFlow::Continue(()))
    })?;
    match last {
        Some((seq, body)) => line(out, seq, body.frame(true)),
        None => Ok(()),
    }
}

/// The task after the event.
pub fn snapshot(log: Log<'_>, view: View, at: Seq, out: &mut impl Write) -> io::Result<()> {
    let mut last = Seq(0);
    fold(log, Texts::of(view), |state, record| {
        last = record.seq;
        if record.seq != at {
            return Ok(ControlFlow::Continue(()));
        }
        let mut state = state.clone();
        state.load_messages(log.blobs).map_err(|e| unusable(format!("it names a file that cannot be read: {e}")))?;
        line(out, at, &a2a::snapshot(view, &state, SnapshotOptions::ALL))?;
        Ok(ControlFlow::Break(()))
    })?;
    reached(last, at)
}

/// The scene that people see of the task at its end, or after the event. Long texts are replaced by their hashes, as in the records.
pub fn scene(log: Log<'_>, at: Option<Seq>, out: &mut impl Write) -> io::Result<()> {
    let mut scene = Scene::default();
    fold(log, Texts::ByHash, |_, record| {
        scene.fold(record);
        Ok(if Some(record.seq) == at { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    reached(scene.seq, at.unwrap_or(scene.seq))?;
    line(out, scene.seq, &json::bytes(&scene))
}

fn reached(last: Seq, at: Seq) -> io::Result<()> {
    match last == at {
        true => Ok(()),
        false => Err(unusable(format!("there is no event {at}; they are numbered from 1, and {last} is the last"))),
    }
}

/// Whether the texts that are stored beside the journal are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Texts {
    Whole,
    ByHash,
}

impl Texts {
    fn of(view: View) -> Texts {
        if view.shows_texts() { Texts::Whole } else { Texts::ByHash }
    }
}

/// Calls `show` with each event and the state after it. An incomplete last line was never shown to a client and is left out.
fn fold(
    log: Log<'_>,
    texts: Texts,
    mut show: impl FnMut(&State, &Record) -> io::Result<ControlFlow<()>>,
) -> io::Result<()> {
    let wrong = |number: usize, what: &str| Err(unusable(format!("line {number} {what}")));
    let mut state: Option<State> = None;
    let lines = log.journal.split_inclusive(|byte| *byte == b'\n').zip(1..);
    for (line, number) in lines {
        let whole = line.strip_suffix(b"\n");
        let record = match (Record::read(whole.unwrap_or(line)), whole) {
            (Ok(record), _) => record,
            (Err(_), None) => break,
            (Err(BadLine::Damaged), Some(_)) => return wrong(number, "is damaged, or this is no journal"),
            (Err(BadLine::Unknown(why)), Some(_)) => return wrong(number, &format!("is unknown: {why}")),
        };
        let Some(state) = State::advance(&mut state, &record) else {
            return wrong(number, "is out of place: a journal begins with its task");
        };
        if texts == Texts::Whole {
            let loaded = state.load_texts(log.blobs);
            loaded.map_err(|e| unusable(format!("line {number} names a text that cannot be read: {e}")))?;
        }
        if show(state, &record)?.is_break() {
            return Ok(());
        }
    }
    state.map(drop).ok_or_else(|| unusable("there are no events in it".into()))
}

fn line(out: &mut impl Write, seq: Seq, frame: &[u8]) -> io::Result<()> {
    // An event may be several messages, a line each.
    frame.split(|byte| *byte == b'\n').try_for_each(|message| {
        write!(out, "{seq}\t")?;
        out.write_all(message)?;
        out.write_all(b"\n")
    })
}
