/* Ways to hide the socket, or to reach the server over another one than it expects. The last one is io_uring by system
 * calls, where the socket exists only inside the ring. */

static void mptcp(void) {
	struct sockaddr_in address = ipv4("127.0.0.1");
	int fd = socket(AF_INET, SOCK_STREAM, IPPROTO_MPTCP);
	if (fd < 0)
		skip("MPTCP");
	attack(connected(fd, &address, sizeof address));
}

static void fast_open(void) {
	struct sockaddr_in address = ipv4("127.0.0.1");
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	ssize_t sent =
		sendto(fd, request, request_len, MSG_FASTOPEN | MSG_NOSIGNAL, (void *)&address, sizeof address);
	if (sent < 0 && (errno == EOPNOTSUPP || errno == EPERM))
		skip("TCP fast open");
	if (sent < 0)
		fail("sendto");
	send_all(fd, request + sent, request_len - sent);
	receive(fd);
	wait_for_release();
}

static void localhost(void) {
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
	char service[16];
	snprintf(service, sizeof service, "%d", port);
	if (getaddrinfo("localhost", service, &hints, &found) != 0)
		skip("getaddrinfo");
	for (; found; found = found->ai_next) {
		int fd = socket(found->ai_family, SOCK_STREAM, 0);
		if (connect(fd, found->ai_addr, found->ai_addrlen) == 0)
			attack(fd);
		close(fd);
	}
	fail("connect");
}

static void any_address(void) { attack(tcp("0.0.0.0")); }

static void second_loopback(void) { attack(tcp("127.0.0.2")); }

static void loopback6(void) { attack(tcp6("::1")); }

static void mapped_address(void) { attack(tcp6("::ffff:127.0.0.1")); }

static void other_source(void) {
	struct sockaddr_in from = {.sin_family = AF_INET}, to = ipv4("127.0.0.1");
	inet_pton(AF_INET, "127.0.0.5", &from.sin_addr);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(fd, (void *)&from, sizeof from) != 0)
		fail("bind");
	attack(connected(fd, &to, sizeof to));
}

/* Makes more connections than the kernel keeps for the server, so that it turns one away and tries it again a second later. By then we are
 * gone. The socket stays in the queue of a process that knows nothing of it, and the request in the socket. */
static void late(void) {
	struct sockaddr_in address = ipv4("127.0.0.1");
	struct sockaddr_un keeper = {.sun_family = AF_UNIX};
	struct rlimit limit;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	snprintf(keeper.sun_path, sizeof keeper.sun_path, "%s", unix_path);
	strcat(keeper.sun_path, ".keeper");
	int over = connected(socket(AF_UNIX, SOCK_STREAM, 0), &keeper, sizeof keeper);
	int without_cookie = 1, is_full = 0;
	kill(server, SIGSTOP);
	for (int i = 0; i < 10000 && !is_full; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		struct pollfd made = {.fd = fd, .events = POLLOUT};
		if (fd < 0 || (connect(fd, (void *)&address, sizeof address) != 0 && errno != EINPROGRESS))
			break;
		is_full = poll(&made, 1, 50) == 0;
	}
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	setsockopt(fd, IPPROTO_TCP, 34 /* TCP_FASTOPEN_NO_COOKIE */, &without_cookie, sizeof without_cookie);
	ssize_t sent = sendto(fd, request, request_len, MSG_FASTOPEN, (void *)&address, sizeof address);
	int is_kept = send_descriptor(over, fd) == 0;
	kill(server, SIGCONT);
	if (!is_full || sent != (ssize_t)request_len || !is_kept)
		respond("skipped: full %d, sent %zd, kept %d\n", is_full, sent, is_kept);
	else
		respond("made\n");
	_exit(0);
}

/* Is gone before the server accepts the connection: then the kernel cannot name its process any more. */
static void closes_before_accept(void) {
	kill(server, SIGSTOP);
	int fd = tcp("127.0.0.1");
	send_all(fd, request, request_len);
	close(fd);
	kill(server, SIGCONT);
	respond("sent\n");
	wait_for_release();
}

static void unix_socket(void) { attack(local(unix_path)); }

