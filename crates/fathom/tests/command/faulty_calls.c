/* Makes one call of the C library fail, in every process of a command: for tests, by LD_PRELOAD.
 *
 * FAULT_CALL  the name of the call
 * FAULT_AT    which of a process's calls of it fails, from 1 on
 * FAULT_ERRNO the error
 * FAULT_HIT   a file that is created when a call has failed, and gets the number of the process
 *
 * System calls are made directly, and memory is allocated by glibc's own names: looking for the next definition of a
 * function allocates memory itself.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static const char *which, *hit;
static long at;
static int error;
static atomic_long calls;
static int (*next_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static int (*next_spawn)(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
			 char *const *, char *const *);

__attribute__((constructor)) static void begin(void)
{
	const char *number = getenv("FAULT_AT"), *code = getenv("FAULT_ERRNO");

	*(void **)&next_create = dlsym(RTLD_NEXT, "pthread_create");
	*(void **)&next_spawn = dlsym(RTLD_NEXT, "posix_spawnp");
	hit = getenv("FAULT_HIT");
	at = number ? strtol(number, NULL, 10) : 0;
	error = code ? (int)strtol(code, NULL, 10) : EIO;
	which = getenv("FAULT_CALL");
}

/* Returns whether this call fails; then `errno` is set. */
static int fails(const char *name)
{
	char text[24];
	int length = 0;
	long number = getpid();
	int file;

	if (!which || strcmp(which, name) != 0 || atomic_fetch_add(&calls, 1) + 1 != at)
		return 0;
	for (long rest = number; rest; rest /= 10)
		text[length++] = (char)('0' + rest % 10);
	text[length++] = '\n';
	file = hit ? (int)syscall(SYS_openat, AT_FDCWD, hit, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;
	if (file >= 0) {
		syscall(SYS_write, file, text, length);
		syscall(SYS_close, file);
	}
	errno = error;
	return 1;
}

ssize_t write(int fd, const void *from, size_t count)
{
	return fails("write") ? -1 : syscall(SYS_write, fd, from, count);
}

ssize_t writev(int fd, const struct iovec *from, int count)
{
	return fails("write") ? -1 : syscall(SYS_writev, fd, from, count);
}

ssize_t read(int fd, void *to, size_t count)
{
	return fails("read") ? -1 : syscall(SYS_read, fd, to, count);
}

int open(const char *path, int flags, ...)
{
	va_list more;
	int mode;

	va_start(more, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0;
	va_end(more);
	return fails("open") ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

int open64(const char *path, int flags, ...) __attribute__((alias("open")));

int fsync(int fd)
{
	return fails("sync") ? -1 : (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
	return fails("sync") ? -1 : (int)syscall(SYS_fdatasync, fd);
}

int rename(const char *from, const char *to)
{
	return fails("rename") ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char *path)
{
	return fails("unlink") ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int mkdir(const char *path, mode_t mode)
{
	return fails("mkdir") ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int flock(int fd, int operation)
{
	return fails("flock") ? -1 : (int)syscall(SYS_flock, fd, operation);
}

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	return fails("mmap") ? MAP_FAILED : (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}

void *mmap64(void *, size_t, int, int, int, off64_t) __attribute__((alias("mmap")));

int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*work)(void *), void *argument)
{
	return fails("thread") ? error : next_create(thread, how, work, argument);
}

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *how,
		 char *const *arguments, char *const *environment)
{
	return fails("spawn") ? error : next_spawn(pid, file, actions, how, arguments, environment);
}

void *malloc(size_t bytes)
{
	return fails("malloc") ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
	return fails("malloc") ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
	return fails("malloc") ? NULL : __libc_realloc(old, bytes);
}

int posix_memalign(void **to, size_t alignment, size_t bytes)
{
	if (fails("malloc"))
		return ENOMEM;
	*to = __libc_memalign(alignment, bytes);
	return *to ? 0 : ENOMEM;
}
