//! Responses of the model API from a file, or into one, so that a session can be repeated without a model. A line is
//! `{"method":"generateContentStream","response":[chunk, …]}`; other methods have one object as their response. Requests that failed
//! are not recorded.

use super::{asked, whole_answer};
use crate::base::cancel::Cancel;
use crate::base::json;
use crate::base::lock::lock;
use crate::limits::Limits;
use crate::model::backend::{ModelBackend, ModelRequest};
use crate::model::error::{self, TransportError};
use crate::model::stream::Decoder;
use crate::task::log::answer::Answer;
use crate::task::machine::job::{ModelError, NoteBody};
use crate::tool::Ask;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

pub const STREAM: &str = "generateContentStream";
pub const WHOLE: &str = "generateContent";
/// Methods that files of the Gemini CLI may contain and that this program never calls.
const OTHERS: [&str; 2] = ["countTokens", "embedContent"];

#[derive(Deserialize)]
struct Line {
    method: String,
    response: Box<RawValue>,
}

/// Which of the recorded responses a request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The next response, which must be of the request's method.
    Strict,
    /// The next response of the request's method.
    ByMethod,
}

/// Answers with recorded responses.
pub struct FakeResponses {
    lines: Mutex<VecDeque<Line>>,
    order: Order,
    limits: Limits,
}

impl FakeResponses {
    /// Parses a file. An error names its line.
    pub fn parse(text: &str, order: Order, limits: Limits) -> Result<FakeResponses, String> {
        let mut lines = VecDeque::new();
        for (text, number) in text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
            let line: Line = serde_json::from_str(text).map_err(|e| format!("line {number}: {e}"))?;
            let is_list = line.response.get().starts_with('[');
            match line.method.as_str() {
                STREAM if is_list => {}
                STREAM => return Err(format!("line {number}: the response must be a list of chunks")),
                method if method == WHOLE || OTHERS.contains(&method) => {}
                method => return Err(format!("line {number}: the method {method} is unknown")),
            }
            lines.push_back(line);
        }
        Ok(FakeResponses { lines: Mutex::new(lines), order, limits })
    }

    fn take(&self, method: &str) -> Result<Box<RawValue>, ModelError> {
        let mut lines = lock(&self.lines);
        let at = match self.order {
            Order::Strict => Some(0),
            Order::ByMethod => lines.iter().position(|line| line.method == method),
        };
        match at.and_then(|at| Some((at, lines.get(at)?))) {
            None => Err(error::fatal(format!(
                "The recorded responses are used up, and {method} was asked for. Record the session again."
            ))),
            Some((_, line)) if line.method != method => Err(error::fatal(format!(
                "The next recorded response is for {}, and {method} was asked for. Record the session again.",
                line.method
            ))),
            Some((at, _)) => Ok(lines.remove(at).expect("the line is there").response),
        }
    }
}

impl ModelBackend for FakeResponses {
    fn answer(
        &self,
        request: &ModelRequest,
        cancel: &Cancel,
        emit: &mut dyn FnMut(NoteBody),
    ) -> Result<Answer, ModelError> {
        let response = self.take(STREAM)?;
        let chunks: Vec<&RawValue> =
            serde_json::from_str(response.get()).map_err(|e| error::fatal(format!("A recorded response: {e}.")))?;
        let limits = &self.limits;
        let mut decoder = Decoder::new(&request.think.model, limits.model_answer_bytes, limits.backoff_longest_ms);
        let mut notes = Vec::new();
        for chunk in chunks {
            if cancel.is_set() {
                return Err(error::network(&TransportError::Canceled));
            }
            let result = decoder.chunk(chunk.get().as_bytes(), &mut notes);
            notes.drain(..).for_each(&mut *emit);
            result?;
        }
        let answer = decoder.finish(asked(request.think), &mut notes);
        notes.drain(..).for_each(emit);
        answer
    }

    fn consult(&self, request: &ModelRequest, _: &str, _: &Cancel) -> Result<Answer, ModelError> {
        whole_answer(&request.think.model, self.take(WHOLE)?.get().as_bytes(), &self.limits)
    }
}

impl Ask for FakeResponses {
    fn ask(&self, _: &Value, _: &Cancel) -> Result<Value, ModelError> {
        serde_json::from_str(self.take(WHOLE)?.get()).map_err(|e| error::fatal(format!("A recorded response: {e}.")))
    }
}

/// Adds responses to a file.
pub struct Recorder(Mutex<File>);

impl Recorder {
    pub fn open(path: &Path) -> Result<Recorder, String> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Ok(Recorder(Mutex::new(file.map_err(|e| format!("{} cannot be written: {e}", path.display()))?)))
    }

    pub fn record(&self, method: &str, response: &impl Serialize) -> Result<(), ModelError> {
        #[derive(Serialize)]
        struct Recorded<'a, T> {
            method: &'a str,
            response: &'a T,
        }
        let mut line = json::bytes(&Recorded { method, response });
        line.push(b'\n');
        let written = lock(&self.0).write_all(&line);
        written.map_err(|e| error::fatal(format!("The response cannot be recorded: {e}.")))
    }
}
