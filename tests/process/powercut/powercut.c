/* Keeps, for each file below POWERCUT_DATA, a shadow below POWERCUT_SHADOW of what was in it when it was last synced:
 * what a disk has for certain after a power cut. Preloaded with LD_PRELOAD into a process that writes by open, write,
 * pwrite and ftruncate, as SQLite does. The name of a file counts as synced with the file, and an unlink or rename at
 * once. A sync of a range promises nothing, so it is none. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES 256
#define OPEN_FILES 4096

/* Of bytes [low, high) the disk may have older ones; `cut`: the shortest that it was since it was synced. */
struct file {
    char name[NAME_MAX + 1];
    off_t low, high, cut;
};

static struct file files[FILES];
static int file_count;
static short file_of[OPEN_FILES];
static const char *data, *shadow;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int (*real_open)(const char *, int, ...), (*real_close)(int), (*real_fsync)(int), (*real_fdatasync)(int);
static int (*real_ftruncate)(int, off_t), (*real_unlink)(const char *), (*real_rename)(const char *, const char *);
static ssize_t (*real_write)(int, const void *, size_t), (*real_pwrite)(int, const void *, size_t, off_t);

__attribute__((constructor)) static void begin(void)
{
    real_open = dlsym(RTLD_NEXT, "open64");
    real_close = dlsym(RTLD_NEXT, "close");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
    real_unlink = dlsym(RTLD_NEXT, "unlink");
    real_rename = dlsym(RTLD_NEXT, "rename");
    real_write = dlsym(RTLD_NEXT, "write");
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    shadow = getenv("POWERCUT_SHADOW");
    data = getenv("POWERCUT_DATA");
}

/* Its name below the data directory; NULL: it is elsewhere. */
static const char *name_of(const char *path)
{
    size_t length = data && shadow ? strlen(data) : 0;
    if (!length || strncmp(path, data, length) || path[length] != '/' || strchr(path + length + 1, '/'))
        return NULL;
    return path + length + 1;
}

static char *shadow_of(const char *name, char *path)
{
    snprintf(path, PATH_MAX, "%s/%s", shadow, name);
    return path;
}

static int number_of(const char *name)
{
    for (int n = 0; n < file_count; n++)
        if (!strcmp(files[n].name, name))
            return n + 1;
    if (file_count == FILES)
        abort();
    struct file *file = &files[file_count++];
    strcpy(file->name, name);
    file->low = file->cut = INT64_MAX;
    return file_count;
}

static struct file *opened(int fd)
{
    return fd >= 0 && fd < OPEN_FILES && file_of[fd] ? &files[file_of[fd] - 1] : NULL;
}

static int note_open(const char *path, int flags, int fd)
{
    const char *name = name_of(path);
    if (fd < 0 || !name)
        return fd;
    if (fd >= OPEN_FILES)
        abort();
    pthread_mutex_lock(&lock);
    file_of[fd] = number_of(name);
    if (flags & O_TRUNC)
        opened(fd)->cut = 0;
    pthread_mutex_unlock(&lock);
    return fd;
}

static void note_write(int fd, off_t at, ssize_t size)
{
    struct file *file = opened(fd);
    if (!file || size <= 0)
        return;
    pthread_mutex_lock(&lock);
    file->low = at < file->low ? at : file->low;
    file->high = at + size > file->high ? at + size : file->high;
    pthread_mutex_unlock(&lock);
}

static void copy(int from, int to, off_t at, off_t end)
{
    static char bytes[1 << 16];
    while (at < end) {
        ssize_t got = pread(from, bytes, end - at < (off_t)sizeof bytes ? end - at : (off_t)sizeof bytes, at);
        if (got <= 0 || real_pwrite(to, bytes, got, at) != got)
            break;
        at += got;
    }
}

/* By the descriptor that was synced: to close another one of the same file would end SQLite's locks on it. */
static int synced(int fd, int outcome)
{
    struct file *file = opened(fd);
    struct stat now, before;
    char path[PATH_MAX];
    if (outcome || !file)
        return outcome;
    pthread_mutex_lock(&lock);
    int to = real_open(shadow_of(file->name, path), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (to < 0 || fstat(fd, &now) || fstat(to, &before))
        abort();
    if (file->cut < before.st_size)
        before.st_size = file->cut;
    off_t low = file->low < before.st_size ? file->low : before.st_size;
    if (real_ftruncate(to, before.st_size < now.st_size ? before.st_size : now.st_size) || real_ftruncate(to, now.st_size))
        abort();
    copy(fd, to, low, file->high > before.st_size ? now.st_size : file->high);
    real_close(to);
    file->low = file->cut = INT64_MAX;
    file->high = 0;
    pthread_mutex_unlock(&lock);
    return 0;
}

static mode_t mode_of(int flags, va_list rest)
{
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

#define OPEN(called)                                                     \
    int called(const char *path, int flags, ...)                         \
    {                                                                    \
        va_list rest;                                                    \
        va_start(rest, flags);                                           \
        mode_t mode = mode_of(flags, rest);                              \
        va_end(rest);                                                    \
        return note_open(path, flags, real_open(path, flags, mode));     \
    }
OPEN(open)
OPEN(open64)

int close(int fd)
{
    if (fd >= 0 && fd < OPEN_FILES)
        file_of[fd] = 0;
    return real_close(fd);
}

ssize_t write(int fd, const void *bytes, size_t size)
{
    off_t at = opened(fd) ? lseek(fd, 0, SEEK_CUR) : 0;
    ssize_t done = real_write(fd, bytes, size);
    note_write(fd, at, done);
    return done;
}

#define PWRITE(called)                                                   \
    ssize_t called(int fd, const void *bytes, size_t size, off_t at)     \
    {                                                                    \
        ssize_t done = real_pwrite(fd, bytes, size, at);                 \
        note_write(fd, at, done);                                        \
        return done;                                                     \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

#define FTRUNCATE(called)                                                \
    int called(int fd, off_t size)                                       \
    {                                                                    \
        struct file *file = opened(fd);                                  \
        if (file && size < file->cut)                                    \
            file->cut = size;                                            \
        return real_ftruncate(fd, size);                                 \
    }
FTRUNCATE(ftruncate)
FTRUNCATE(ftruncate64)

int fsync(int fd)
{
    return synced(fd, real_fsync(fd));
}

int fdatasync(int fd)
{
    return synced(fd, real_fdatasync(fd));
}

int unlink(const char *path)
{
    char there[PATH_MAX];
    const char *name = name_of(path);
    int outcome = real_unlink(path);
    if (!outcome && name)
        real_unlink(shadow_of(name, there));
    return outcome;
}

int rename(const char *from, const char *to)
{
    char there[PATH_MAX], then[PATH_MAX];
    const char *old = name_of(from), *new = name_of(to);
    int outcome = real_rename(from, to);
    if (!outcome && old && new)
        real_rename(shadow_of(old, there), shadow_of(new, then));
    return outcome;
}
