//! The system calls that a confined command may not make, as seccomp filters.

use landlock::{CompatLevel, Compatible, Ruleset, RulesetAttr, Scope};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;
use std::io;

/// System calls with an effect beyond the process that Landlock does not decide about. Those of the last lines need privileges: a
/// server may run as root.
#[rustfmt::skip]
const REFUSED: &[libc::c_long] = &[
    // Anything that leaves the process: sockets (one of a pair of datagram sockets can send to any other), rings of requests that
    // no filter sees, kernel objects that stay, also existing ones, whose numbers can be guessed.
    libc::SYS_socket, libc::SYS_socketpair, libc::SYS_io_uring_setup, libc::SYS_mq_open, libc::SYS_mq_unlink,
    libc::SYS_shmget, libc::SYS_shmctl, libc::SYS_shmat, libc::SYS_semget, libc::SYS_semctl, libc::SYS_semop,
    libc::SYS_semtimedop, libc::SYS_msgget, libc::SYS_msgctl, libc::SYS_msgsnd, libc::SYS_msgrcv,
    libc::SYS_keyctl, libc::SYS_add_key, libc::SYS_request_key,
    // Other processes, also those that wait for the lock of a file.
    libc::SYS_flock, libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev, libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd, libc::SYS_kcmp, libc::SYS_migrate_pages, libc::SYS_move_pages,
    libc::SYS_setpriority, libc::SYS_ioprio_set, libc::SYS_sched_setaffinity,
    libc::SYS_sched_setparam, libc::SYS_sched_setscheduler, libc::SYS_sched_setattr,
    libc::SYS_perf_event_open, libc::SYS_bpf, libc::SYS_unshare, libc::SYS_setns,
    // Modes, owners, times and attributes of files.
    libc::SYS_fchmod, libc::SYS_fchmodat, SYS_FCHMODAT2, libc::SYS_fchown, libc::SYS_fchownat,
    libc::SYS_setxattr, libc::SYS_lsetxattr, libc::SYS_fsetxattr,
    libc::SYS_removexattr, libc::SYS_lremovexattr, libc::SYS_fremovexattr, libc::SYS_utimensat,
    SYS_SETXATTRAT, SYS_REMOVEXATTRAT, SYS_FILE_SETATTR,
    #[cfg(target_arch = "x86_64")] libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")] libc::SYS_chown,
    #[cfg(target_arch = "x86_64")] libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")] libc::SYS_utime,
    #[cfg(target_arch = "x86_64")] libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")] libc::SYS_futimesat,
    // The whole machine.
    libc::SYS_fanotify_init, libc::SYS_userfaultfd, libc::SYS_open_by_handle_at, libc::SYS_chroot, libc::SYS_pivot_root,
    libc::SYS_mount, libc::SYS_umount2, libc::SYS_open_tree, SYS_OPEN_TREE_ATTR, libc::SYS_move_mount, libc::SYS_fsopen, libc::SYS_fsconfig,
    libc::SYS_fsmount, libc::SYS_fspick, libc::SYS_mount_setattr, libc::SYS_swapon, libc::SYS_swapoff,
    libc::SYS_quotactl, SYS_QUOTACTL_FD, libc::SYS_acct, libc::SYS_sync, libc::SYS_syncfs,
    libc::SYS_settimeofday, libc::SYS_clock_settime, libc::SYS_clock_adjtime, libc::SYS_adjtimex,
    libc::SYS_sethostname, libc::SYS_setdomainname, libc::SYS_reboot, libc::SYS_syslog, libc::SYS_vhangup,
    libc::SYS_init_module, libc::SYS_finit_module, libc::SYS_delete_module, libc::SYS_kexec_load,
    SYS_KEXEC_FILE_LOAD,
    #[cfg(target_arch = "x86_64")] libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")] libc::SYS_ioperm,
];

/// Calls that send signals to a process by its number. They are refused where the kernel cannot keep signals inside the domain.
const SIGNALS: &[libc::c_long] = &[
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_pidfd_send_signal,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
];

/// Commands of fcntl with an effect on other processes: they choose the process that gets a signal when a descriptor is ready, make other
/// processes wait that open or lock a file, and set a hint of the file. Not every kernel with Landlock keeps those signals inside
/// the domain. A lock needs no right to write.
const FCNTLS: [libc::c_int; 10] = [
    libc::F_SETOWN,
    F_SETSIG,
    F_SETOWN_EX,
    libc::F_SETLEASE,
    libc::F_NOTIFY,
    libc::F_SETLK,
    libc::F_SETLKW,
    libc::F_OFD_SETLK,
    libc::F_OFD_SETLKW,
    F_SET_RW_HINT,
];

/// Missing in the library; the same on every architecture.
const F_SETSIG: libc::c_int = 10;
const F_SETOWN_EX: libc::c_int = 15;
const F_SET_RW_HINT: libc::c_int = 1036;

/// Missing in the library, for all architectures or for some; the same on every architecture.
const SYS_QUOTACTL_FD: libc::c_long = 443;
const SYS_FCHMODAT2: libc::c_long = 452;
const SYS_SETXATTRAT: libc::c_long = 463;
const SYS_REMOVEXATTRAT: libc::c_long = 466;
const SYS_OPEN_TREE_ATTR: libc::c_long = 467;
const SYS_FILE_SETATTR: libc::c_long = 469;
/// Missing in the library for some architectures. The second number is that of aarch64 and riscv64.
const SYS_KEXEC_FILE_LOAD: libc::c_long = if cfg!(target_arch = "x86_64") { 320 } else { 294 };

