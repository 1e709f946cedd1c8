//! The names under which tools are declared to the model. A name depends only on the set of tools, not on their order or on time, so that
//! rules and the model's cache stay valid.

use crate::limits::mcp::DECLARED_NAME_CHARS;
use crate::task::log::blob::sha256;
use crate::task::origin::declared;
use std::collections::BTreeMap;

/// A tool of a server, with the names that the settings and the server use.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ToolId {
    pub server: String,
    pub tool: String,
}

const PREFIX: &str = "mcp_";

fn prefixed(text: &str) -> String {
    let text = declared(text);
    if text.starts_with(PREFIX) { text } else { format!("{PREFIX}{text}") }
}

impl ToolId {
    pub fn new(server: &str, tool: &str) -> ToolId {
        ToolId { server: server.into(), tool: tool.into() }
    }

    /// `mcp_<server>_<tool>`. In the middle of a name that is too long, a hash replaces text.
    fn name(&self) -> String {
        let name = prefixed(&format!("{}_{}", self.server, self.tool));
        match name.len() {
            ..=DECLARED_NAME_CHARS => name,
            length => format!("{}_{}_{}", &name[..27], &self.digest()[..8], &name[length - 26..]),
        }
    }

    /// The name of a tool whose [`ToolId::name`] is not unique: it ends with `hex` digits of the hash.
    fn hashed_name(&self, hex: usize) -> String {
        let name = prefixed(&format!("{}_{}", self.server, self.tool));
        let most = DECLARED_NAME_CHARS - 1 - hex;
        format!("{}_{}", &name[..name.len().min(most)], &self.digest()[..hex])
    }

    fn digest(&self) -> String {
        sha256(format!("{}\0{}", self.server, self.tool).as_bytes())
    }
}

/// The name that people see: the title or name of the tool, and its server.
pub fn display_name(title: &str, server: &str) -> String {
    format!("{title} ({server} MCP Server)")
}

/// The declared names of tools, in order. `None` for a tool that cannot get a unique name and is hidden.
pub fn declare(ids: &[ToolId]) -> Vec<Option<String>> {
    let mut names: Vec<String> = ids.iter().map(ToolId::name).collect();
    for hex in [8, 16] {
        let duplicates = duplicates_in(&names);
        for (name, id) in names.iter_mut().zip(ids) {
            if duplicates.contains(name) {
                *name = id.hashed_name(hex);
            }
        }
    }
    let duplicates = duplicates_in(&names);
    names.into_iter().map(|name| (!duplicates.contains(&name)).then_some(name)).collect()
}

fn duplicates_in(names: &[String]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts.into_iter().filter(|(_, count)| *count > 1).map(|(name, _)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::test_random::Random;
    use std::collections::BTreeSet;

    fn names(ids: &[(&str, &str)]) -> Vec<String> {
        let ids: Vec<ToolId> = ids.iter().map(|(server, tool)| ToolId::new(server, tool)).collect();
        declare(&ids).into_iter().map(|name| name.expect("it has a name")).collect()
    }

    #[test]
    fn names_say_their_server_and_tool() {
        assert_eq!(names(&[("x", "a"), ("mcp_x", "b"), ("x.y-z", "é:/ö")]), ["mcp_x_a", "mcp_x_b", "mcp_x.y-z_____"]);
    }

    #[test]
    fn check_30_long_names_that_differ_in_the_middle_stay_apart() {
        let tool = |middle: &str| format!("{}{middle}{}", "a".repeat(33), "b".repeat(33));
        let (one, two) = (tool("XXXX"), tool("YYYY"));
        let found = names(&[("s", &one), ("s", &two)]);
        assert!(found[0] != found[1] && found.iter().all(|name| name.len() == DECLARED_NAME_CHARS), "{found:?}");
        assert_eq!(names(&[("s", &two), ("s", &one), ("t", "x")])[..2], [found[1].clone(), found[0].clone()]);
        let longest = "a".repeat(DECLARED_NAME_CHARS - 6);
        assert_eq!(names(&[("s", &longest)]), [format!("mcp_s_{longest}")], "as long as a name may be");
    }

    #[test]
    fn check_31_names_that_become_the_same_are_both_changed() {
        let found = names(&[("s", "a b"), ("s", "a_b"), ("s", "c")]);
        assert!(
            found[0].starts_with("mcp_s_a_b_") && found[1].starts_with("mcp_s_a_b_") && found[0] != found[1],
            "{found:?}"
        );
        assert_eq!(found[2], "mcp_s_c");
        // The servers differ, the joined name does not.
        assert_eq!(names(&[("x", "y_z"), ("x_y", "z")]).iter().collect::<BTreeSet<_>>().len(), 2);
        // A tool that is called like the changed name of another one.
        let third = found[0].strip_prefix("mcp_s_").expect("it begins so");
        assert_eq!(names(&[("s", "a b"), ("s", "a_b"), ("s", third)]).iter().collect::<BTreeSet<_>>().len(), 3);
    }

    #[test]
    fn names_do_not_depend_on_the_order_of_the_tools() {
        const PIECES: [&str; 8] = ["a", "_", " ", "é", "mcp_", "tool", "averyverylongnamewithoutend", ":"];
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let mut word =
                || -> String { (0..1 + random.below(4)).map(|_| PIECES[random.below(PIECES.len())]).collect() };
            let ids: BTreeSet<ToolId> = (0..20).map(|_| ToolId::new(&word(), &word())).collect();
            let mut ids: Vec<ToolId> = ids.into_iter().collect();
            let named = |ids: &[ToolId]| -> BTreeMap<ToolId, Option<String>> {
                ids.iter().cloned().zip(declare(ids)).collect()
            };
            let expected = named(&ids);
            let unique: BTreeSet<&String> = expected.values().flatten().collect();
            assert_eq!(unique.len(), ids.len(), "seed {seed}");
            assert!(unique.iter().all(|name| name.len() <= DECLARED_NAME_CHARS), "seed {seed}");
            ids.reverse();
            let middle = random.below(ids.len());
            ids.rotate_left(middle);
            assert_eq!(named(&ids), expected, "seed {seed}");
        }
    }
}
