/* Makes a system call that ordinary programs do not make, by name: `probe NAME [FILE]`. Prints the result of the kernel. Each call would
 * have an effect beyond the process if it were allowed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <netinet/in.h>
#include <unistd.h>

static const char *file = "a.txt";

static int opened(void) { return open(file, O_RDONLY); }

static long run(const char *name, const char *argument) {
    struct timespec times[2] = {{1, 0}, {1, 0}};
    if (!strcmp(name, "chmod")) return syscall(SYS_fchmodat, AT_FDCWD, file, 0777);
    if (!strcmp(name, "fchmod")) return fchmod(opened(), 0777);
    if (!strcmp(name, "fchmodat2")) return syscall(452, AT_FDCWD, file, 0777, 0);
    if (!strcmp(name, "chown")) return syscall(SYS_fchownat, AT_FDCWD, file, getuid(), getgid(), 0);
    if (!strcmp(name, "fchown")) return fchown(opened(), getuid(), getgid());
    if (!strcmp(name, "utimensat")) return utimensat(AT_FDCWD, file, times, 0);
    if (!strcmp(name, "futimens")) return futimens(opened(), times);
    if (!strcmp(name, "setxattr")) return setxattr(file, "user.probe", "x", 1, 0);
    if (!strcmp(name, "fsetxattr")) return fsetxattr(opened(), "user.probe", "x", 1, 0);
    if (!strcmp(name, "setxattrat")) {
        struct { unsigned long value; unsigned int size, flags; } args = {(unsigned long)"x", 1, 0};
        return syscall(463, AT_FDCWD, file, 0, "user.probe", &args, sizeof args);
    }
    if (!strcmp(name, "file_setattr")) {
        struct { unsigned long xflags; unsigned int extsize, nextents, projid, cowextsize; } attr = {0x80, 0, 0, 0, 0};
        return syscall(469, AT_FDCWD, file, &attr, sizeof attr, 0);
    }
    /* FS_IOC_SETFLAGS with FS_NODUMP_FL, and FS_IOC_FSSETXATTR, on a file that is open for reading only. */
    if (!strcmp(name, "setflags")) { long flags = 0x40; return ioctl(opened(), 0x40086602, &flags); }
    if (!strcmp(name, "fssetxattr")) { unsigned int attr[7] = {0x80}; return ioctl(opened(), 0x401c5820, attr); }
    if (!strcmp(name, "truncate")) return truncate(file, 0);
    if (!strcmp(name, "open_write")) return open(file, O_WRONLY | O_TRUNC);
    if (!strcmp(name, "tmpfile")) { int fd = open(".", O_TMPFILE | O_RDWR, 0600); char to[64];
        if (fd < 0) return -1; snprintf(to, sizeof to, "/proc/self/fd/%d", fd);
        return linkat(AT_FDCWD, to, AT_FDCWD, "tmpfile-made", AT_SYMLINK_FOLLOW); }
    if (!strcmp(name, "mkdir")) return mkdir("made", 0777);
    if (!strcmp(name, "mkfifo")) return mkfifo("made", 0777);
    if (!strcmp(name, "mknod")) return mknod("made", S_IFREG | 0600, 0);
    if (!strcmp(name, "link")) return link(file, "made");
    if (!strcmp(name, "symlink")) return symlink(file, "made");
    if (!strcmp(name, "rename")) return rename(file, "made");
    if (!strcmp(name, "unlink")) return unlink(file);
    if (!strcmp(name, "mq_open")) { char queue[128]; snprintf(queue, sizeof queue, "%s", argument);
        return syscall(SYS_mq_open, queue, O_CREAT | O_RDWR, 0600, NULL); }
    if (!strcmp(name, "shmget")) return syscall(SYS_shmget, atoi(argument), 4096, IPC_CREAT | 0600);
    if (!strcmp(name, "semget")) return syscall(SYS_semget, atoi(argument), 1, IPC_CREAT | 0600);
    if (!strcmp(name, "msgget")) return syscall(SYS_msgget, atoi(argument), IPC_CREAT | 0600);
    if (!strcmp(name, "memory")) return mmap(NULL, (size_t)atoi(argument) << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0;
    if (!strcmp(name, "shmat")) return syscall(SYS_shmat, 1 << 20, NULL, 0);
    if (!strcmp(name, "semop")) { unsigned short change[3] = {0, 1, 0}; return syscall(SYS_semop, 1 << 20, change, 1); }
    if (!strcmp(name, "msgsnd")) { long message[2] = {1, 0}; return syscall(SYS_msgsnd, 1 << 20, message, 8, IPC_NOWAIT); }
    if (!strcmp(name, "msgrcv")) { long message[2]; return syscall(SYS_msgrcv, 1 << 20, message, 8, 0, IPC_NOWAIT); }
    if (!strcmp(name, "lease")) return fcntl(opened(), 1024 /* F_SETLEASE */, F_RDLCK);
    if (!strcmp(name, "clone_user")) { long child = syscall(SYS_clone, 0x10000000 | SIGCHLD, 0, 0, 0, 0); if (!child) _exit(0); return child; }
    if (!strcmp(name, "clone_net")) { long child = syscall(SYS_clone, 0x50000000 | SIGCHLD, 0, 0, 0, 0); if (!child) _exit(0); return child; }
    if (!strcmp(name, "clone3_user")) { unsigned long args[11] = {0x10000000, 0, 0, 0, SIGCHLD};
        long child = syscall(435, args, sizeof args); if (!child) _exit(0); return child; }
    if (!strcmp(name, "io_uring_setup")) { char params[120] = {0}; return syscall(SYS_io_uring_setup, 4, params); }
    if (!strcmp(name, "ptrace")) return syscall(SYS_ptrace, 16 /* attach */, atoi(argument), 0, 0);
    if (!strcmp(name, "prlimit")) { struct rlimit limit = {7, 7};
        return syscall(SYS_prlimit64, atoi(argument), RLIMIT_NOFILE, &limit, NULL); }
    if (!strcmp(name, "setpriority")) return setpriority(PRIO_PROCESS, atoi(argument), 7);
    if (!strcmp(name, "kill")) return kill(atoi(argument), SIGKILL);
    if (!strcmp(name, "stop")) return kill(atoi(argument), SIGSTOP);
    if (!strcmp(name, "pidfd_kill")) { int fd = syscall(SYS_pidfd_open, atoi(argument), 0);
        return syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0); }
    if (!strcmp(name, "parent")) { errno = ECHILD; return getppid() == atoi(argument) ? 0 : -1; }
    if (!strcmp(name, "sigio")) { int fds[2]; if (pipe(fds)) return -1;
        if (fcntl(fds[0], F_SETOWN, atoi(argument))) return -1; fcntl(fds[0], 10 /* F_SETSIG */, SIGKILL);
        fcntl(fds[0], F_SETFL, O_ASYNC | O_NONBLOCK); return write(fds[1], "x", 1); }
    if (!strcmp(name, "setown")) { int fds[2]; return pipe(fds) ? -1 : fcntl(fds[0], F_SETOWN, atoi(argument)); }
    if (!strcmp(name, "flock")) return flock(opened(), LOCK_EX | LOCK_NB);
    if (!strcmp(name, "setlk")) { struct flock lock = {.l_type = F_RDLCK}; return fcntl(opened(), F_SETLK, &lock); }
    if (!strcmp(name, "ofd_setlk")) { struct flock lock = {.l_type = F_RDLCK}; return fcntl(opened(), F_OFD_SETLK, &lock); }
    if (!strcmp(name, "rw_hint")) { unsigned long hint = 5; return fcntl(opened(), 1036 /* F_SET_RW_HINT */, &hint); }