/* As an editor: joins the task, prompts it, and approves when it is asked. The file `approval` holds that answer. */
static _Noreturn void edit(int fd) {
	static char bytes[65536];
	char approval[1024];
	int file = open(in_dir("approval"), O_RDONLY | O_CLOEXEC);
	ssize_t approval_len = read(file, approval, sizeof approval);
	if (approval_len <= 0)
		fail("approval");
	close(file);
	send_all(fd, request, request_len);
	size_t len = 0, got;
	while ((got = receive_into(fd, bytes + len, sizeof bytes - len)) > 0) {
		len += got;
		if (memmem(bytes, len, "session/request_permission", 26)) {
			send_all(fd, approval, approval_len);
			break;
		}
	}
	if (len == 0)
		respond("error: closed without a response\n");
	else
		respond_bytes(bytes, len);
	wait_for_release();
}

static void editor(void) { edit(tcp("127.0.0.1")); }

static void editor_over_unix_socket(void) { edit(local(unix_path)); }

/* SO_PEERCRED names the process that connected, which is gone when the request comes. */
static void unix_socket_of_a_dead_process(void) {
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
		fail("socketpair");
	pid_t pid = branch();
	if (pid == 0) {
		int fd = local(unix_path);
		_exit(send_descriptor(pair[0], fd));
	}
	waitpid(pid, NULL, 0);
	attack(receive_descriptor(pair[1]));
}

/* A connection on which the server has answered something harmless before. */
static void kept_connection(void) {
	static const char health[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
	char bytes[8192];
	int fd = tcp("127.0.0.1");
	send_all(fd, health, sizeof health - 1);
	size_t len = receive_into(fd, bytes, sizeof bytes - 1);
	bytes[len] = 0;
	if (!strstr(bytes, " 200 "))
		fail("health");
	attack(fd);
}

static void pipelined(void) {
	static const char health[] = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
	char bytes[sizeof health + sizeof request];
	char response[65536];
	memcpy(bytes, health, sizeof health - 1);
	memcpy(bytes + sizeof health - 1, request, request_len);
	int fd = tcp("127.0.0.1");
	send_all(fd, bytes, sizeof health - 1 + request_len);
	size_t len = 0, got;
	char *second = NULL;
	while (!second && (got = receive_into(fd, response + len, sizeof response - 1 - len)) > 0) {
		len += got;
		response[len] = 0;
		second = strstr(response + 1, "HTTP/1.1 ");
	}
	if (!second)
		fail("one response only");
	respond_bytes(second, response + len - second);
	wait_for_release();
}

static void inherited(void) {
	for (int fd = 3; fd < 65536; fd++)
		if (fcntl(fd, F_GETFD) != -1)
			attack(fd);
	respond("error: nothing was inherited\n");
	wait_for_release();
}

/* Whether bytes wait to be read from the TCP socket with this local port. A socket can be seen without holding it. */
static int has_unread(int own_port) {
	char line[512], wanted[16];
	int unread = 0;
	snprintf(wanted, sizeof wanted, ":%04X", own_port);
	FILE *table = fopen("/proc/net/tcp", "r");
	while (fgets(line, sizeof line, table)) {
		char from[64], to[64];
		unsigned sent, waiting;
		if (sscanf(line, " %*d: %63s %63s %*x %x:%x", from, to, &sent, &waiting) == 4 && strstr(from, wanted))
			unread |= waiting > 0;
	}
	fclose(table);
	return unread;
}

static void in_flight(void) {
	int pair[2];
	struct sockaddr_in own;
	socklen_t len = sizeof own;
	int fd = tcp("127.0.0.1");
	getsockname(fd, (void *)&own, &len);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
		fail("socketpair");
	// A corked socket sends its last bytes after a while by itself, when no process holds it any more.
	setsockopt(fd, IPPROTO_TCP, TCP_CORK, &(int){1}, sizeof(int));
	send_all(fd, request, request_len);
	if (send_descriptor(pair[0], fd) != 0)
		fail("sendmsg");
	close(fd);
	for (int i = 0; !has_unread(ntohs(own.sin_port)); i++) {
		if (i == 12000)
			fail("no response in flight");
		usleep(5000);
	}
	receive(receive_descriptor(pair[1]));
	wait_for_release();
}

struct ring {
	int fd;
	unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask;
	struct io_uring_sqe *entries;
	struct io_uring_cqe *results;
};

static struct ring open_ring(void) {
	struct io_uring_params params = {0};
	struct ring ring = {.fd = syscall(SYS_io_uring_setup, 8, &params)};
	if (ring.fd < 0)
		skip("io_uring");
	size_t sq_len = params.sq_off.array + params.sq_entries * sizeof(unsigned);
	size_t cq_len = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
	int prot = PROT_READ | PROT_WRITE;
	char *sq = mmap(NULL, sq_len, prot, MAP_SHARED, ring.fd, IORING_OFF_SQ_RING);
	char *cq = mmap(NULL, cq_len, prot, MAP_SHARED, ring.fd, IORING_OFF_CQ_RING);
	ring.entries = mmap(
		NULL, params.sq_entries * sizeof(struct io_uring_sqe), prot, MAP_SHARED, ring.fd, IORING_OFF_SQES);
	if (sq == MAP_FAILED || cq == MAP_FAILED || ring.entries == MAP_FAILED)
		fail("mmap");
	ring.sq_tail = (unsigned *)(sq + params.sq_off.tail);
	ring.sq_mask = (unsigned *)(sq + params.sq_off.ring_mask);
	ring.sq_array = (unsigned *)(sq + params.sq_off.array);
	ring.cq_head = (unsigned *)(cq + params.cq_off.head);
	ring.cq_tail = (unsigned *)(cq + params.cq_off.tail);
	ring.cq_mask = (unsigned *)(cq + params.cq_off.ring_mask);
	ring.results = (struct io_uring_cqe *)(cq + params.cq_off.cqes);
	return ring;
}

/* Carries out one entry and gives its result. */
static int perform(struct ring *ring, struct io_uring_sqe entry) {
	unsigned tail = *ring->sq_tail, index = tail & *ring->sq_mask;
	ring->entries[index] = entry;
	ring->sq_array[index] = index;
	__atomic_store_n(ring->sq_tail, tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0)
		fail("io_uring_enter");
	unsigned head = *ring->cq_head;
	while (__atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE) == head)
		usleep(100);
	int result = ring->results[head & *ring->cq_mask].res;
	__atomic_store_n(ring->cq_head, head + 1, __ATOMIC_RELEASE);
	return result;
}

