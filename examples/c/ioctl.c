/*
 * A device by its ioctls alone: what it is, memory on the host and the device, mappings, copies, and a queue whose
 * descriptors this program builds. Includes nothing but the header and libc.
 *
 *     cc -std=c11 -Wall -Wextra -Werror -pedantic -I include examples/c/ioctl.c -o ioctl
 *     ./ioctl          takes /dev/neuron0, frees all
 *     ./ioctl leave    ends with its memory allocated and its queue bound: what the driver does then is its exit's
 *
 * NEURON_DEVICE names another node. The exit code is 0 only if every byte was right.
 */
#define _POSIX_C_SOURCE 200809L

#include <neuron_mem/neuron_ioctl.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Any engine of core 0 and any queue but 0, which scrubs use, 14, which cores drive, and 15, for collectives. */
#define ENGINE 0
#define QUEUE 5
#define CORE 0
#define HBM 0
/* Slots of each ring, and the copies that go on them before the marker. */
#define SLOTS 64
#define COPIES 3
#define COPY_BYTES 4096
#define HOST_BYTES 65536
#define DEVICE_BYTES (1 << 20)
/* Word that the last descriptor writes when all before it have been. */
#define MARKER 0x5eed1e55

/* One chunk. */
struct chunk {
    uint64_t handle;
    uint64_t pa;
    uint64_t bytes;
    unsigned char *mapped;
};

static int device = -1;

static uint64_t address(const volatile void *pointer) {
    return (uint64_t)(uintptr_t)pointer;
}

/* Ends the program with what failed. */
static void fail(const char *what) {
    int error = errno;
    fprintf(stderr, "%s: %s (errno %d)\n", what, strerror(error), error);
    exit(1);
}

static void wrong(const char *what) {
    fprintf(stderr, "%s: wrong bytes\n", what);
    exit(1);
}

/* One command. A result above 0 is a failure too: a shipped driver's count of bytes that it could not read. */
static void call(int fd, uint32_t word, void *argument, const char *what) {
    int result = ioctl(fd, word, argument);
    if (result > 0) errno = EFAULT;
    if (result != 0) fail(what);
}

static int open_device(int mode) {
    const char *path = getenv("NEURON_DEVICE");
    if (path == NULL) path = "/dev/neuron0";
    int fd = open(path, mode | O_CLOEXEC);
    if (fd < 0) fail(path);
    return fd;
}

/* What a file for discovery tells, which needs no process slot. */
static void discover(void) {
    int misc = open_device(NEURON_OPEN_MISC);
    struct neuron_device_basic_info basic = {0};
    struct neuron_device_driver_info driver = {0};
    struct neuron_compatible_version version = {0};
    struct neuron_device_info info = {0};
    call(misc, NEURON_IOC_DEVICE_BASIC_INFO, &basic, "DEVICE_BASIC_INFO");
    call(misc, NEURON_IOC_DRIVER_INFO_GET, &driver, "DRIVER_INFO_GET");
    call(misc, NEURON_IOC_COMPATIBLE_VERSION, &version, "COMPATIBLE_VERSION");
    if (ioctl(misc, NEURON_IOC_DEVICE_INFO, &info) == 0) {
        fprintf(stderr, "DEVICE_INFO was answered on a file for discovery\n");
        exit(1);
    }
    close(misc);
    call(device, NEURON_IOC_DEVICE_INFO, &info, "DEVICE_INFO");
    if (info.architecture != basic.architecture || driver.architecture != basic.architecture) {
        fprintf(stderr, "three commands tell different architectures\n");
        exit(1);
    }
    printf("device: architecture v%u, revision %u, features %#llx, runtimes %u to %u, %u neighbours\n",
           (unsigned)basic.architecture, (unsigned)basic.revision, (unsigned long long)driver.feature_flags1,
           (unsigned)version.min, (unsigned)version.max, (unsigned)info.connected_device_count);
}

