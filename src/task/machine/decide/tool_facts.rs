//! The properties of a call's tool on which decisions depend.

use crate::task::machine::state::State;
use crate::task::origin::{McpOrigin, Origin, ToolEntry};
use crate::task::spec::{Kind, Plan, ToolSpec, Verdict};
use std::borrow::Cow;

impl State {
    /// The tools that are not built in and that calls of the task may use.
    pub fn other_tools(&self) -> &[ToolEntry] {
        self.tools.as_ref().map_or(&[], |set| &set.others)
    }
}

pub(super) struct ToolFacts<'a> {
    /// The tool's own name, by which rules know it, even if the call uses a former one.
    pub name: &'a str,
    pub kind: Kind,
    pub origin: Cow<'a, Origin>,
    pub by_default: Verdict,
    /// The declaration, if the tool is built in.
    pub spec: Option<&'a ToolSpec>,
}

impl<'a> ToolFacts<'a> {
    pub fn of(spec: &'a ToolSpec) -> ToolFacts<'a> {
        let ToolSpec { name, kind, origin, by_default, .. } = spec;
        ToolFacts { name, kind: *kind, origin: Cow::Borrowed(origin), by_default: *by_default, spec: Some(spec) }
    }

    pub fn other(entry: &'a ToolEntry) -> ToolFacts<'a> {
        let ToolEntry { name, kind, origin, .. } = entry;
        ToolFacts { name, kind: *kind, origin: Cow::Borrowed(origin), by_default: origin.by_default(), spec: None }
    }

    /// The properties with the fingerprint that an MCP tool had when the call was planned, because the server may have changed the tool
    /// since it was declared to the model.
    pub fn planned(mut self, plan: &Plan) -> ToolFacts<'a> {
        let now = plan.base.as_ref().and_then(|base| base.sha256.as_ref());
        if let (Some(now), Some(mcp)) = (now, self.origin.mcp())
            && *now != mcp.fingerprint
        {
            self.origin = Cow::Owned(Origin::Mcp(McpOrigin { fingerprint: now.clone(), ..mcp.clone() }));
        }
        self
    }

    /// The properties of a tool that does not exist, because models invent some.
    pub fn unknown(name: &'a str) -> ToolFacts<'a> {
        ToolFacts {
            name,
            kind: Kind::Other,
            origin: Cow::Borrowed(&Origin::BuiltIn),
            by_default: Verdict::Ask,
            spec: None,
        }
    }

    /// Whether the tool may be used if only the listed tools may.
    pub fn is_among(&self, only: Option<&[String]>) -> bool {
        self.spec.map_or_else(|| self.origin.is_among(self.name, only), |spec| spec.is_among(only))
    }

    /// Whether a run may have effects that cannot be undone, so that it waits until the log is synced.
    pub fn mutates(&self) -> bool {
        match &*self.origin {
            Origin::BuiltIn | Origin::Skills | Origin::Resources => self.kind.mutates(),
            // The declarations of a server count only if the server is trusted.
            Origin::Mcp(mcp) => !(mcp.read_only && mcp.trusted),
            Origin::Agents => true,
        }
    }
}