static void check(int result, const char *what) {
	if (result < 0) {
		errno = -result;
		fail(what);
	}
}

static void io_uring(void) {
	struct ring ring = open_ring();
	int empty = -1;
	struct sockaddr_in address = ipv4("127.0.0.1");
	static char bytes[65536];
	check(syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_FILES, &empty, 1), "IORING_REGISTER_FILES");
	// The first place among the ring's own files: no descriptor is ever made. Since Linux 5.19.
	int made = perform(
		&ring, (struct io_uring_sqe){.opcode = IORING_OP_SOCKET, .fd = AF_INET, .off = SOCK_STREAM, .file_index = 1});
	if (made == -EINVAL) {
		errno = EINVAL;
		skip("IORING_OP_SOCKET");
	}
	check(made, "IORING_OP_SOCKET");
	struct io_uring_sqe entry = {.flags = IOSQE_FIXED_FILE, .fd = 0};
	entry.opcode = IORING_OP_CONNECT;
	entry.addr = (unsigned long)&address;
	entry.off = sizeof address;
	check(perform(&ring, entry), "IORING_OP_CONNECT");
	entry.opcode = IORING_OP_SEND;
	entry.off = 0;
	entry.addr = (unsigned long)request;
	entry.len = request_len;
	check(perform(&ring, entry), "IORING_OP_SEND");
	entry.opcode = IORING_OP_RECV;
	entry.addr = (unsigned long)bytes;
	entry.len = sizeof bytes;
	int got = perform(&ring, entry);
	check(got, "IORING_OP_RECV");
	if (got == 0)
		fail("closed without a response");
	respond_bytes(bytes, got);
	wait_for_release();
}