static struct chunk allocate(int on_host, uint64_t bytes, uint32_t category) {
    struct chunk chunk = {0};
    struct neuron_mem_alloc_v2_mem_type64 wanted = {0};
    struct neuron_mem_get_pa pa = {0};
    wanted.size = bytes;
    wanted.host_memory = (uint32_t)on_host;
    wanted.dram_channel = on_host ? 0 : HBM;
    wanted.nc_id = CORE;
    wanted.mem_type = category;
    wanted.mem_handle = address(&chunk.handle);
    call(device, NEURON_IOC_MEM_ALLOC_V2MT64, &wanted, "MEM_ALLOC_V2MT64");
    pa.mem_handle = chunk.handle;
    pa.pa = address(&chunk.pa);
    call(device, NEURON_IOC_MEM_GET_PA, &pa, "MEM_GET_PA");
    chunk.bytes = bytes;
    printf("allocated %llu bytes of %s memory: handle %llu at %#llx\n", (unsigned long long)bytes,
           on_host ? "host" : "device", (unsigned long long)chunk.handle, (unsigned long long)chunk.pa);
    return chunk;
}

/* Maps all of a chunk. */
static void map(struct chunk *chunk) {
    uint64_t offset = 0, pa = 0;
    struct neuron_mem_get_info info = {0};
    info.mem_handle = chunk->handle;
    info.mmap_offset = address(&offset);
    info.pa = address(&pa);
    call(device, NEURON_IOC_MEM_GET_INFO, &info, "MEM_GET_INFO");
    void *mapped = mmap(NULL, chunk->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, device, (off_t)offset);
    if (mapped == MAP_FAILED) fail("mmap");
    chunk->mapped = mapped;
    printf("mapped %llu bytes at offset %#llx\n", (unsigned long long)chunk->bytes, (unsigned long long)offset);
}

static void unmap_and_free(struct chunk *chunk) {
    struct neuron_mem_free gone = {0};
    if (chunk->mapped != NULL && munmap(chunk->mapped, chunk->bytes) != 0) fail("munmap");
    gone.mem_handle = chunk->handle;
    call(device, NEURON_IOC_MEM_FREE, &gone, "MEM_FREE");
}

/* Bytes that differ from step to step. */
static void fill(unsigned char *bytes, size_t count, unsigned seed) {
    for (size_t i = 0; i < count; i++) bytes[i] = (unsigned char)(i * 7 + i / 251 + seed);
}

static void expect(const unsigned char *bytes, size_t count, unsigned seed, const char *what) {
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != (unsigned char)(i * 7 + i / 251 + seed)) wrong(what);
    }
}

/* Chunk to chunk, in every form. Both are mapped. */
static void copy(const struct chunk *host, const struct chunk *hbm) {
    struct neuron_mem_copy narrow = {0};
    fill(host->mapped, 8192, 1);
    narrow.src_mem_handle = host->handle;
    narrow.dst_mem_handle = hbm->handle;
    narrow.size = 8192;
    narrow.dst_offset = 4096;
    call(device, NEURON_IOC_MEM_COPY, &narrow, "MEM_COPY");
    expect(hbm->mapped + 4096, 8192, 1, "MEM_COPY");
    printf("MEM_COPY: 8192 bytes, host to device\n");

    struct neuron_mem_copy64 wide = {0};
    wide.src_mem_handle = hbm->handle;
    wide.dst_mem_handle = host->handle;
    wide.size = 8192;
    wide.src_offset = 4096;
    wide.dst_offset = 16384;
    call(device, NEURON_IOC_MEM_COPY64, &wide, "MEM_COPY64");
    expect(host->mapped + 16384, 8192, 1, "MEM_COPY64");
    printf("MEM_COPY64: 8192 bytes, device to host\n");

    struct neuron_mem_copy_async64 started = {0};
    struct neuron_mem_copy_async_wait wait = {0};
    fill(host->mapped, HOST_BYTES, 2);
    started.src_mem_handle = host->handle;
    started.dst_mem_handle = hbm->handle;
    started.size = HOST_BYTES;
    started.dst_offset = 131072;
    started.pwait_handle = (uint32_t)NEURON_WAIT_NONE;
    call(device, NEURON_IOC_MEM_COPY_ASYNC64, &started, "MEM_COPY_ASYNC64");
    wait.src_mem_handle = host->handle;
    wait.dst_mem_handle = hbm->handle;
    wait.pwait_handle = started.wait_handle;
    call(device, NEURON_IOC_MEM_COPY_ASYNC_WAIT, &wait, "MEM_COPY_ASYNC_WAIT");
    expect(hbm->mapped + 131072, HOST_BYTES, 2, "MEM_COPY_ASYNC64");
    printf("MEM_COPY_ASYNC64: %d bytes, wait handle %u\n", HOST_BYTES, (unsigned)started.wait_handle);
}

