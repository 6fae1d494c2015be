/*
 * System calls on a device as messages to the test that started this program, over its standard input. The test
 * answers each with reads and writes of this program's memory, then with the result.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { OPEN, IOCTL, MMAP, MUNMAP, CLOSE };
enum { READ, WRITE, DONE };

/* Whole messages only: a test that is gone ends the program. */
static void move(int out, void *bytes, size_t count) {
    unsigned char *at = bytes;
    while (count > 0) {
        ssize_t moved = out ? write(0, at, count) : read(0, at, count);
        if (moved <= 0) _exit(99);
        at += moved;
        count -= (size_t)moved;
    }
}

static int64_t ask(uint64_t kind, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    uint64_t question[5] = {kind, a, b, c, d};
    move(1, question, sizeof question);
    for (;;) {
        uint64_t order[3];
        move(0, order, sizeof order);
        if (order[0] == DONE) {
            int64_t result = (int64_t)order[1];
            if (result >= 0) return result;
            errno = (int)-result;
            return -1;
        }
        move(order[0] == READ, (void *)(uintptr_t)order[1], order[2]);
    }
}

int open(const char *path, int flags, ...) {
    if (strcmp(path, "/dev/neuron0") == 0) return (int)ask(OPEN, (uint64_t)flags & 3, 0, 0, 0);
    errno = ENOENT;
    return -1;
}

int ioctl(int fd, unsigned long word, void *argument) {
    return (int)ask(IOCTL, (uint64_t)fd, word, (uint64_t)(uintptr_t)argument, 0);
}

/* Memory of this program, which the test makes the same as the device's around each message. */
void *mmap(void *hint, size_t bytes, int protection, int flags, int fd, off_t offset) {
    void *memory = NULL;
    (void)hint, (void)protection, (void)flags;
    if (posix_memalign(&memory, 4096, bytes) != 0) abort();
    int64_t result = ask(MMAP, (uint64_t)fd, bytes, (uint64_t)offset, (uint64_t)(uintptr_t)memory);
    return result < 0 ? (void *)-1 : memory;
}

int munmap(void *memory, size_t bytes) {
    return (int)ask(MUNMAP, (uint64_t)(uintptr_t)memory, bytes, 0, 0);
}

int close(int fd) {
    return (int)ask(CLOSE, (uint64_t)fd, 0, 0, 0);
}
