/*
 * A tool process that tries to approve a call of its own agent: attacker WAY DIR TAG.
 *
 * DIR holds `target` (the attacked port, the pid of the server that started us, the path of the attacked Unix socket) and
 * `request`, the bytes that answer the question (editors are asked first: `approval` is their answer). The program sends them in the given way and writes what came back to
 * `response`: the server's bytes, or a line that begins with `error:` or `skipped:`. Every process first adds its pid to
 * `pids` and has TAG among its arguments, so that the test finds it. All of them stay until the file `release` exists.
 *
 * It is written in C because most of these ways need system calls that safe Rust does not offer. All waits are for facts
 * and have a limit, so that nothing stays for ever if the test dies.
 */
#include "attacker/common.h"
#include "attacker/processes.h"
#include "attacker/sockets.h"
#include "attacker/supervisor.h"

static const struct {
	const char *name;
	void (*run)(void);
} WAYS[] = {
	{"plain", plain},
	{"double-fork", double_fork},
	{"new-session", new_session},
	{"empty-environment", empty_environment},
	{"hidden", hidden},
	{"non-dumpable", non_dumpable},
	{"unreadable-binary", unreadable_binary},
	{"sibling", sibling},
	{"own-subreaper", own_subreaper},
	{"thread-descriptors", thread_descriptors},
	{"zombie-leader", zombie_leader},
	{"namespaces", namespaces},
	{"mptcp", mptcp},
	{"fast-open", fast_open},
	{"localhost", localhost},
	{"any-address", any_address},
	{"second-loopback", second_loopback},
	{"loopback6", loopback6},
	{"mapped-address", mapped_address},
	{"other-source", other_source},
	{"unix-socket", unix_socket},
	{"unix-socket-of-a-dead-process", unix_socket_of_a_dead_process},
	{"editor", editor},
	{"editor-over-unix-socket", editor_over_unix_socket},
	{"kept-connection", kept_connection},
	{"pipelined", pipelined},
	{"inherited", inherited},
	{"in-flight", in_flight},
	{"late", late},
	{"closes-before-accept", closes_before_accept},
	{"io-uring", io_uring},
	{"relay", relay},
	{"helper", helper},
	{"helped", helped},
	{"outlives", outlives},
	{"kills-supervisor", kills_supervisor},
	{"orphans", orphans},
	{"stops-supervisor", stops_supervisor},
	{"starves-supervisor", starves_supervisor},
	{"starves-server", starves_server},
	{"limits-files", limits_files},
	{"limits-threads", limits_threads},
	{"fork-chain", fork_chain},
	{"fork-storm", fork_storm},
	{"ignores-signals", ignores_signals},
	{"stopped", stopped},
	{"fork-bomb", fork_bomb},
	{"looks-inside", looks_inside},
};

int main(int argc, char **argv) {
	if (argc != 4)
		return 64;
	args = argv;
	dir = argv[2];
	tag = argv[3];
	register_pid();
	read_plan();
	for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++)
		if (strcmp(WAYS[i].name, argv[1]) == 0)
			WAYS[i].run();
	return 64;
}
