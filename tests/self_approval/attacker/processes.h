/* Ways to hide the process that connects: alone, with help, or while processes come and go. */

static void plain(void) { attack(tcp("127.0.0.1")); }

static void double_fork(void) {
	if (branch() == 0) {
		if (branch() == 0) {
			while (getppid() != supervisor() && supervisor() != 0)
				usleep(1000);
			plain();
		}
		_exit(0);
	}
	wait_for_release();
}

static void new_session(void) {
	if (branch() == 0) {
		setsid();
		plain();
	}
	wait_for_release();
}

static void empty_environment(void) {
	char *env[] = {NULL};
	become("/proc/self/exe", "plain", env);
}

static void hidden(void) {
	if (branch() == 0) {
		setsid();
		if (branch() == 0)
			empty_environment();
		_exit(0);
	}
	wait_for_release();
}

static void non_dumpable(void) {
	prctl(PR_SET_DUMPABLE, 0);
	plain();
}

static void unreadable_binary(void) {
	char file[4096];
	strcpy(file, in_dir("../attacker.0111"));
	become(file, "plain", environ);
}

/* clone(2) with CLONE_PARENT: the new process is a child of our parent. */
static void sibling(void) {
	pid_t pid = syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0);
	if (pid < 0)
		fail("clone");
	if (pid == 0) {
		register_pid();
		plain();
	}
	wait_for_release();
}

/* Orphans of this process do not become the supervisor's children. */
static void own_subreaper(void) {
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (branch() == 0) {
		if (branch() == 0)
			plain();
		_exit(0);
	}
	wait_for_release();
}

static void *attack_without_shared_descriptors(void *unused) {
	if (unshare(CLONE_FILES) != 0)
		fail("unshare");
	attack(tcp("127.0.0.1"));
	return unused;
}

/* The socket is in the descriptor table of one thread, which /proc/PID/fd does not show. */
static void thread_descriptors(void) {
	pthread_t thread;
	pthread_create(&thread, NULL, attack_without_shared_descriptors, NULL);
	pthread_join(thread, NULL);
}

static void *attack_without_leader(void *unused) {
	char path[64], stat[512] = {0};
	snprintf(path, sizeof path, "/proc/%d/stat", (int)getpid());
	for (;;) {
		int fd = open(path, O_RDONLY);
		if (read(fd, stat, sizeof stat - 1) > 0 && strstr(stat, ") Z "))
			break;
		close(fd);
		usleep(1000);
	}
	plain();
	return unused;
}

/* A process whose first thread has ended looks like a zombie. */
static void zombie_leader(void) {
	if (branch() == 0) {
		pthread_t thread;
		pthread_create(&thread, NULL, attack_without_leader, NULL);
		pthread_exit(NULL);
	}
	wait_for_release();
}

static void namespaces(void) {
	if (branch() == 0) {
		if (unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
			skip("unshare");
		// Pids in here are others than the test's, so the new process is registered from outside.
		pid_t pid = fork();
		if (pid == 0)
			plain();
		FILE *pids = fopen(in_dir("pids"), "a");
		fprintf(pids, "%d\n", (int)pid);
		fclose(pids);
	}
	wait_for_release();
}

/* Listens on DIR/relay and gives the first connection. */
static int accept_local(void) {
	struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "relay"};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (chdir(dir) != 0 || bind(fd, (void *)&address, sizeof address) != 0 || listen(fd, 1) != 0)
		fail("bind");
	dir = ".";
	FILE *ready = fopen(in_dir("listens"), "w");
	fclose(ready);
	return accept(fd, NULL, NULL);
}

static int connect_local(void) {
	wait_for_file("listens");
	if (chdir(dir) != 0)
		fail("chdir");
	dir = ".";
	return local("relay");
}

static void relay(void) {
	if (branch() == 0) {
		char bytes[65536];
		int from = accept_local(), to = tcp("127.0.0.1");
		send_all(to, bytes, receive_into(from, bytes, sizeof bytes));
		send_all(from, bytes, receive_into(to, bytes, sizeof bytes));
		shutdown(from, SHUT_WR);
		wait_for_release();
	}
	if (branch() == 0)
		attack(connect_local());
	wait_for_release();
}

/* Connects and gives the connection to a process of another call. */
static void helper(void) {
	int fd = tcp("127.0.0.1");
	int client = accept_local();
	if (send_descriptor(client, fd) != 0)
		fail("sendmsg");
	wait_for_release();
}

static void helped(void) { attack(receive_descriptor(connect_local())); }

/* Leaves a process behind that has connected and asks once the call is over. */
static void outlives(void) {
	if (branch() == 0) {
		setsid();
		if (branch() == 0) {
			int fd = tcp("127.0.0.1");
			FILE *ready = fopen(in_dir("connected"), "w");
			fclose(ready);
			wait_for_file("ended");
			attack(fd);
		}
		_exit(0);
	}
	wait_for_file("connected");
	_exit(0);
}

/* Hands the connection from process to process; each parent ends at once. */
static void fork_chain(void) {
	if (branch() == 0) {
		int fd = tcp("127.0.0.1");
		for (int i = 0; i < 400; i++) {
			if (i == 100)
				send_all(fd, request, request_len);
			pid_t pid = fork();
			if (pid != 0)
				_exit(pid < 0);
		}
		register_pid();
		receive(fd);
	}
	wait_for_release();
}

/* Short-lived processes all around one that connects. */
static void fork_storm(void) {
	for (int i = 0; i < 4; i++)
		if (branch() == 0) {
			signal(SIGCHLD, SIG_IGN);
			while (!exists("response") && !exists("release"))
				if (fork() == 0)
					_exit(0);
			wait_for_release();
		}
	if (branch() == 0) {
		if (branch() == 0)
			plain();
		_exit(0);
	}
	wait_for_release();
}
