//! Finds out how much memory this process may use.

use crate::base::text::size;
use rustix::process::{Resource, getrlimit};
use std::fs;
use std::path::{Path, PathBuf};

/// The lowest of the operator's limit, the limits of the control groups that the process is in, and the limit of its address space,
/// with a description of which one it is. None if there is no limit.
pub fn memory_limit(operators: Option<u64>) -> Option<(u64, String)> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = group_limit(&groups, Path::new("/sys/fs/cgroup"));
    // Stacks and code need more address space than memory.
    let space = getrlimit(Resource::As).current.map(|bytes| bytes / 4 * 3);
    let limits =
        [(operators, "--memory"), (group, "its control group"), (space, "three quarters of its address space")];
    let (bytes, what) = limits.into_iter().filter_map(|(bytes, what)| Some((bytes?, what))).min()?;
    Some((bytes, format!("{} ({what})", size::spell(bytes))))
}

/// The lowest limit of the groups that `/proc/self/cgroup` names and of the groups that contain them. In a container these may be hidden;
/// then the group of the container is the one at the root.
fn group_limit(groups: &str, root: &Path) -> Option<u64> {
    let files = groups.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let (mount, file) = match controllers.split(',').any(|controller| controller == "memory") {
            true => (root.join("memory"), "memory.limit_in_bytes"),
            false if controllers.is_empty() => (root.to_owned(), "memory.max"),
            false => return None,
        };
        Some(ancestors(Path::new(path)).map(move |group| mount.join(group).join(file)).collect::<Vec<PathBuf>>())
    });
    // Without a limit the file contains a word, or a number that is larger than any memory.
    let limits = files.flatten().filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok());
    limits.min()
}

/// The group and the groups that contain it, relative to the root.
fn ancestors(group: &Path) -> impl Iterator<Item = &Path> {
    group.ancestors().map(|group| group.strip_prefix("/").unwrap_or(group))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::tests::Scratch;

    #[test]
    fn the_lowest_limit_of_all_groups_of_the_process_counts() {
        let scratch = Scratch::new();
        let root = scratch.path();
        scratch.put("a/b/memory.max", "max\n");
        scratch.put("a/memory.max", "1000\n");
        scratch.put("memory/x/memory.limit_in_bytes", "2000\n");
        scratch.put("memory/memory.limit_in_bytes", "9223372036854771712\n");
        for (groups, limit) in [
            ("0::/a/b\n", Some(1_000)),
            ("0::/a/b/gone\n", Some(1_000)),
            ("0::/\n", None),
            ("4:cpu,memory:/x\n0::/\n", Some(2_000)),
            ("4:memory:/x\n0::/a\n", Some(1_000)),
            ("4:memory:/hidden/by/a/container\n", Some(9_223_372_036_854_771_712)),
            ("3:cpu:/x\n", None),
            ("", None),
        ] {
            assert_eq!(group_limit(groups, root), limit, "{groups}");
        }
    }

    #[test]
    fn the_operator_can_only_set_a_lower_limit() {
        let (bytes, text) = memory_limit(Some(1 << 20)).expect("a limit");
        assert_eq!((bytes, text.as_str()), (1 << 20, "1 MiB (--memory)"));
    }
}
