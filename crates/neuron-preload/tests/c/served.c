/* A client of a real server: what a runtime does with a device, with the arguments of spec/abi.md. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEVICE_INFO 0x80084E03u
#define MEM_ALLOC 0x80384E66u
#define MEM_FREE 0x80084E16u
#define MEM_GET_INFO 0x80084E1Au
#define MEM_BUF_COPY 0xC0284E18u
#define DMABUF_FD 0x80084E6Bu
#define CHECK(what)                                                                          \
    do {                                                                                     \
        errno = 0;                                                                           \
        if (!(what)) {                                                                       \
            fprintf(stderr, "%d: %s: %s\n", __LINE__, #what, strerror(errno));               \
            exit(1);                                                                         \
        }                                                                                    \
    } while (0)

static uint64_t allocated(int fd, uint64_t size, uint32_t on_host) {
    uint64_t handle = 0;
    struct {
        uint64_t size, align;
        uint32_t host_memory, channel, region, core, category, hole;
        uint64_t *handle;
        uint64_t pad;
    } argument = {size, 0, on_host, 0, 0, 0, on_host ? 4 : 9, 0, &handle, 0};
    CHECK(ioctl(fd, MEM_ALLOC, &argument) == 0 && handle != 0);
    return handle;
}

static void copied(int fd, uint64_t handle, void *buffer, uint64_t size, uint32_t to_device) {
    struct {
        uint64_t handle;
        void *buffer;
        uint64_t size, offset;
        uint32_t to_device, pad;
    } argument = {handle, buffer, size, 0, to_device, 0};
    CHECK(ioctl(fd, MEM_BUF_COPY, &argument) == 0);
}

static uint64_t host_memory(void) {
    uint64_t bytes = 0;
    FILE *file = fopen("/sys/class/neuron_device/neuron0/neuron_core0/stats/memory_usage/host_mem/total", "r");
    CHECK(file && fscanf(file, "%llu", (unsigned long long *)&bytes) == 1 && fclose(file) == 0);
    return bytes;
}

static void *mapped(int fd, uint64_t handle, size_t bytes) {
    uint64_t offset = 0, address = 0;
    struct {
        uint64_t handle, *offset, *address;
    } argument = {handle, &offset, &address};
    CHECK(ioctl(fd, MEM_GET_INFO, &argument) == 0 && offset != 0);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
    CHECK(memory != MAP_FAILED);
    return memory;
}

int main(void) {
    int fd = open("/dev/neuron0", O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    uint32_t info[20];
    CHECK(ioctl(fd, DEVICE_INFO, info) == 0 && info[0] >= 2);

    uint64_t before = host_memory();
    uint64_t handle = allocated(fd, 8192, 1);
    CHECK(host_memory() == before + 8192);
    char *memory = mapped(fd, handle, 8192), bytes[8192] = {0};
    memset(memory, 7, 8192);
    copied(fd, handle, bytes, 8192, 0);
    CHECK(bytes[0] == 7 && bytes[8191] == 7);
    memset(bytes, 9, 8192);
    copied(fd, handle, bytes, 8192, 1);
    CHECK(memory[0] == 9 && memory[8191] == 9);
    CHECK(munmap(memory, 8192) == 0 && ioctl(fd, MEM_FREE, &handle) == 0);
    CHECK(host_memory() == before);

    /* HBM: the mapping shows what was copied, and can be exported. */
    handle = allocated(fd, 1 << 20, 0);
    copied(fd, handle, bytes, 8192, 1);
    memory = mapped(fd, handle, 1 << 20);
    CHECK(memory[100] == 9);
    int exported = -1;
    struct {
        uint64_t va, size;
        int *fd;
    } argument = {(uint64_t)memory, 1 << 20, &exported};
    CHECK(ioctl(fd, DMABUF_FD, &argument) == 0 && exported >= 0 && close(exported) == 0);
    argument.va = (uint64_t)memory + (1 << 21);
    CHECK(ioctl(fd, DMABUF_FD, &argument) == -1 && errno == EINVAL);
    CHECK(munmap(memory, 1 << 20) == 0);
    argument.va = (uint64_t)memory;
    CHECK(ioctl(fd, DMABUF_FD, &argument) == -1 && errno == EINVAL);

    /* A child has the file, but no slot. */
    pid_t child = fork();
    if (child == 0)
        _exit(ioctl(fd, MEM_FREE, &handle) == -1 && errno == EACCES && ioctl(fd, DEVICE_INFO, info) == 0 ? 0 : 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(ioctl(fd, DEVICE_INFO, (void *)8) == -1 && errno == EFAULT);
    CHECK(ioctl(fd, MEM_FREE, &handle) == 0);
    CHECK(close(fd) == 0);
    return 0;
}
