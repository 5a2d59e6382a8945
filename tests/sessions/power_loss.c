/* Records what a process writes below a directory, and what it waits for the disk to have: LD_PRELOAD=power_loss.so.

   Each record: kind (1 byte), length of the path (4), offset (8), size (8), path, data. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -1;

static void record(char kind, const char *path, int64_t offset, const void *data, int64_t size) {
    const char *root = getenv("POWER_ROOT"), *log = getenv("POWER_LOG");
    if (!root || !log || strncmp(path, root, strlen(root)) != 0) return;
    pthread_mutex_lock(&lock);
    if (log_fd < 0) log_fd = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    uint32_t length = strlen(path);
    size_t total = 21 + length + (data ? size : 0);
    char *entry = malloc(total);
    entry[0] = kind;
    memcpy(entry + 1, &length, 4);
    memcpy(entry + 5, &offset, 8);
    memcpy(entry + 13, &size, 8);
    memcpy(entry + 21, path, length);
    if (data) memcpy(entry + 21 + length, data, size);
    syscall(SYS_write, log_fd, entry, total);
    free(entry);
    pthread_mutex_unlock(&lock);
}

static void record_fd(char kind, int fd, int64_t offset, const void *data, int64_t size) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0 || fd == log_fd) return;
    path[length] = 0;
    record(kind, path, offset, data, size);
}

ssize_t write(int fd, const void *data, size_t size) {
    int64_t at = lseek(fd, 0, (fcntl(fd, F_GETFL) & O_APPEND) ? SEEK_END : SEEK_CUR);
    ssize_t done = syscall(SYS_write, fd, data, size);
    if (done > 0 && at >= 0) record_fd('W', fd, at, data, done);
    return done;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    ssize_t done = syscall(SYS_pwrite64, fd, data, size, offset);
    if (done > 0) record_fd('W', fd, offset, data, done);
    return done;
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) { return pwrite64(fd, data, size, offset); }

int fsync(int fd) {
    int failed = syscall(SYS_fsync, fd);
    if (!failed) record_fd('S', fd, 0, NULL, 0);
    return failed;
}
int fdatasync(int fd) {
    int failed = syscall(SYS_fdatasync, fd);
    if (!failed) record_fd('S', fd, 0, NULL, 0);
    return failed;
}

int ftruncate64(int fd, off64_t size) {
    int failed = syscall(SYS_ftruncate, fd, size);
    if (!failed) record_fd('T', fd, size, NULL, 0);
    return failed;
}
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }
int truncate64(const char *path, off64_t size) {
    int failed = syscall(SYS_truncate, path, size);
    if (!failed) record('T', path, size, NULL, 0);
    return failed;
}
int truncate(const char *path, off_t size) { return truncate64(path, size); }
int unlink(const char *path) {
    int failed = syscall(SYS_unlinkat, AT_FDCWD, path, 0);
    if (!failed) record('U', path, 0, NULL, 0);
    return failed;
}
