/* What a command can do to its supervisor and to the server, and processes that are hard to end. */

static void signal_supervisor(int signal) {
	int pid = supervisor();
	if (pid != 0 && kill(pid, signal) != 0)
		fail("kill");
}

static void kills_supervisor(void) {
	int fd = tcp("127.0.0.1");
	signal_supervisor(SIGKILL);
	attack(fd);
}

/* Many orphans that keep trying: one of them may be overlooked, or answered before it is killed. */
static void orphans(void) {
	for (int i = 0; i < 20; i++)
		if (branch() == 0) {
			setsid();
			prctl(PR_SET_DUMPABLE, 0);
			wait_for_file("go");
			plain();
		}
	FILE *go = fopen(in_dir("go"), "w");
	fclose(go);
	signal_supervisor(SIGKILL);
	wait_for_release();
}

static void stops_supervisor(void) {
	signal_supervisor(SIGSTOP);
	plain();
}

static void limit_resource(int pid, int resource, rlim_t soft) {
	struct rlimit limit;
	if (pid == 0)
		return;
	if (prlimit(pid, resource, NULL, &limit) != 0)
		fail("prlimit");
	limit.rlim_cur = soft < limit.rlim_max ? soft : limit.rlim_max;
	if (prlimit(pid, resource, &limit, NULL) != 0)
		fail("prlimit");
}

/* A process that may open no file cannot read /proc. With a limit of 0 it could not even poll, and would notice. */
enum { FEW = 3 };

static void starves_supervisor(void) {
	limit_resource(supervisor(), RLIMIT_NOFILE, FEW);
	if (branch() == 0) {
		setsid();
		plain();
	}
	wait_for_release();
}

/* The same to the server, which has to look for the orphans of a supervisor that was killed. It gets its limit back before
 * the attack, because it can accept nothing meanwhile. */
static void starves_server(void) {
	int pid = supervisor();
	if (branch() == 0) {
		setsid();
		wait_for_file("go");
		for (int i = 0; i < 400 && parent_of(pid) != 0; i++)
			usleep(5000);
		limit_resource(pid == 0 ? 0 : server, RLIMIT_NOFILE, RLIM_INFINITY);
		plain();
	}
	limit_resource(pid == 0 ? 0 : server, RLIMIT_NOFILE, FEW);
	FILE *go = fopen(in_dir("go"), "w");
	fclose(go);
	signal_supervisor(SIGKILL);
	wait_for_release();
}

static void ready(void) {
	FILE *file = fopen(in_dir("response"), "w");
	fclose(file);
}

/* A server that can accept nothing can be told nothing, unless it raises its limit again. */
static void limits_files(void) {
	limit_resource(server, RLIMIT_NOFILE, FEW);
	ready();
	wait_for_release();
}

/* A server that may start no thread still has to find out who asks, or nobody could cancel this. */
static void limits_threads(void) {
	limit_resource(server, RLIMIT_NPROC, 0);
	plain();
}

static void ignores_signals(void) {
	for (int number = 1; number < 65; number++)
		signal(number, SIG_IGN);
	for (int i = 0; i < 5; i++)
		if (branch() == 0)
			wait_for_release();
	ready();
	wait_for_release();
}

static void stopped(void) {
	pid_t pids[10];
	for (int i = 0; i < 10; i++)
		if ((pids[i] = branch()) == 0) {
			setsid();
			raise(SIGSTOP);
			wait_for_release();
		}
	for (int i = 0; i < 10; i++)
		waitpid(pids[i], NULL, WUNTRACED);
	ready();
	raise(SIGSTOP);
	wait_for_release();
}

/* About a hundred processes, each of which is replaced by a new one in a new session again and again. More of them, and
 * faster, would leave no time and no pids for other tests on the same machine. */
static void fork_bomb(void) {
	enum { LINES = 100, READY = 500, MOST = 20000, LIFE_US = 30000 };
	int *count = mmap(NULL, sizeof *count, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	signal(SIGTERM, SIG_IGN);
	signal(SIGCHLD, SIG_IGN);
	for (int i = 0; i < LINES; i++) {
		if (branch() != 0)
			continue;
		for (;;) {
			setsid();
			int made = __atomic_add_fetch(count, 1, __ATOMIC_RELAXED);
			if (made == READY)
				ready();
			if (made > MOST)
				wait_for_release();
			usleep(LIFE_US);
			if (exists("release") || fork() > 0)
				_exit(0);
		}
	}
	wait_for_release();
}

static char findings[8192];

static void found(const char *whose, const char *what, int worked) {
	size_t len = strlen(findings);
	snprintf(findings + len, sizeof findings - len, "%s %s: %s\n", whose, what, worked ? "worked" : strerror(errno));
}

static int opens(int pid, const char *name, int flags) {
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
	int fd = open(path, flags | O_CLOEXEC);
	return fd >= 0;
}

static void probe(const char *whose, int pid) {
	char byte = 0;
	struct iovec here = {.iov_base = &byte, .iov_len = 1}, there = {.iov_base = (void *)0x400000, .iov_len = 1};
	found(whose, "PTRACE_ATTACH", ptrace(PTRACE_ATTACH, pid, NULL, NULL) == 0);
	found(whose, "PTRACE_SEIZE", ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0);
	// An address that is not mapped would give EFAULT, but only to who may look.
	found(whose, "process_vm_readv", process_vm_readv(pid, &here, 1, &there, 1, 0) >= 0 || errno == EFAULT);
	found(whose, "process_vm_writev", process_vm_writev(pid, &here, 1, &there, 1, 0) >= 0 || errno == EFAULT);
	int pidfd = syscall(SYS_pidfd_open, pid, 0);
	int taken = -1;
	for (int fd = 0; fd < 64 && taken < 0; fd++)
		taken = syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	found(whose, "pidfd_getfd", taken >= 0);
	found(whose, "fd", opens(pid, "fd", O_RDONLY | O_DIRECTORY));
	found(whose, "fd/0", opens(pid, "fd/0", O_RDWR));
	found(whose, "fdinfo", opens(pid, "fdinfo", O_RDONLY | O_DIRECTORY));
	found(whose, "mem", opens(pid, "mem", O_RDONLY));
	found(whose, "mem for writing", opens(pid, "mem", O_RDWR));
	found(whose, "maps", opens(pid, "maps", O_RDONLY));
	found(whose, "environ", opens(pid, "environ", O_RDONLY));
	found(whose, "root", opens(pid, "root", O_RDONLY | O_DIRECTORY));
	found(whose, "cwd", opens(pid, "cwd", O_RDONLY | O_DIRECTORY));
	found(whose, "exe", opens(pid, "exe", O_RDONLY));
}

static void looks_inside(void) {
	probe("supervisor", supervisor());
	probe("server", server);
	respond("%s", findings);
	wait_for_release();
}
