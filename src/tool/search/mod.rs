//! Tools that find files, and lines in files.

pub mod glob;
pub mod grep_search;
pub mod ignore;
pub mod listing;
pub mod paths;
pub mod walk;
pub mod wildcard;

use crate::task::machine::job::RunEnd;
use crate::task::spec::Ending;

/// The end of a search with these texts for the model and for people; None if it was cancelled.
fn search_end(found: Option<(String, String)>) -> RunEnd {
    RunEnd::Ended(match found {
        Some((output, text)) => Ending::summarised(output, text),
        None => Ending::cancelled("The search was cancelled."),
    })
}
