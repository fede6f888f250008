// SPDX-License-Identifier: GPL-2.0
/*
 * Runs fathom with the lines of /commands: "STATUS WHO COMMAND...". Its output is
 * printed on the console between two lines that name the command.
 */
#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

#define WORDS		32
#define USER		1000
/* Guest time; a survey has a budget of seconds. */
#define LIMIT_S		600

static void become(bool user, char **words)
{
	const char *home = user ? "/tmp/user" : "/tmp/root";

	mkdir(home, 0700);
	if (user && (chown(home, USER, USER) || setgroups(0, NULL) || setgid(USER) || setuid(USER)))
		_exit(120);
	setenv("HOME", home, 1);
	setenv("XDG_DATA_HOME", home, 1);
	setenv("PATH", "/", 1);
	if (chdir(home))
		_exit(121);
	execv("/fathom", words);
	_exit(122);
}

static long seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* Copies all output until the other end is closed. Returns false on a timeout. */
static bool relay(int from)
{
	struct pollfd end = { .fd = from, .events = POLLIN };
	long until = seconds() + LIMIT_S;
	char text[4096];
	ssize_t got;

	while (seconds() < until) {
		if (poll(&end, 1, 1000) <= 0)
			continue;
		got = read(from, text, sizeof(text));
		if (got <= 0)
			return true;
		fwrite(text, 1, got, stdout);
	}
	return false;
}

static int command(bool user, char **words)
{
	int ends[2], pid, status;
	bool ended;

	if (pipe(ends))
		return -1;
	pid = fork();
	if (!pid) {
		dup2(ends[1], 1);
		dup2(ends[1], 2);
		close(ends[0]);
		close(ends[1]);
		become(user, words);
	}
	close(ends[1]);
	ended = relay(ends[0]);
	if (!ended)
		kill(pid, SIGKILL);
	close(ends[0]);
	status = status_of(pid);
	return ended ? status : 256 + SIGKILL;
}

static void one_line(int number, char *line)
{
	char *words[WORDS + 1] = { NULL };
	char said[256];
	int count = 0, before = failures_so_far(), wanted, got;
	bool user;

	snprintf(said, sizeof(said), "%.*s", (int)strcspn(line, "\n"), line);
	for (char *word = strtok(line, " \n"); word && count < WORDS; word = strtok(NULL, " \n"))
		words[count++] = word;
	if (count < 3) {
		failed("/commands: %s", said);
		return;
	}
	wanted = atoi(words[0]);
	user = !strcmp(words[1], "user");
	printf("@fathom begin %d %s\n", number, said);
	got = command(user, words + 2);
	printf("\n@fathom end %d %d\n", number, got);
	check(got == wanted, "status %d instead of %d: %s", got, wanted, said);
	printf("@driver %s command %s\n", failures_so_far() == before ? "ok" : "FAILED", said);
}

void test_commands(void)
{
	FILE *file = fopen("/commands", "re");
	char line[1024];
	int number = 0, fd;

	while (file && fgets(line, sizeof(line), file))
		one_line(number++, line);
	if (file)
		fclose(file);
	fd = device_open();
	expect_nothing_held(fd, "fathom's commands");
	close(fd);
}
