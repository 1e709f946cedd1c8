/* What all ways of the attacker need: its files, processes, connections and descriptors. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef IPPROTO_MPTCP
#define IPPROTO_MPTCP 262
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

static char **args;
static const char *dir, *tag;
static int port, server;
static char unix_path[100];
static char request[65536];
static size_t request_len;

static const char *in_dir(const char *name) {
	static _Thread_local char path[4096];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	return path;
}

static int exists(const char *name) { return access(in_dir(name), F_OK) == 0; }

static void register_pid(void) {
	char line[32];
	int len = snprintf(line, sizeof line, "%d\n", (int)getpid());
	int fd = open(in_dir("pids"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, line, len) != len)
		_exit(90);
	close(fd);
}

static void respond_bytes(const char *bytes, size_t len) {
	char partial[64];
	snprintf(partial, sizeof partial, "response.%d", (int)getpid());
	int fd = open(in_dir(partial), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, bytes, len) != (ssize_t)len)
		_exit(91);
	close(fd);
	char from[4096];
	strcpy(from, in_dir(partial));
	rename(from, in_dir("response"));
}

static void respond(const char *format, ...) {
	char text[8192];
	va_list list;
	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	respond_bytes(text, strlen(text));
}

static _Noreturn void wait_for_release(void) {
	for (int i = 0; i < 24000 && !exists("release"); i++)
		usleep(5000);
	_exit(0);
}

static _Noreturn void fail(const char *what) {
	respond("error: %s: %s\n", what, strerror(errno));
	wait_for_release();
}

static _Noreturn void skip(const char *what) {
	respond("skipped: %s: %s\n", what, strerror(errno));
	wait_for_release();
}

static void wait_for_file(const char *name) {
	for (int i = 0; !exists(name); i++) {
		if (i == 24000)
			fail(name);
		usleep(5000);
	}
}

static void read_plan(void) {
	FILE *file = fopen(in_dir("target"), "r");
	if (!file || fscanf(file, "%d %d %99s", &port, &server, unix_path) != 3)
		fail("target");
	fclose(file);
	int fd = open(in_dir("request"), O_RDONLY | O_CLOEXEC);
	ssize_t len = read(fd, request, sizeof request);
	if (len <= 0)
		fail("request");
	request_len = len;
	close(fd);
}

/* Forks. The child registers itself. */
static pid_t branch(void) {
	pid_t pid = fork();
	if (pid < 0)
		fail("fork");
	if (pid == 0)
		register_pid();
	return pid;
}

/* Starts this program again for another way, with the given file and environment. */
static _Noreturn void become(const char *file, const char *way, char **env) {
	char *next[] = {args[0], (char *)way, (char *)dir, (char *)tag, NULL};
	execve(file, next, env);
	fail("execve");
}

static int parent_of(int pid) {
	char path[64], stat[1024];
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, stat, sizeof stat - 1);
	close(fd);
	if (len <= 0)
		return 0;
	stat[len] = 0;
	char *end = strrchr(stat, ')');
	int parent = 0;
	return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

/* The process between us and the server. 0 if the server did not start us. */
static int supervisor(void) {
	int pid = getpid();
	while (pid > 1) {
		int parent = parent_of(pid);
		if (parent == server)
			return pid;
		pid = parent;
	}
	return 0;
}

static struct sockaddr_in ipv4(const char *host) {
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	inet_pton(AF_INET, host, &address.sin_addr);
	return address;
}

static int connected(int fd, const void *address, socklen_t len) {
	if (fd < 0)
		fail("socket");
	if (connect(fd, address, len) != 0)
		fail("connect");
	return fd;
}

static int tcp(const char *host) {
	struct sockaddr_in address = ipv4(host);
	return connected(socket(AF_INET, SOCK_STREAM, 0), &address, sizeof address);
}

static int tcp6(const char *host) {
	struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	inet_pton(AF_INET6, host, &address.sin6_addr);
	return connected(socket(AF_INET6, SOCK_STREAM, 0), &address, sizeof address);
}

static int local(const char *path) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
	return connected(socket(AF_UNIX, SOCK_STREAM, 0), &address, sizeof address);
}

static void send_all(int fd, const char *bytes, size_t len) {
	while (len > 0) {
		ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);
		if (sent <= 0)
			fail("send");
		bytes += sent;
		len -= sent;
	}
}

/* Reads until the server closes, or has said something and then nothing for a while. */
static size_t receive_into(int fd, char *bytes, size_t room) {
	size_t len = 0;
	struct pollfd poll_in = {.fd = fd, .events = POLLIN};
	while (len < room && poll(&poll_in, 1, len == 0 ? 60000 : 300) > 0) {
		ssize_t got = recv(fd, bytes + len, room - len, 0);
		if (got <= 0)
			break;
		len += got;
	}
	return len;
}

static void receive(int fd) {
	static _Thread_local char bytes[65536];
	size_t len = receive_into(fd, bytes, sizeof bytes);
	if (len == 0)
		respond("error: closed without a response\n");
	else
		respond_bytes(bytes, len);
}

static void talk(int fd) {
	send_all(fd, request, request_len);
	receive(fd);
}

/* Sends the request, with the descriptor kept until the end. */
static _Noreturn void attack(int fd) {
	talk(fd);
	wait_for_release();
}

static int send_descriptor(int over, int fd) {
	char byte = 'x', control[CMSG_SPACE(sizeof fd)] = {0};
	struct iovec piece = {.iov_base = &byte, .iov_len = 1};
	struct msghdr message = {
		.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	struct cmsghdr *head = CMSG_FIRSTHDR(&message);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(head), &fd, sizeof fd);
	return sendmsg(over, &message, 0) == 1 ? 0 : -1;
}

static int receive_descriptor(int over) {
	char byte, control[CMSG_SPACE(sizeof(int))];
	struct iovec piece = {.iov_base = &byte, .iov_len = 1};
	struct msghdr message = {
		.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	int fd = -1;
	if (recvmsg(over, &message, 0) != 1 || !CMSG_FIRSTHDR(&message))
		fail("recvmsg");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
	return fd;
}