/* Between a chunk and memory of this program, and a fill. */
static void buffers(const struct chunk *hbm) {
    static unsigned char bytes[100001], back[100001];
    struct neuron_mem_buf_copy narrow = {0};
    struct neuron_mem_buf_copy64 wide = {0};
    fill(bytes, sizeof bytes, 3);
    narrow.mem_handle = hbm->handle;
    narrow.buffer = address(bytes);
    narrow.size = sizeof bytes;
    narrow.offset = 333;
    narrow.copy_to_mem_handle = 1;
    call(device, NEURON_IOC_MEM_BUF_COPY, &narrow, "MEM_BUF_COPY");
    wide.mem_handle = hbm->handle;
    wide.buffer = address(back);
    wide.size = sizeof back;
    wide.offset = 333;
    call(device, NEURON_IOC_MEM_BUF_COPY64, &wide, "MEM_BUF_COPY64");
    expect(back, sizeof back, 3, "MEM_BUF_COPY64");
    printf("MEM_BUF_COPY, MEM_BUF_COPY64: %zu bytes there and back\n", sizeof bytes);

    struct neuron_memset narrow_fill = {0};
    struct neuron_memset64 wide_fill = {0};
    narrow_fill.mem_handle = hbm->handle;
    narrow_fill.offset = 4096;
    narrow_fill.value = 0x5a;
    narrow_fill.size = 70000;
    call(device, NEURON_IOC_MEMSET, &narrow_fill, "MEMSET");
    wide_fill.mem_handle = hbm->handle;
    wide_fill.offset = 4096 + 70000;
    wide_fill.value = 0xa5;
    wide_fill.size = 70000;
    call(device, NEURON_IOC_MEMSET64, &wide_fill, "MEMSET64");
    for (size_t i = 0; i < 140000; i++) {
        if (hbm->mapped[4096 + i] != (i < 70000 ? 0x5a : 0xa5)) wrong("MEMSET");
    }
    printf("MEMSET, MEMSET64: 140000 bytes\n");
}

static void store(const struct chunk *ring, const struct neuron_descriptor *descriptors, uint32_t type) {
    struct neuron_dma_copy_descriptors stored = {0};
    stored.mem_handle = ring->handle;
    stored.buffer = address(descriptors);
    stored.num_descs = COPIES + 1;
    stored.queue_type = type;
    call(device, NEURON_IOC_DMA_COPY_DESCRIPTORS, &stored, "DMA_COPY_DESCRIPTORS");
}

/* The pair that copies `bytes` on the ring's first lap. */
static void pair(struct neuron_descriptor *tx, struct neuron_descriptor *rx, uint64_t from, uint64_t to,
                 uint32_t bytes) {
    uint32_t word0 = (bytes & NEURON_DESC_LENGTH_MASK) | NEURON_DESC_RING_ID(1);
    tx->word0 = word0 | NEURON_DESC_TX_FIRST | NEURON_DESC_TX_LAST;
    tx->word1 = NEURON_DESC_TX_WORD1;
    tx->address = from;
    rx->word0 = word0;
    rx->word1 = 0;
    rx->address = to;
}

/* Polls for ten seconds. */
static void await_marker(const volatile uint32_t *marker) {
    struct timespec pause = {0, 1000000};
    for (int look = 0; *marker != MARKER; look++) {
        if (look == 10000) {
            errno = ETIMEDOUT;
            fail("marker");
        }
        nanosleep(&pause, NULL);
    }
    atomic_thread_fence(memory_order_acquire);
}