/// Requests that only read from terminals, pipes and files. All other ioctl requests are refused: some change attributes of files that
/// are open for reading.
const IOCTLS: [u64; 12] = [
    0x5401,      // TCGETS
    0x540f,      // TIOCGPGRP
    0x5413,      // TIOCGWINSZ
    0x5429,      // TIOCGSID
    0x541b,      // FIONREAD
    0x5421,      // FIONBIO
    0x5450,      // FIONCLEX
    0x5451,      // FIOCLEX
    0x5460,      // FIOQSIZE
    0x8008_6601, // FS_IOC_GETFLAGS
    0x801c_581f, // FS_IOC_FSGETXATTR
    0x802c_542a, // TCGETS2
];

/// Namespaces: in a new one of users a process has all privileges over it, and reaches parts of the kernel that need
/// privileges otherwise.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWCGROUP,
];

/// Installs all filters. The calling thread cannot remove them.
pub fn restrict_calls() -> io::Result<()> {
    for filter in [filter()?, filter_of_clone3()?] {
        seccompiler::apply_filter(&filter).map_err(io::Error::other)?;
    }
    Ok(())
}

/// The flags of clone3 are in memory, where no filter can read them. Programs use clone if the kernel reports that it does not have
/// clone3.
fn filter_of_clone3() -> io::Result<BpfProgram> {
    let mut rules = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    refuse_x32(&mut rules);
    compiled(rules, libc::ENOSYS)
}

fn filter() -> io::Result<BpfProgram> {
    let always = Vec::new();
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let keeps_signals = scopes_signals();
    if keeps_signals {
        rules.extend(signals_to_this_thread()?);
    }
    let refused = REFUSED.iter().chain(if keeps_signals { &[] } else { SIGNALS });
    rules.extend(refused.map(|number| (*number, always.clone())));
    // A process may change its own limits; 0 means itself.
    let of_others = condition(0, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
    rules.insert(libc::SYS_prlimit64, vec![rule(vec![of_others])?]);
    let other = |request: &u64| condition(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, *request);
    let unknown: io::Result<Vec<_>> = IOCTLS.iter().map(other).collect();
    rules.insert(libc::SYS_ioctl, vec![rule(unknown?)?]);
    let each = |command: &libc::c_int| equal(1, *command);
    rules.insert(libc::SYS_fcntl, FCNTLS.iter().map(each).collect::<io::Result<_>>()?);
    let each = |flag: &libc::c_int| {
        let bits = flag.unsigned_abs().into();
        rule(vec![condition(0, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(bits), bits)?])
    };
    rules.insert(libc::SYS_clone, NAMESPACES.iter().map(each).collect::<io::Result<_>>()?);
    refuse_x32(&mut rules);
    compiled(rules, libc::EPERM)
}

/// Landlock lets signals through inside the domain, and the thread that starts the program is in it for as long as it lives. A
/// signal to this thread could end the whole supervisor, so its number is refused.
fn signals_to_this_thread() -> io::Result<BTreeMap<i64, Vec<SeccompRule>>> {
    let (process, thread) = (rustix::process::getpid().as_raw_pid(), rustix::thread::gettid().as_raw_pid());
    let mut rules = BTreeMap::new();
    for call in [libc::SYS_kill, libc::SYS_tkill, libc::SYS_rt_sigqueueinfo, libc::SYS_pidfd_open] {
        rules.insert(call, vec![equal(0, thread)?]);
    }
    for call in [libc::SYS_tgkill, libc::SYS_rt_tgsigqueueinfo] {
        rules.insert(call, vec![equal(0, process)?, equal(1, thread)?]);
    }
    Ok(rules)
}

/// System calls that the rules name fail with `errno`; all others are allowed.
fn compiled(rules: BTreeMap<i64, Vec<SeccompRule>>, errno: libc::c_int) -> io::Result<BpfProgram> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(io::Error::other)?;
    let refusal = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refusal, arch).map_err(io::Error::other)?;
    filter.try_into().map_err(io::Error::other)
}

/// The x32 variant of a system call has another number and passes for the same architecture. Nothing we know uses it.
#[cfg(target_arch = "x86_64")]
fn refuse_x32(rules: &mut BTreeMap<i64, Vec<SeccompRule>>) {
    const X32: i64 = 0x4000_0000;
    /// ioctl, ptrace, rt_sigqueueinfo, kexec_load, move_pages, rt_tgsigqueueinfo, process_vm_readv and process_vm_writev have
    /// numbers of their own there.
    const OWN: [i64; 8] = [514, 521, 524, 528, 533, 536, 539, 540];
    let numbers: Vec<i64> = rules.keys().copied().chain(OWN).collect();
    rules.extend(numbers.into_iter().map(|number| (number | X32, Vec::new())));
}

#[cfg(not(target_arch = "x86_64"))]
fn refuse_x32(_: &mut BTreeMap<i64, Vec<SeccompRule>>) {}

fn condition(
    argument: u8,
    length: SeccompCmpArgLen,
    operator: SeccompCmpOp,
    value: u64,
) -> io::Result<SeccompCondition> {
    SeccompCondition::new(argument, length, operator, value).map_err(io::Error::other)
}

/// Refuses a system call whose argument is this number; both are 32 bits wide.
fn equal(argument: u8, number: libc::c_int) -> io::Result<SeccompRule> {
    rule(vec![condition(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, number.unsigned_abs().into())?])
}

fn rule(conditions: Vec<SeccompCondition>) -> io::Result<SeccompRule> {
    SeccompRule::new(conditions).map_err(io::Error::other)
}

/// Whether Landlock of this kernel keeps signals inside the domain (Linux 6.12).
fn scopes_signals() -> bool {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement).scope(Scope::Signal);
    ruleset.is_ok_and(|ruleset| ruleset.create().is_ok())
}
