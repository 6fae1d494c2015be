/* What a client of the devices does, by the calls of the C library. The first argument says which part. */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define WORD 0x80084E03u
#define DMABUF_FD 0x80084E6Bu
#define ANSWER 0x1122334455667788ull
#define DEVICE "/sys/devices/virtual/neuron_device/neuron0"
#define CHECK(what)                                                                          \
    do {                                                                                     \
        errno = 0;                                                                           \
        if (!(what)) {                                                                       \
            fprintf(stderr, "%d: %s: %s\n", __LINE__, #what, strerror(errno));               \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)
#define FAILS(what, with) CHECK((what) == -1 && errno == (with))

static void asked(int fd) {
    uint64_t answer = 0;
    CHECK(ioctl(fd, WORD, &answer) == 0 && answer == ANSWER);
}

static void ioctls(void) {
    int fd = open("/dev/neuron0", O_RDWR);
    CHECK(fd >= 0 && fcntl(fd, F_GETFD) == 0);
    asked(fd);
    FAILS(ioctl(fd, WORD, (void *)8), EFAULT);
    FAILS(ioctl(fd, 0x4E7F, 0), EINVAL);
    FAILS(ioctl(fd, 0x1234, 0), EINVAL);
    /* A word that a socket would take. */
    FAILS(ioctl(fd, 0x8912, 0), EINVAL);
    CHECK(ioctl(fd, FIOCLEX) == 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
    int on = 1;
    CHECK(ioctl(fd, FIONBIO, &on) == 0 && (fcntl(fd, F_GETFL) & O_NONBLOCK));
    int exported = -1;
    struct { uint64_t va, size; int *fd; } argument = {0, 4096, &exported};
    CHECK(ioctl(fd, DMABUF_FD, &argument) == 0 && exported >= 0);
    char text[9] = {0};
    CHECK(pread(exported, text, 8, 0) == 8 && strcmp(text, "exported") == 0);
    argument.fd = (int *)16;
    FAILS(ioctl(fd, DMABUF_FD, &argument), EFAULT);
    /* What is not the server's is as it was. */
    int null = open("/dev/null", O_RDONLY), pair[2];
    FAILS(ioctl(null, WORD, &on), ENOTTY);
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
    CHECK(ioctl(pair[0], WORD, &on) == -1 && errno != EINVAL);
    FAILS(ioctl(-1, WORD, &on), EBADF);
    FAILS(ioctl(77, WORD, &on), EBADF);
    struct pollfd ready = {fd, POLLIN | POLLOUT, 0};
    CHECK(poll(&ready, 1, 0) == 1 && (ready.revents & (POLLIN | POLLOUT)) == (POLLIN | POLLOUT));
    char byte;
    CHECK(read(fd, &byte, 1) == 0 && write(fd, "x", 1) == 1);
    asked(fd);
    FAILS(open("/dev/neuron2", O_RDWR), ENOENT);
    FAILS(open("/dev/neuron0", O_RDWR | O_DIRECTORY), ENOTDIR);
    FAILS(open("/dev/neuron0", O_RDWR | O_CREAT | O_EXCL, 0600), EEXIST);
    CHECK(open("/dev/neuron0", O_RDWR | O_CREAT, 0600) >= 0);
    errno = 5;
    CHECK(open("/dev/neuron1", O_WRONLY | O_CLOEXEC) >= 0);
}

static void *mapped(int fd, int protection, int flags, void *at, size_t bytes) {
    return mmap(at, bytes, protection, flags, fd, 0x10000);
}

static void maps(void) {
    int fd = open("/dev/neuron0", O_RDWR);
    char *memory = mapped(fd, PROT_READ | PROT_WRITE, MAP_SHARED, NULL, 3 * 4096);
    CHECK(memory != MAP_FAILED && strcmp(memory, "device memory") == 0);
    memory[0] = 'D';
    CHECK(munmap(memory + 4096, 4096) == 0);
    CHECK(munmap(memory, 4096) == 0);
    /* Something else there: the last part is gone. */
    CHECK(mmap(memory + 8192, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory + 8192);
    CHECK(munmap(memory + 8192, 4096) == 0);

    char *shown = mapped(fd, PROT_READ, MAP_SHARED, NULL, 4000);
    CHECK(shown != MAP_FAILED && strcmp(shown, "device memory") == 0);
    FAILS(mprotect(shown, 4096, PROT_READ | PROT_WRITE), EACCES);
    FAILS((intptr_t)mremap(shown, 4096, 8192, MREMAP_MAYMOVE), EFAULT);
    char *place = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mremap(shown, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place);
    CHECK(strcmp(place, "device memory") == 0);
    CHECK(mapped(fd, PROT_READ, MAP_SHARED | MAP_FIXED, place, 4096) == place);
    /* A child has none of it. */
    pid_t child = fork();
    if (child == 0) {
        struct iovec here = {memory, 1}, there = {place, 1};
        here.iov_base = &(char){0};
        _exit(process_vm_readv(getpid(), &here, 1, &there, 1, 0) == -1 && errno == EFAULT ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(munmap(place, 4096) == 0);

    FAILS((intptr_t)mapped(fd, PROT_READ, MAP_SHARED, NULL, 0), EINVAL);
    FAILS((intptr_t)mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 100), EINVAL);
    FAILS((intptr_t)mapped(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE, NULL, 4096), EINVAL);
    int reads = open("/dev/neuron0", O_RDONLY), writes = open("/dev/neuron0", O_WRONLY);
    FAILS((intptr_t)mapped(reads, PROT_READ | PROT_WRITE, MAP_SHARED, NULL, 4096), EACCES);
    FAILS((intptr_t)mapped(writes, PROT_READ, MAP_SHARED, NULL, 4096), EACCES);
    CHECK(mapped(reads, PROT_READ, MAP_SHARED, NULL, 4096) != MAP_FAILED);
    int pair[2];
    CHECK(pipe(pair) == 0);
    FAILS((intptr_t)mapped(pair[0], PROT_READ, MAP_SHARED, NULL, 4096), ENODEV);
    CHECK(mmap(NULL, 100, PROT_READ, MAP_PRIVATE, open("/proc/self/exe", O_RDONLY), 0) != MAP_FAILED);
}

static void descriptors(const char *self) {
    int fd = open("/dev/neuron1", O_RDWR);
    int copy = dup(fd), high = fcntl(fd, F_DUPFD, 100);
    CHECK(close(fd) == 0);
    asked(copy);
    asked(high);
    CHECK(dup2(copy, 55) == 55);
    CHECK(close(copy) == 0 && close(high) == 0);
    asked(55);
    pid_t child = fork();
    if (child == 0) {
        asked(55);
        int again = open("/dev/neuron0", O_RDONLY);
        asked(again);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    asked(55);
    /* Through exec, to a process that knows nothing. */
    char *arguments[] = {(char *)self, "inherited", NULL};
    extern char **environ;
    CHECK(posix_spawn(&child, self, NULL, NULL, arguments, environ) == 0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    /* Passed on. */
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 1;
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    *(int *)CMSG_DATA(head) = 55;
    CHECK(sendmsg(pair[0], &message, 0) == 1 && close(55) == 0);
    CHECK(recvmsg(pair[1], &message, 0) == 1);
    asked(*(int *)CMSG_DATA(CMSG_FIRSTHDR(&message)));
    /* A program that closes what it does not know. */
    for (int other = 3; other < 1024; other++)
        close(other);
    fd = open("/dev/neuron0", O_RDWR);
    CHECK(fd == 3);
    asked(fd);
}

static void inherited(void) {
    struct stat here, there;
    CHECK(fstat(55, &here) == 0 && S_ISCHR(here.st_mode) && here.st_rdev == makedev(240, 1));
    CHECK(stat("/dev/neuron1", &there) == 0 && there.st_ino == here.st_ino && there.st_dev == here.st_dev);
    char *memory = mmap(NULL, 4096, PROT_READ, MAP_SHARED, 55, 0);
    CHECK(memory != MAP_FAILED && strcmp(memory, "device memory") == 0);
    FAILS(ioctl(55, 0x1234, 0), EINVAL);
    asked(55);
}

static void *worker(void *argument) {
    for (int i = 0; i < 200; i++) {
        int fd = open(i % 2 ? "/dev/neuron1" : "/dev/neuron0", O_RDWR | O_CLOEXEC);
        CHECK(fd >= 0);
        asked(fd);
        char *memory = mapped(fd, PROT_READ, MAP_SHARED, NULL, 4096);
        CHECK(memory != MAP_FAILED && memory[0] == 'd' && munmap(memory, 4096) == 0);
        char text[16] = {0};
        int file = open("/sys/module/neuron/version", O_RDONLY);
        CHECK(read(file, text, 15) == 9 && strcmp(text, "2.27.4.0\n") == 0 && close(file) == 0);
        if (i % 20 == 0) {
            pid_t child = fork();
            if (child == 0) {
                asked(fd);
                memory = mapped(fd, PROT_READ, MAP_SHARED, NULL, 4096);
                _exit(memory[0] == 'd' && munmap(memory, 4096) == 0 ? 0 : 1);
            }
            int status;
            CHECK(waitpid(child, &status, 0) == child && status == 0);
        }
        CHECK(close(fd) == 0);
    }
    return argument;
}

static void threads(void) {
    pthread_t all[4];
    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&all[i], NULL, worker, NULL) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(all[i], NULL) == 0);
}

static int only_neurons(const struct dirent *entry) { return strncmp(entry->d_name, "neuron", 6) == 0; }

static int seen(DIR *stream) {
    int count = 0;
    errno = 0;
    for (struct dirent *entry; (entry = readdir(stream));)
        if (only_neurons(entry)) {
            CHECK(entry->d_type == DT_CHR && entry->d_ino != 0);
            count++;
        }
    CHECK(errno == 0);
    return count;
}

static void directories(void) {
    DIR *stream = opendir("/dev");
    CHECK(seen(stream) == 2 && seen(stream) == 0);
    rewinddir(stream);
    long start = telldir(stream), last = -1;
    for (struct dirent *entry; (entry = readdir(stream));) {
        if (strcmp(entry->d_name, "neuron0") == 0)
            last = telldir(stream);
    }
    CHECK(last != -1);
    seekdir(stream, last);
    CHECK(seen(stream) == 1);
    seekdir(stream, start);
    CHECK(seen(stream) == 2);
    rewinddir(stream);
    struct dirent place, *entry;
    int count = 0;
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    while (readdir_r(stream, &place, &entry) == 0 && entry)
        count += only_neurons(entry);
    CHECK(count == 2 && closedir(stream) == 0);
    stream = fdopendir(open("/dev/../dev", O_RDONLY | O_DIRECTORY));
    CHECK(seen(stream) == 2 && closedir(stream) == 0);

    struct dirent **list;
    CHECK(scandir("/dev", &list, only_neurons, alphasort) == 2);
    CHECK(strcmp(list[0]->d_name, "neuron0") == 0 && strcmp(list[1]->d_name, "neuron1") == 0);
    free(list[0]), free(list[1]), free(list);
    CHECK(scandir("/sys/class/neuron_device", &list, NULL, alphasort) == 5);
    CHECK(scandir("/etc", &list, NULL, NULL) > 5);
    FAILS(scandir("/sys/module/neuron/version", &list, NULL, NULL), ENOTDIR);
    int sys = open("/sys", O_RDONLY | O_DIRECTORY);
    CHECK(scandirat(sys, "class", &list, only_neurons, NULL) == 1 && list[0]->d_type == DT_DIR);

    glob_t found;
    CHECK(glob("/dev/neuron*", 0, NULL, &found) == 0 && found.gl_pathc == 2);
    CHECK(strcmp(found.gl_pathv[1], "/dev/neuron1") == 0);
    CHECK(glob("/sys/*/neuron_device/*/core_count", GLOB_APPEND, NULL, &found) == 0 && found.gl_pathc == 4);
    CHECK(glob("/e[t]c/passwd", GLOB_APPEND, NULL, &found) == 0 && found.gl_pathc == 5);
    globfree(&found);
    CHECK(glob("/dev/neuron[2-9]", 0, NULL, &found) == GLOB_NOMATCH);

    int class = openat(sys, "class/neuron_device", O_RDONLY | O_DIRECTORY), copy = dup(class);
    int file = openat(copy, "neuron0/core_count", O_RDONLY);
    char text[100] = {0};
    CHECK(read(file, text, 99) > 0 && strncmp(text, "now: sys/devices/virtual/", 25) == 0);
    struct stat of_path, of_file;
    CHECK(fstatat(class, "neuron0/core_count", &of_path, 0) == 0 && fstat(file, &of_file) == 0);
    CHECK(of_path.st_ino == of_file.st_ino && of_path.st_mode == of_file.st_mode);
    CHECK(faccessat(class, "neuron1/reset", F_OK, 0) == 0);
    FAILS(faccessat(class, "neuron2", F_OK, 0), ENOENT);
    CHECK(openat(class, "../../module/neuron/version", O_RDONLY) >= 0);
    CHECK(openat(class, "../../class", O_RDONLY | O_DIRECTORY) >= 0);
    FAILS(openat(class, "neuron0", O_RDONLY | O_NOFOLLOW), ELOOP);
    int path = openat(class, "neuron0/core_count", O_PATH);
    CHECK(path >= 0 && fstat(path, &of_file) == 0 && of_file.st_size == 4096);
    path = open("/dev/neuron0", O_PATH);
    CHECK(fstatat(path, "", &of_file, AT_EMPTY_PATH) == 0 && S_ISCHR(of_file.st_mode));
    CHECK(readlinkat(class, "neuron0", text, 100) == 43);
    CHECK(fchdir(class) == 0 && getcwd(text, 100) && strcmp(text, "/sys/class/neuron_device") == 0);
    CHECK(!getcwd(text, 10) && errno == ERANGE);
    char *name = getcwd(NULL, 0);
    CHECK(name && strcmp(name, text) == 0);
    free(name);
    name = realpath("neuron0", NULL);
    CHECK(name && strcmp(name, DEVICE) == 0);
    free(name);
    CHECK(!realpath("/dev/neuron7", NULL) && errno == ENOENT);
    char whole[PATH_MAX];
    CHECK(realpath("/sys/class", whole) && strcmp(whole, "/sys/class") == 0);
    FAILS(getxattr("/dev/neuron0", "user.x", text, 100), ENODATA);
    CHECK(listxattr("neuron0", text, 100) == 0);
    CHECK(chdir("/") == 0 && getcwd(text, 100) && strcmp(text, "/") == 0);
}

static void streams(void) {
    char line[100];
    FILE *file = fopen("/sys/module/neuron/version", "re");
    CHECK(file && fgets(line, 100, file) && strcmp(line, "2.27.4.0\n") == 0);
    CHECK(fcntl(fileno(file), F_GETFD) == FD_CLOEXEC);
    file = freopen("/sys/class/neuron_device/neuron1/core_count", "r", file);
    CHECK(file && fgets(line, 100, file) && strncmp(line, "now: ", 5) == 0 && fclose(file) == 0);
    CHECK(!fopen("/sys/module/neuron/none", "r") && errno == ENOENT);
    CHECK(!fopen("/sys/module/neuron/none", "w") && errno == EACCES);
    CHECK(!fopen("/sys/module/neuron/version", "q") && errno == EINVAL);
    file = fopen(DEVICE "/info/notify_delay", "w");
    CHECK(file && fprintf(file, "%d\n", -1) == 3 && fclose(file) == 0);
    file = fopen("/dev/null", "r");
    CHECK(file && !fgets(line, 100, file));
}

static void *waits(void *path) {
    open(path, O_RDONLY);
    return NULL;
}

/* A thread that is cancelled in one of the functions; an environment that is cleared. */
static void odd(void) {
    char path[] = "/tmp/neuron-fifo-XXXXXX";
    CHECK(mkdtemp(path));
    char fifo[100];
    snprintf(fifo, sizeof fifo, "%s/fifo", path);
    CHECK(mkfifo(fifo, 0600) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, waits, fifo) == 0);
    CHECK(pthread_cancel(thread) == 0);
    void *result;
    CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    CHECK(unlink(fifo) == 0 && rmdir(path) == 0);
    CHECK(clearenv() == 0);
    asked(open("/dev/neuron0", O_RDWR));
    struct stat stated;
    const char *volatile nothing = NULL;
    FAILS(open(nothing, O_RDONLY), EFAULT);
    FAILS(open("", O_RDONLY), ENOENT);
    FAILS(stat("", &stated), ENOENT);
    FAILS(fstat(-1, &stated), EBADF);
    FAILS(openat(-1, "neuron0", O_RDONLY), EBADF);
    char much[PATH_MAX + 100];
    memset(much, 'x', sizeof much);
    memcpy(much, "/dev/neuron", 11);
    much[sizeof much - 1] = 0;
    FAILS(open(much, O_RDONLY), ENAMETOOLONG);
}

/* The server is stopped while this waits for a line. */
static void left(void) {
    int fd = open("/dev/neuron0", O_RDWR);
    asked(fd);
    CHECK(printf("ready\n") && fflush(stdout) == 0 && getchar() == '\n');
    FAILS(ioctl(fd, WORD, &fd), ENODEV);
    FAILS(ioctl(fd, WORD, &fd), ENODEV);
    FAILS(open("/dev/neuron0", O_RDWR), ENODEV);
    struct stat stated;
    CHECK(fstat(fd, &stated) == 0 && S_ISCHR(stated.st_mode));
}

int main(int count, char **arguments) {
    assert(count == 2);
    const char *part = arguments[1];
    if (!strcmp(part, "ioctls"))
        ioctls();
    else if (!strcmp(part, "maps"))
        maps();
    else if (!strcmp(part, "descriptors"))
        descriptors(arguments[0]);
    else if (!strcmp(part, "inherited"))
        inherited();
    else if (!strcmp(part, "threads"))
        threads();
    else if (!strcmp(part, "directories"))
        directories();
    else if (!strcmp(part, "streams"))
        streams();
    else if (!strcmp(part, "odd"))
        odd();
    else if (!strcmp(part, "left"))
        left();
    else
        return 2;
    return 0;
}