/* Copies with descriptors of our own: host to device, then a marker, host to host. */
static void own_queue(const struct chunk *host, const struct chunk *hbm, const struct chunk *tx,
                      const struct chunk *rx) {
    struct neuron_dma_eng_init engine = {ENGINE};
    struct neuron_dma_queue_init queue = {0};
    struct neuron_dma_queue_copy_start start = {ENGINE, QUEUE, COPIES + 1, COPIES + 1};
    struct neuron_dma_ack_completed done = {ENGINE, QUEUE, COPIES + 1};
    struct neuron_descriptor reads[COPIES + 1], writes[COPIES + 1];
    /* The marker's two words lie behind the data. */
    volatile uint32_t *marker = (volatile uint32_t *)(void *)(host->mapped + COPIES * COPY_BYTES);
    uint64_t marker_pa = host->pa + COPIES * COPY_BYTES;

    /* The driver has initialised the engines; this is what a runtime calls nevertheless. */
    call(device, NEURON_IOC_DMA_ENG_INIT, &engine, "DMA_ENG_INIT");
    queue.eng_id = ENGINE;
    queue.qid = QUEUE;
    queue.tx_desc_count = SLOTS;
    queue.rx_desc_count = SLOTS;
    queue.tx_handle = tx->handle;
    queue.rx_handle = rx->handle;
    call(device, NEURON_IOC_DMA_QUEUE_INIT, &queue, "DMA_QUEUE_INIT");
    printf("DMA_QUEUE_INIT: engine %d, queue %d, %d slots\n", ENGINE, QUEUE, SLOTS);

    fill(host->mapped, COPIES * COPY_BYTES, 4);
    marker[0] = MARKER;
    marker[1] = 0;
    /* Pieces in an order that no plain copy has. */
    for (uint32_t i = 0; i < COPIES; i++) {
        uint64_t to = hbm->pa + (COPIES - 1 - i) * COPY_BYTES;
        pair(&reads[i], &writes[i], host->pa + i * COPY_BYTES, to, COPY_BYTES);
    }
    reads[COPIES - 1].word1 |= NEURON_DESC_TX_WRITE_BARRIER;
    pair(&reads[COPIES], &writes[COPIES], marker_pa, marker_pa + 4, 4);
    store(tx, reads, NEURON_QUEUE_TX);
    store(rx, writes, NEURON_QUEUE_RX);
    printf("DMA_COPY_DESCRIPTORS: %d in each ring\n", COPIES + 1);

    call(device, NEURON_IOC_DMA_QUEUE_COPY_START, &start, "DMA_QUEUE_COPY_START");
    await_marker(&marker[1]);
    call(device, NEURON_IOC_DMA_ACK_COMPLETED, &done, "DMA_ACK_COMPLETED");
    for (uint32_t i = 0; i < COPIES; i++) {
        const unsigned char *to = hbm->mapped + (COPIES - 1 - i) * COPY_BYTES;
        if (memcmp(to, host->mapped + i * COPY_BYTES, COPY_BYTES) != 0) wrong("the queue's copies");
    }
    printf("copied %d bytes with descriptors of our own\n", COPIES * COPY_BYTES);
}

int main(int argc, char **argv) {
    int leave = argc == 2 && strcmp(argv[1], "leave") == 0;
    if (argc > 1 && !leave) {
        fprintf(stderr, "usage: %s [leave]\n", argv[0]);
        return 2;
    }
    device = open_device(NEURON_OPEN_FULL);
    discover();
    struct chunk host = allocate(1, HOST_BYTES, NEURON_CATEGORY_TENSORS_HOST);
    struct chunk hbm = allocate(0, DEVICE_BYTES, NEURON_CATEGORY_TENSORS_DEVICE);
    struct chunk tx = allocate(1, NEURON_PAGE_SIZE, NEURON_CATEGORY_DMA_RINGS_HOST);
    struct chunk rx = allocate(1, NEURON_PAGE_SIZE, NEURON_CATEGORY_DMA_RINGS_HOST);
    map(&host);
    map(&hbm);
    copy(&host, &hbm);
    buffers(&hbm);
    own_queue(&host, &hbm, &tx, &rx);
    if (leave) {
        printf("left: 4 chunks, queue %d of engine %d\n", QUEUE, ENGINE);
        return 0;
    }
    /* What a queue is bound to stays the driver's until this process ends. */
    unmap_and_free(&host);
    unmap_and_free(&hbm);
    unmap_and_free(&tx);
    unmap_and_free(&rx);
    printf("freed: 4 chunks\n");
    if (close(device) != 0) fail("close");
    return 0;
}
