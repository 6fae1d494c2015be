/* A program with an allocator of its own, which looks around before it can give anything out, as jemalloc does: an
   allocation meanwhile, by whoever it asks, would wait for itself for ever. */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static char arena[1 << 22];
static size_t used;
static int is_starting, has_started;

static void start(void)
{
    char link[PATH_MAX];
    struct stat status;
    if (is_starting) {
        const char text[] = "an allocation within an allocation\n";
        (void)!write(2, text, sizeof text - 1);
        _exit(9);
    }
    is_starting = 1;
    (void)!readlink("/etc/malloc.conf", link, sizeof link);
    (void)!readlink("/proc/self/exe", link, sizeof link);
    int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!read(fd, link, sizeof link);
        (void)fstat(fd, &status);
        close(fd);
    }
    (void)stat("/sys/devices/system/cpu", &status);
    (void)access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK);
    void *pages = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages != MAP_FAILED)
        munmap(pages, 1 << 16);
    is_starting = 0;
    has_started = 1;
}

void *malloc(size_t bytes)
{
    if (!has_started)
        start();
    size_t at = __atomic_fetch_add(&used, (bytes + 31) / 16 * 16, __ATOMIC_RELAXED);
    if (at + bytes + 16 > sizeof arena) {
        errno = ENOMEM;
        return NULL;
    }
    *(size_t *)(arena + at) = bytes;
    return arena + at + 16;
}

void free(void *place)
{
    (void)place;
}

void *calloc(size_t count, size_t bytes)
{
    return malloc(count * bytes); /* Never used before, so all zeros. */
}

void *realloc(void *place, size_t bytes)
{
    void *other = malloc(bytes);
    if (place != NULL && other != NULL) {
        size_t before = *(size_t *)((char *)place - 16);
        memcpy(other, place, before < bytes ? before : bytes);
    }
    return other;
}

/* Through pointers that the compiler does not see through, or it leaves the call out. */
int main(void)
{
    void *(*volatile allocate)(size_t) = malloc;
    return allocate(100) == NULL || access("/sys/module/neuron/version", R_OK) != 0;
}