#ifdef __x86_64__
    /* rt_sigqueueinfo by the number that it has for programs of the x32 variant. */
    if (!strcmp(name, "x32")) { siginfo_t info = {.si_code = SI_QUEUE};
        return syscall(0x40000000 | 524, atoi(argument), SIGKILL, &info); }
#endif
    if (!strcmp(name, "tcp") || !strcmp(name, "mptcp")) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argument)), .sin_addr = {htonl(INADDR_LOOPBACK)}};
        int fd = socket(AF_INET, SOCK_STREAM, strcmp(name, "tcp") ? 262 : 0);
        return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&to, sizeof to); }
    if (!strcmp(name, "fastopen")) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argument)), .sin_addr = {htonl(INADDR_LOOPBACK)}};
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        return fd < 0 ? -1 : sendto(fd, "x", 1, MSG_FASTOPEN, (struct sockaddr *)&to, sizeof to); }
    if (!strcmp(name, "udp")) {
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argument)), .sin_addr = {htonl(INADDR_LOOPBACK)}};
        int fd = socket(AF_INET, SOCK_DGRAM, 0);
        return fd < 0 ? -1 : sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof to); }
    if (!strcmp(name, "unix") || !strcmp(name, "unixgram")) {
        struct sockaddr_un to = {.sun_family = AF_UNIX};
        strcpy(to.sun_path, argument);
        int stream = !strcmp(name, "unix");
        int fd = socket(AF_UNIX, stream ? SOCK_STREAM : SOCK_DGRAM, 0);
        if (fd < 0) return -1;
        return stream ? connect(fd, (struct sockaddr *)&to, sizeof to) : sendto(fd, "x", 1, 0, (struct sockaddr *)&to, sizeof to); }
    if (!strcmp(name, "unixpair")) {
        struct sockaddr_un to = {.sun_family = AF_UNIX};
        strcpy(to.sun_path, argument);
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair)) return -1;
        return sendto(pair[0], "x", 1, 0, (struct sockaddr *)&to, sizeof to); }
    if (!strcmp(name, "core")) { struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY}; setrlimit(RLIMIT_CORE, &all); abort(); }
    errno = ENOSYS;
    return -2;
}

int main(int count, char **words) {
    if (count < 2) return 2;
    const char *argument = count > 2 ? words[2] : "";
    if (argument[0] == '/' || argument[0] == '.') file = argument;
    long answer = run(words[1], argument);
    printf("%s: %ld %s\n", words[1], answer, answer < 0 ? strerror(errno) : "");
    return answer < 0;
}
