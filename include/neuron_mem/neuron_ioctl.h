/*
 * The ioctl boundary of /dev/neuronN: command words, argument structs, and the numbers in them. For programs that
 * speak to the driver without a library: on hardware, or under `neuron-mem serve`. Written for neuron-mem, under its
 * licenses (MIT OR Apache-2.0). docs/ioctl.md has an example.
 *
 * ioctl(fd, word, &argument) answers 0. Anything else is a failure, positive values included: shipped drivers
 * return a count of bytes for an argument that they cannot read.
 *
 * A chunk is one allocation, and its handle the driver's number for it. Its pa, or physical address, is also its
 * offset for mmap, which maps all of a chunk or nothing.
 *
 * Sizes, offsets and counts are in bytes unless a comment says otherwise. An address in a struct is a user address
 * in 64 bits: (uint64_t)(uintptr_t)pointer. Comments of fields begin with what the driver does: in, it reads; out,
 * it writes. Fields that begin with _ are holes: set them to 0, which an initializer of { 0 } does.
 *
 * Layouts are those of 64-bit little-endian Linux; the driver has no entry for 32-bit processes.
 */
#ifndef NEURON_MEM_IOCTL_H
#define NEURON_MEM_IOCTL_H

#include <fcntl.h>
#include <stdint.h>

#if UINTPTR_MAX != 0xffffffffffffffffu
#error "the driver serves 64-bit processes only"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Opening ---- */

/* All commands and mmap; takes one of the device's process slots. O_RDONLY does the same. */
#define NEURON_OPEN_FULL O_RDWR
/* Only the commands marked "any file"; takes no slot, and works while the device is in use by 16 processes. */
#define NEURON_OPEN_MISC O_WRONLY

/* ---- Limits ---- */

#define NEURON_MAX_DEVICES 64
/* Attached to one device at a time; the next one's open fails with EBUSY. */
#define NEURON_MAX_PROCESSES 16
/* Of a device; also the bound of nc_id in allocations where a device has fewer. */
#define NEURON_MAX_CORES 8
#define NEURON_MAX_CONNECTED_DEVICES 8
/* A count of this many is refused already. */
#define NEURON_QUEUE_BATCH_ENTRIES 256
#define NEURON_NC_MAP_ENTRIES 128
#define NEURON_DATASTORE_SIZE 262144
/* Text of PRINTK, its NUL included. */
#define NEURON_PRINTK_MAX 512
/* h2t_qid: the core's default queue. */
#define NEURON_DEFAULT_H2T_QUEUE (-1)
/* nc_map: the whole device. */
#define NEURON_DEVICE_MAP UINT32_C(0xffffffff)
#define NEURON_COMPLETION_QUEUE_ENTRIES 1024
/* Granule of allocations, and of mmap offsets. */
#define NEURON_PAGE_SIZE 4096
#define NEURON_ENGINE_SLOTS 132
#define NEURON_QUEUES_PER_ENGINE 16

/* ---- Values of fields ---- */

/* architecture: Trainium1 and Inferentia2; Trainium2; Trainium3. */
enum {
    NEURON_ARCH_V2 = 2,
    NEURON_ARCH_V3 = 3,
    NEURON_ARCH_V4 = 4
};

/* Where memory is. Allocations say it with host_memory. */
enum {
    NEURON_LOCATION_INVALID = 0,
    NEURON_LOCATION_HOST = 1,
    NEURON_LOCATION_DEVICE = 2
};

/* mem_type: what memory is counted as. */
enum {
    NEURON_CATEGORY_UNKNOWN_HOST = 0,
    NEURON_CATEGORY_CODE_HOST = 1,
    NEURON_CATEGORY_TENSORS_HOST = 2,
    NEURON_CATEGORY_CONSTANTS_HOST = 3,
    NEURON_CATEGORY_MISC_HOST = 4,
    NEURON_CATEGORY_NCDEV_HOST = 5,
    NEURON_CATEGORY_NOTIFICATION_HOST = 6,
    NEURON_CATEGORY_UNKNOWN_DEVICE = 7,
    NEURON_CATEGORY_CODE_DEVICE = 8,
    NEURON_CATEGORY_TENSORS_DEVICE = 9,
    NEURON_CATEGORY_CONSTANTS_DEVICE = 10,
    NEURON_CATEGORY_SCRATCHPAD_DEVICE = 11,
    NEURON_CATEGORY_MISC_DEVICE = 12,
    NEURON_CATEGORY_NCDEV_DEVICE = 13,
    NEURON_CATEGORY_COLLECTIVES_DEVICE = 14,
    NEURON_CATEGORY_SCRATCHPAD_NONSHARED_DEVICE = 15,
    NEURON_CATEGORY_NOTIFICATION_DEVICE = 16,
    NEURON_CATEGORY_DMA_RINGS_HOST = 17,
    NEURON_CATEGORY_DMA_RINGS_DEVICE = 18,
    NEURON_CATEGORY_CONTIGUOUS_SCRATCHPAD_DEVICE = 19
};

/* queue_type. */
enum {
    NEURON_QUEUE_TX = 0,
    NEURON_QUEUE_RX = 1,
    NEURON_QUEUE_COMPLETION = 2
};

/* pwait_handle, wait_handle: as uint32_t. NONE waits for nothing, SYNC copies before the call returns. */
enum {
    NEURON_WAIT_NONE = -1,
    NEURON_WAIT_SYNC = 0,
    NEURON_WAIT_ASYNC1 = 1,
    NEURON_WAIT_ASYNC2 = 2
};

/* block of RESOURCE_MMAP_INFO. */
enum {
    NEURON_BLOCK_TPB = 0,
    NEURON_BLOCK_TOPSP = 1,
    NEURON_BLOCK_HBM = 2
};

/* resource of RESOURCE_MMAP_INFO. */
enum {
    NEURON_RESOURCE_SEMAPHORE = 0,
    NEURON_RESOURCE_ALL = 1,
    NEURON_RESOURCE_SBUF = 2,
    NEURON_RESOURCE_DMEM = 3
};

/* nq_dev_type. */
enum {
    NEURON_NQ_DEVICE_NC = 0,
    NEURON_NQ_DEVICE_TOPSP = 1
};

/* nq_type. */
enum {
    NEURON_NQ_TRACE = 0,
    NEURON_NQ_NOTIFY = 1,
    NEURON_NQ_EVENT = 2,
    NEURON_NQ_ERROR = 3,
    NEURON_NQ_TRACE_DMA = 4,
    NEURON_NQ_THROTTLE = 5
};

/* pod_type. */
enum {
    NEURON_POD_TYPE_NONE = 0,
    NEURON_POD_TYPE_P2P = 1,
    NEURON_POD_TYPE_SWITCH = 2
};

/* state of a pod. */
enum {
    NEURON_POD_STATE_NOT_STARTED = 0,
    NEURON_POD_STATE_IN_PROGRESS = 1,
    NEURON_POD_STATE_ULTRASERVER = 2,
    NEURON_POD_STATE_FAILED = 3,
    NEURON_POD_STATE_SINGLE_NODE = 4
};

/* mode of a pod. */
enum {
    NEURON_ULTRASERVER_UNSET = 0,
    NEURON_ULTRASERVER_X4 = 1,
    NEURON_ULTRASERVER_X2H = 2,
    NEURON_ULTRASERVER_X2V = 3,
    NEURON_ULTRASERVER_X1 = 4
};

/* state of CINIT_SET_STATE. */
enum {
    NEURON_CINIT_STARTED = 1,
    NEURON_CINIT_COMPLETED = 2,
    NEURON_CINIT_INVALID = 3
};

/* feature_flags1 of DRIVER_INFO_GET. */
#define NEURON_FEATURE_DMABUF (UINT64_C(1) << 0)
#define NEURON_FEATURE_ASYNC_DMA (UINT64_C(1) << 1)
#define NEURON_FEATURE_BATCH_DMAQ_INIT (UINT64_C(1) << 2)
#define NEURON_FEATURE_BIG_CORE_MAPS (UINT64_C(1) << 3)
#define NEURON_FEATURE_MEM_ALLOC_TYPE (UINT64_C(1) << 4)
#define NEURON_FEATURE_HBM_SCRUB (UINT64_C(1) << 5)
#define NEURON_FEATURE_MEM_ALLOC64 (UINT64_C(1) << 6)
#define NEURON_FEATURE_CONTIGUOUS_SCRATCHPAD (UINT64_C(1) << 7)
#define NEURON_FEATURE_ZEROCOPY (UINT64_C(1) << 8)

/* apps_info_flags: what DEVICE_GET_ALL_APPS_INFO fills. */
#define NEURON_APPS_INFO_LOCKS 1
#define NEURON_APPS_INFO_MEMORY 2

/* ---- Descriptors of a ring that a process builds ---- */

/*
 * A copy is a TX descriptor, which reads, and an RX descriptor, which writes, in the same slots of a queue's two
 * rings. Host addresses carry the host tag, as MEM_GET_PA tells them.
 */
struct neuron_descriptor {
    uint32_t word0; /* NEURON_DESC_* and the length; a length of 0 is 65536 */
    uint32_t word1; /* TX: NEURON_DESC_TX_WORD1; RX: 0 */
    uint64_t address; /* TX: the source; RX: the destination */
};

#define NEURON_DESC_LENGTH_MASK UINT32_C(0xffff)
#define NEURON_DESC_MAX_BYTES 65536
/* Lap of the ring: 1 for the first one after DMA_QUEUE_INIT, then 2, 3, 0, 1, ... */
#define NEURON_DESC_RING_ID(lap) (((uint32_t)(lap) & 3) << 24)
/* TX: first and last of a packet. A copy of one descriptor is both. */
#define NEURON_DESC_TX_FIRST (UINT32_C(1) << 26)
#define NEURON_DESC_TX_LAST (UINT32_C(1) << 27)
#define NEURON_DESC_TX_DMB (UINT32_C(1) << 30)
#define NEURON_DESC_TX_WORD1 UINT32_C(0x01080003)
/* In word 1 of TX: what is written later stays later, a marker behind data for one. */
#define NEURON_DESC_TX_WRITE_BARRIER (UINT32_C(1) << 26)
/* Descriptors of a ring: at least, at most; a multiple of 16, and a power of two for DMA_ACK_COMPLETED. */
#define NEURON_RING_MIN 32
#define NEURON_RING_MAX 16777200

/* ---- Memory: allocation, lookup, mapping ---- */

/* MEM_ALLOC: 32 bytes. */
struct neuron_mem_alloc {
    uint64_t size; /* in: bytes; the driver rounds up to the page size */
    uint32_t host_memory; /* in: non-zero asks for host memory */
    uint32_t dram_channel; /* in: HBM index; checked against the channel count even for host memory */
    uint32_t dram_region; /* in: forced to 0 on devices with one region, which is all of them */
    uint32_t nc_id; /* in: core 0..7; selects the copy engine and the accounting core */
    uint64_t mem_handle; /* in: user address where the u64 handle is written */
};

/* MEM_ALLOC_V2: 40 bytes. */
struct neuron_mem_alloc_v2 {
    uint64_t size; /* in: bytes; the driver rounds up to the page size */
    uint64_t align; /* in: bytes; 0 and anything up to the page size mean "page". Host memory: only 0 */
    uint32_t host_memory; /* in: non-zero asks for host memory */
    uint32_t dram_channel; /* in: HBM index; checked even for host memory */
    uint32_t dram_region; /* in: forced to 0 on devices with one region */
    uint32_t nc_id; /* in: core 0..7; selects the copy engine and the accounting core */
    uint64_t mem_handle; /* in: user address where the u64 handle is written */
};

/* MEM_ALLOC_V2MT: 48 bytes. */
struct neuron_mem_alloc_v2_mem_type {
    uint64_t size; /* in: bytes; the driver rounds up to the page size */
    uint64_t align; /* in: bytes; 0 and anything up to the page size mean "page". Host memory: only 0 */
    uint32_t host_memory; /* in: non-zero asks for host memory */
    uint32_t dram_channel; /* in: HBM index; checked even for host memory */
    uint32_t dram_region; /* in: forced to 0 on devices with one region */
    uint32_t nc_id; /* in: core 0..7; selects the copy engine and the accounting core */
    uint32_t mem_type; /* in: category (NEURON_CATEGORY_*); stored as given, even out of range */
    uint8_t _pad[4];
    uint64_t mem_handle; /* in: user address where the u64 handle is written */
};

/* MEM_ALLOC_V2MT64: 56 bytes. */
struct neuron_mem_alloc_v2_mem_type64 {
    uint64_t size; /* in: bytes; the driver rounds up to the page size */
    uint64_t align; /* in: bytes; 0 and anything up to the page size mean "page". Host memory: only 0 */
    uint32_t host_memory; /* in: non-zero asks for host memory */
    uint32_t dram_channel; /* in: HBM index; checked even for host memory */
    uint32_t dram_region; /* in: forced to 0 on devices with one region */
    uint32_t nc_id; /* in: core 0..7; selects the copy engine and the accounting core */
    uint32_t mem_type; /* in: category (NEURON_CATEGORY_*); stored as given, even out of range */
    uint8_t _pad[4];
    uint64_t mem_handle; /* in: user address where the u64 handle is written */
    uint32_t pad; /* The word that makes this form longer; never read */
    uint8_t _tail[4];
};

/* MEM_FREE: 8 bytes. */
struct neuron_mem_free {
    uint64_t mem_handle; /* in: handle; one reference is dropped */
};

/* MEM_GET_PA: 16 bytes. */
struct neuron_mem_get_pa {
    uint64_t mem_handle; /* in: handle */
    /* in: user address where the u64 physical address is written; host chunks carry the host tag */
    uint64_t pa;
};

/* MEM_GET_INFO: 24 bytes. */
struct neuron_mem_get_info {
    uint64_t mem_handle; /* in: handle */
    uint64_t mmap_offset; /* in: user address for the u64 mmap offset (equal to the pa); 0 skips it */
    uint64_t pa; /* in: user address for the u64 physical address; always written, and first */
};

/* MEM_GET_EXTENDED_INFO: 48 bytes. */
struct neuron_mem_get_extended_info {
    /* in, out: handle. The C driver overwrites it with a kernel pointer: do not read it back */
    uint64_t mem_handle;
    uint32_t version; /* out: 0. Input ignored */
    uint32_t host_memory; /* out: 1 on the host, 0 on the device */
    uint64_t mmap_offset; /* out: mmap offset, equal to the pa */
    uint64_t pa; /* out: physical address; host chunks carry the host tag */
    uint64_t pid; /* out: process (tgid) that allocated */
    uint64_t size; /* out: size in bytes, as rounded */
};

/* MEM_MC_GET_INFO: 24 bytes. */
struct neuron_mem_get_mc_mmap_info {
    uint64_t pa; /* in: any address inside a chunk; with the host tag for host chunks */
    uint64_t mmap_offset; /* out: start of the chunk */
    uint64_t size; /* out: size of the chunk in bytes */
};

/* MEM_MC_GET_INFO_V2: 32 bytes. */
struct neuron_mem_get_mc_mmap_info_v2 {
    uint64_t pa; /* in: any address inside a chunk; with the host tag for host chunks */
    uint64_t mmap_offset; /* out: start of the chunk */
    uint64_t size; /* out: size of the chunk in bytes */
    uint64_t mem_handle; /* out: handle; published now if the chunk had none */
};

/* DUMP_MEM_CHUNKS: 24 bytes. */
struct neuron_dump_mem_chunks {
    uint32_t hbm_index; /* in: HBM index; not range checked (unknown: no entries, success) */
    uint32_t num_entries_in; /* in: room in data, in entries */
    uint32_t num_entries_out; /* out: how many chunks there are. More than fit: EAGAIN and no entry copied */
    uint8_t _pad[4];
    uint64_t data; /* in: user address of an array of struct neuron_mem_chunk_entry */
};

/* One entry of what DUMP_MEM_CHUNKS lists: 24 bytes. */
struct neuron_mem_chunk_entry {
    uint64_t pa; /* out: device physical address */
    uint64_t size; /* out: bytes */
    uint32_t mem_type; /* out: category as it was given (NEURON_CATEGORY_*) */
    uint8_t _pad[4];
};

/* RESOURCE_MMAP_INFO: 32 bytes. */
struct neuron_resource_mmap_info {
    uint32_t block; /* in: NEURON_BLOCK_* */
    uint32_t block_id; /* in: index of the block */
    uint32_t resource; /* in: NEURON_RESOURCE_* */
    uint8_t _pad[4];
    uint64_t offset; /* out: mmap offset (a key, not always an address) */
    uint64_t size; /* out: bytes; mmap must ask for exactly this much */
};

/* DMABUF_FD: 24 bytes. */
struct neuron_dmabuf_fd {
    uint64_t va; /* in: user address inside a mapping of the calling process */
    uint64_t size; /* in: bytes */
    uint64_t fd; /* in: user address where the i32 file descriptor is written */
};

/* ---- Copies and fills. Offsets are bytes from the start of a block ---- */

/* MEM_COPY: 32 bytes. */
struct neuron_mem_copy {
    uint64_t src_mem_handle; /* in: source handle */
    uint64_t dst_mem_handle; /* in: destination handle */
    uint32_t size; /* in: bytes */
    uint32_t src_offset; /* in: offset in the source chunk */
    uint32_t dst_offset; /* in: offset in the destination chunk */
    uint8_t _pad[4];
};

/* MEM_COPY64: 40 bytes. */
struct neuron_mem_copy64 {
    uint64_t src_mem_handle; /* in: source handle */
    uint64_t dst_mem_handle; /* in: destination handle */
    uint64_t size; /* in: bytes */
    uint64_t src_offset; /* in: offset in the source chunk */
    uint64_t dst_offset; /* in: offset in the destination chunk */
};

/* MEM_COPY_ASYNC: 48 bytes. */
struct neuron_mem_copy_async {
    uint64_t src_mem_handle; /* in: source handle */
    uint64_t dst_mem_handle; /* in: destination handle */
    uint32_t size; /* in: bytes */
    uint32_t src_offset; /* in: offset in the source chunk */
    uint32_t dst_offset; /* in: offset in the destination chunk */
    uint8_t _pad[4];
    uint64_t host_prefetch_addr; /* in: user address whose pages are faulted in while the DMA runs; 0 = none */
    uint32_t pwait_handle; /* in: wait handle of the previous transfer (NEURON_WAIT_*) */
    uint32_t wait_handle; /* out: wait handle of this transfer; only an output on success */
};

/* MEM_COPY_ASYNC64: 56 bytes. */
struct neuron_mem_copy_async64 {
    uint64_t src_mem_handle; /* in: source handle */
    uint64_t dst_mem_handle; /* in: destination handle */
    uint64_t size; /* in: bytes */
    uint64_t src_offset; /* in: offset in the source chunk */
    uint64_t dst_offset; /* in: offset in the destination chunk */
    uint64_t host_prefetch_addr; /* in: user address whose pages are faulted in while the DMA runs; 0 = none */
    uint32_t pwait_handle; /* in: wait handle of the previous transfer (NEURON_WAIT_*) */
    uint32_t wait_handle; /* out: wait handle of this transfer; only an output on success */
};

/* MEM_COPY_ASYNC_WAIT: 24 bytes. */
struct neuron_mem_copy_async_wait {
    uint64_t src_mem_handle; /* in: source handle; with the other one it only selects the ring */
    uint64_t dst_mem_handle; /* in: destination handle */
    uint32_t pwait_handle; /* in: the transfer to wait for, 1 or 2 (NEURON_WAIT_*) */
    uint8_t _pad[4];
};

/* MEM_BUF_COPY: 32 bytes. */
struct neuron_mem_buf_copy {
    uint64_t mem_handle; /* in: handle */
    uint64_t buffer; /* in: user address */
    uint32_t size; /* in: bytes */
    uint32_t offset; /* in: offset in the chunk */
    uint32_t copy_to_mem_handle; /* in: non-zero writes into the chunk, zero reads from it */
    uint8_t _pad[4];
};

/* MEM_BUF_COPY64, MEM_BUF_ZEROCOPY64_OLD: 40 bytes. */
struct neuron_mem_buf_copy64 {
    uint64_t mem_handle; /* in: handle */
    uint64_t buffer; /* in: user address */
    uint64_t size; /* in: bytes */
    uint64_t offset; /* in: offset in the chunk */
    uint32_t copy_to_mem_handle; /* in: non-zero writes into the chunk, zero reads from it */
    uint8_t _pad[4];
};

/* MEMSET: 24 bytes. */
struct neuron_memset {
    uint64_t mem_handle; /* in: handle */
    uint64_t offset; /* in: offset in the chunk; 64 bits in this form too */
    uint32_t value; /* in: the fill byte; only the low 8 bits count */
    uint32_t size; /* in: bytes */
};

/* MEMSET64: 32 bytes. */
struct neuron_memset64 {
    uint64_t mem_handle; /* in: handle */
    uint64_t offset; /* in: offset in the chunk */
    uint32_t value; /* in: the fill byte; only the low 8 bits count */
    uint8_t _pad[4];
    uint64_t size; /* in: bytes */
};

/* MEM_BUF_ZEROCOPY64: 48 bytes. */
struct neuron_mem_buf_copy64_zc {
    uint64_t mem_handle; /* in: handle */
    uint64_t buffer; /* in: user address */
    uint64_t size; /* in: bytes */
    uint64_t offset; /* in: offset in the chunk */
    uint32_t is_copy_to_device; /* in: non-zero writes into the chunk */
    /* in: up to this many bytes may be written through BAR4 by the CPU; 0 = never */
    uint32_t bar4_wr_threshold;
    int32_t h2t_qid; /* in: H2T queue of the core, or -1 for its default (NEURON_DEFAULT_H2T_QUEUE) */
    uint32_t dummy; /* Ignored */
};

/* MEM_BUF_ZEROCOPY64_BATCHES: 32 bytes. */
struct neuron_mem_buf_copy64_zc_batches {
    uint64_t sequence_num; /* in: 0 = synchronous; otherwise names an asynchronous request (driver 2.27.4 on) */
    uint64_t batches_ptr; /* in: user address of an array of struct neuron_memcpy_batch */
    uint32_t num_batches; /* in: batches, at least 1 */
    uint16_t is_copy_to_device; /* in: non-zero writes into the chunks */
    uint8_t _pad[2];
    int32_t h2t_qid; /* in: H2T queue of the core, or -1 for its default */
    uint16_t flags; /* in: ignored */
    uint8_t _tail[2];
};

/* One batch of MEM_BUF_ZEROCOPY64_BATCHES: 40 bytes. */
struct neuron_memcpy_batch {
    uint64_t mem_handle; /* in: handle */
    uint64_t mem_handle_offset; /* in: added to the offset of each operation */
    uint64_t ops_ptr; /* in: user address of an array of struct neuron_batch_op */
    uint32_t num_ops; /* in: operations, at least 1 */
    uint16_t bar4_wr_threshold; /* in: as in struct neuron_mem_buf_copy64_zc; all operations must qualify */
    uint16_t flags; /* in: 0 */
    uint64_t context; /* in: the caller's; handed back with an asynchronous completion */
};

/* One operation of a batch: 24 bytes. */
struct neuron_batch_op {
    uint64_t offset; /* in: offset, before the batch's own offset is added */
    uint64_t size; /* in: bytes, not 0 */
    uint64_t buffer; /* in: user address, not 0 */
};

/* PROGRAM_ENGINE: 24 bytes. */
struct neuron_program_engine {
    uint64_t dst; /* in: device address */
    uint64_t buffer; /* in: user address */
    uint32_t size; /* in: bytes */
    uint32_t offset; /* in: added to both dst and buffer */
};

/* PROGRAM_ENGINE_NC: 32 bytes. */
struct neuron_program_engine_nc {
    uint32_t nc_id; /* in: the core whose engine carries the write */
    uint8_t _pad[4];
    uint64_t dst; /* in: device address */
    uint64_t buffer; /* in: user address */
    uint32_t size; /* in: bytes */
    uint32_t offset; /* in: added to both dst and buffer */
};

/* PROGRAM_ENGINE_NC64: 40 bytes. */
struct neuron_program_engine_nc64 {
    uint32_t nc_id; /* in: the core whose engine carries the write */
    uint8_t _pad[4];
    uint64_t dst; /* in: device address */
    uint64_t buffer; /* in: user address */
    uint64_t size; /* in: bytes */
    uint64_t offset; /* in: added to both dst and buffer */
};

/* ---- DMA engines, queues, descriptors, H2T rings ---- */

/* DMA_ENG_INIT: 4 bytes. */
struct neuron_dma_eng_init {
    uint32_t eng_id; /* Not read */
};

/* DMA_ENG_SET_STATE: 8 bytes. */
struct neuron_dma_eng_set_state {
    uint32_t eng_id; /* in: engine */
    uint32_t state; /* in: 0 disable, 2 normal, 3 abort */
};

/* DMA_ENG_GET_STATE: 16 bytes. */
struct neuron_dma_eng_get_state {
    uint32_t eng_id; /* in: engine */
    uint8_t _pad[4];
    uint64_t state; /* in: user address where a struct neuron_dma_eng_state is written */
};

/* What DMA_ENG_GET_STATE writes: 20 bytes. */
struct neuron_dma_eng_state {
    uint32_t revision_id; /* out: 4 */
    uint32_t max_queues; /* out: 16 */
    uint32_t num_queues; /* out: 16 */
    uint32_t tx_state; /* out: state of the TX (M2S) half */
    uint32_t rx_state; /* out: state of the RX (S2M) half */
};

/* DMA_QUEUE_INIT: 48 bytes. */
struct neuron_dma_queue_init {
    uint32_t eng_id; /* in: engine */
    uint32_t qid; /* in: queue */
    uint32_t tx_desc_count; /* in: TX ring length, descriptors */
    uint32_t rx_desc_count; /* in: RX ring length, descriptors */
    uint64_t tx_handle; /* in: chunk of the TX ring; 0 = none bound */
    uint64_t rx_handle; /* in: chunk of the RX ring; 0 = none bound */
    uint64_t rxc_handle; /* in: chunk of the completion ring; anything but 0 is refused */
    uint32_t axi_port; /* in: non-zero adds the port-1 base, which is 0 on all generations */
    uint8_t _pad[4];
};

/* DMA_QUEUE_INIT_BATCH: 12296 bytes. */
struct neuron_dma_queue_init_batch {
    uint32_t count; /* in: entries used; at most 255 (256 and more: E2BIG) */
    uint8_t _pad[4];
    /* in: run in order; the first failure stops, earlier ones stay */
    struct neuron_dma_queue_init entries[256];
};

/* DMA_QUEUE_RELEASE: 8 bytes. */
struct neuron_dma_queue_release {
    uint32_t eng_id; /* in: engine */
    uint32_t qid; /* in: queue */
};

/* DMA_QUEUE_COPY_START: 16 bytes. */
struct neuron_dma_queue_copy_start {
    uint32_t eng_id; /* in: engine */
    uint32_t qid; /* in: queue */
    uint32_t tx_desc_count; /* in: descriptors for TX; 0 leaves TX alone */
    uint32_t rx_desc_count; /* in: descriptors for RX, not 0 */
};

/* DMA_ACK_COMPLETED: 12 bytes. */
struct neuron_dma_ack_completed {
    uint32_t eng_id; /* in: engine */
    uint32_t qid; /* in: queue */
    uint32_t count; /* in: descriptors to acknowledge, RX then TX */
};

/* DMA_QUEUE_GET_STATE: 24 bytes. */
struct neuron_dma_queue_get_state {
    uint32_t eng_id; /* in: engine */
    uint32_t qid; /* in: queue */
    uint64_t tx; /* in: user address where TX's struct neuron_dma_queue_state is written */
    uint64_t rx; /* in: user address where RX's struct neuron_dma_queue_state is written */
};

/* What DMA_QUEUE_GET_STATE writes, once for each direction: 48 bytes. */
struct neuron_dma_queue_state {
    uint32_t hw_status; /* out: ring status register */
    uint32_t sw_status; /* out: the driver's shadow: 1 disabled, 2 enabled, 3 aborted */
    uint64_t base_addr; /* out: ring base, low 6 bits cleared */
    uint32_t length; /* out: ring length, 24 bits */
    uint32_t head_pointer; /* out: head pointer, 24 bits */
    uint32_t tail_pointer; /* out: tail pointer, 24 bits */
    uint8_t _pad[4];
    uint64_t completion_base_addr; /* out: completion ring base, unmasked */
    uint32_t completion_head; /* out: completion head, 24 bits */
    uint8_t _tail[4];
};

/* DMA_COPY_DESCRIPTORS: 32 bytes. */
struct neuron_dma_copy_descriptors {
    uint64_t mem_handle; /* in: chunk of the ring */
    uint64_t buffer; /* in: user address of the descriptors */
    uint32_t num_descs; /* in: descriptors; 0 is success */
    uint32_t offset; /* in: bytes from the start of the chunk */
    uint32_t queue_type; /* in: NEURON_QUEUE_*; only TX and RX are served */
    uint8_t _pad[4];
};

/* DMA_COPY_DESCRIPTORS64: 40 bytes. */
struct neuron_dma_copy_descriptors64 {
    uint64_t mem_handle; /* in: chunk of the ring */
    uint64_t buffer; /* in: user address of the descriptors */
    uint32_t num_descs; /* in: descriptors; 0 is success */
    uint8_t _pad[4];
    uint64_t offset; /* in: bytes from the start of the chunk */
    uint32_t queue_type; /* in: NEURON_QUEUE_*; only TX and RX are served */
    uint8_t _tail[4];
};

/* DMA_DESCRIPTOR_COPYOUT: 32 bytes. */
struct neuron_dma_descriptor_copyout {
    uint32_t eng_id; /* in: engine */
    uint32_t qid; /* in: queue */
    uint32_t queue_type; /* in: 0 TX, 1 RX (NEURON_QUEUE_*) */
    uint32_t start_index; /* in: first descriptor */
    uint32_t count; /* in: descriptors, not 0; past the ring's end: EFBIG */
    uint8_t _pad[4];
    uint64_t buffer; /* in: user address that receives count * 16 bytes */
};

/* DMA_QUIESCE_QUEUES: 264 bytes. */
struct neuron_dma_quiesce_queues {
    uint32_t nc_id; /* Not read */
    uint32_t engine_count; /* Not read */
    uint32_t queue_mask[64]; /* Not read */
};

/* H2T_DMA_ALLOC_QUEUES: 20 bytes. */
struct neuron_h2t_dma_alloc_queues {
    uint16_t sz; /* in: size of this struct; not checked */
    uint16_t nc_id; /* in: core */
    uint16_t copy_queue_cnt; /* in: copy rings wanted */
    uint16_t service_queue_cnt; /* in: service rings wanted; together below 16 */
    uint32_t copy_queue_bmap; /* out: bit n: queue n is a copy ring of this call */
    uint32_t service_queue_bmap; /* out: bit n: queue n is a service ring of this call */
    uint32_t copy_default_queue; /* out: the core's default queue */
};

/* H2T_DMA_FREE_QUEUES: 8 bytes. */
struct neuron_h2t_dma_free_queues {
    uint16_t sz; /* in: size of this struct */
    uint8_t nc_id; /* in: core */
    uint8_t fill0; /* Ignored */
    uint32_t queue_bmap; /* in: queues to release, bits 0..15 */
};

/* One queue of GET_ASYNC_H2T_DMA_COMPL_QUEUES: 16 bytes. */
struct neuron_compl_queue_mmap {
    uint64_t mmap_offset; /* out: mmap offset, the physical address of the queue's chunk */
    uint64_t mmap_size; /* out: bytes */
};

/* GET_ASYNC_H2T_DMA_COMPL_QUEUES: 264 bytes. */
struct neuron_get_async_h2t_dma_compl_queues {
    uint32_t nc_id; /* in: core */
    uint32_t qid_bitmap; /* in: queues asked for */
    struct neuron_compl_queue_mmap queues[16]; /* out: by queue number; zero where not asked for */
};

/* Start of a mapped completion queue: 16 bytes. */
struct neuron_completion_header {
    uint32_t capacity; /* Entries */
    uint32_t head; /* Next entry to read: written by the reader only */
    uint32_t tail; /* Next entry to write: written by the driver only, after the entry */
    uint8_t _pad[4];
};

/* One entry behind it: 24 bytes. */
struct neuron_completion_entry {
    int64_t compl_ret; /* 0, or the negative errno of its first failure */
    uint64_t context; /* The context word of the batch that ended it */
    uint64_t sequence_num; /* The request's number */
};

/* ---- What the device, the driver and the machine are ---- */

/* DEVICE_BASIC_INFO: 8 bytes. */
struct neuron_device_basic_info {
    uint32_t architecture; /* out: NEURON_ARCH_* */
    uint32_t revision; /* out: PCI revision id */
};

/* DRIVER_INFO_GET, DRIVER_INFO_SET: 24 bytes. */
struct neuron_device_driver_info {
    uint32_t architecture; /* out: NEURON_ARCH_* */
    uint32_t revision; /* out: PCI revision id */
    uint32_t version; /* out: 0 */
    uint32_t size; /* out: 24 */
    uint64_t feature_flags1; /* out: NEURON_FEATURE_* */
};

/* COMPATIBLE_VERSION: 8 bytes. */
struct neuron_compatible_version {
    uint32_t max; /* out: newest runtime id the driver works with */
    uint32_t min; /* out: oldest */
};

/* DEVICE_INFO: 80 bytes. */
struct neuron_device_info {
    uint32_t architecture; /* out: NEURON_ARCH_* */
    uint32_t revision; /* out: PCI revision id */
    uint32_t connected_device_count; /* out: neighbours, at most 8 */
    uint32_t connected_devices[8]; /* out: device indices of the neighbours; 0 past the count */
    uint8_t _pad[4];
    uint64_t bar_address[2]; /* out: opaque bases of BAR0 and BAR2 for struct neuron_bar_rw addresses */
    uint64_t bar_size[2]; /* out: bytes of BAR0 and BAR2 (0 where there is none) */
};

/* DEVICE_BDF: 8 bytes. */
struct neuron_device_bdf {
    uint32_t bus; /* out: PCI bus */
    uint8_t slot; /* out: PCI slot */
    uint8_t func; /* out: PCI function */
    uint8_t _pad[2];
};

/* DEVICE_BDF_EXT: 16 bytes. */
struct neuron_device_bdf_ext {
    uint32_t nd_index; /* in: device, relative to the index of the opened one */
    uint32_t domain; /* out: PCI domain */
    uint32_t bus; /* out: PCI bus */
    uint8_t slot; /* out: PCI slot */
    uint8_t func; /* out: PCI function */
    uint8_t _pad[2];
};

/* HOST_DEVICE_ID_TO_RID_MAP: 260 bytes. */
struct neuron_host_device_id_to_rid_map {
    uint32_t count; /* out: devices found when the driver was loaded */
    uint32_t map[64]; /* out: routing id by device index */
};

/* GET_LOGICAL_TO_PHYSICAL_NC_MAP: 16 bytes. */
struct neuron_logical_to_physical_nc_map {
    uint64_t map; /* in: user address of the output */
    uint32_t max_map_entries; /* in: room, in entries; at most 128 */
    uint32_t mapping_version; /* in: 0 */
};

/* What GET_LOGICAL_TO_PHYSICAL_NC_MAP writes behind a uint32_t count: 8 bytes. */
struct neuron_nc_map_entry {
    uint32_t device_id; /* out: device index */
    uint32_t device_nc_idx; /* out: core on that device */
};

/* DEVICE_GET_ALL_APPS_INFO: 16 bytes. */
struct neuron_get_apps_info {
    uint16_t apps_info_flags; /* in: what to fill (NEURON_APPS_INFO_LOCKS, NEURON_APPS_INFO_MEMORY) */
    uint8_t _pad[2];
    uint32_t capacity; /* in: room, in entries */
    uint32_t size; /* out: entries written */
    uint8_t _tail[4];
};

/* One process, behind the header of DEVICE_GET_ALL_APPS_INFO: 152 bytes. */
struct neuron_app_info {
    int32_t pid; /* out: process (tgid) */
    uint8_t nc_lock_map; /* out: cores the process has locked, one bit each */
    uint8_t uuid[4][32]; /* out: model identities of the locks */
    uint8_t _pad[3];
    uint64_t host_mem_size; /* out: bytes of host memory; 0 unless asked for */
    uint64_t device_mem_size; /* out: bytes of device memory; 0 unless asked for */
};

/* POD_INFO: 260 bytes. */
struct neuron_pod_info {
    uint16_t sz; /* in: 260, checked */
    uint8_t pod_type; /* out: NEURON_POD_TYPE_* */
    uint8_t id[256]; /* out: identity of the pod */
    uint8_t pod_sz; /* out: nodes in the pod */
};

/* POD_STATUS: 268 bytes. */
struct neuron_pod_status {
    uint16_t sz; /* in: 268, checked */
    uint8_t id[256]; /* out: identity of the pod */
    uint8_t _pad[2];
    uint32_t state; /* out: NEURON_POD_STATE_* */
    uint8_t pod_type; /* out: NEURON_POD_TYPE_* */
    uint8_t pod_sz; /* out: nodes in the pod */
    int8_t node_id; /* out: this node, -1 when alone */
    uint8_t _tail[1];
};

/* POD_STATUS_V2: 276 bytes. */
struct neuron_pod_status_v2 {
    uint16_t sz; /* in: 276, checked */
    uint8_t id[256]; /* out: identity of the pod */
    uint8_t _pad[2];
    uint32_t state; /* out: NEURON_POD_STATE_* */
    uint8_t pod_type; /* out: NEURON_POD_TYPE_* */
    uint8_t pod_sz; /* out: nodes in the pod */
    int8_t node_id; /* out: this node, -1 when alone */
    uint8_t _hole[1];
    uint32_t mode; /* out: NEURON_ULTRASERVER_* */
    uint32_t modes_supported; /* out: modes the platform can take (encoding not established) */
};

/* POD_CTRL: 16 bytes. */
struct neuron_pod_ctrl {
    uint16_t sz; /* in: 16, checked */
    uint8_t _pad[2];
    uint32_t ctrl; /* in: what to do (values not established) */
    uint32_t timeout; /* in: how long to wait (unit not established) */
    uint32_t state; /* out: NEURON_POD_STATE_* */
};

/* POD_CTRL_V2: 20 bytes. */
struct neuron_pod_ctrl_v2 {
    uint16_t sz; /* in: 20, checked */
    uint8_t _pad[2];
    uint32_t ctrl; /* in: what to do (values not established) */
    uint32_t timeout; /* in: how long to wait (unit not established) */
    uint32_t state; /* out: NEURON_POD_STATE_* */
    uint32_t mode; /* NEURON_ULTRASERVER_*; direction not established */
};

/* GET_VA_PLACEMENT: 16 bytes. */
struct neuron_get_va_placement {
    uint8_t bytes[16]; /* Not established */
};

/* ---- Reset, cores, notifications, and the rest ---- */

/* NC_RESET: 8 bytes. */
struct neuron_device_reset {
    uint32_t nc_map; /* in: cores to reset; all ones = the whole device (NEURON_DEVICE_MAP) */
    uint32_t request_id; /* out: id to wait for, the caller's tgid */
};

/* NC_RESET_READY: 8 bytes. */
struct neuron_device_ready {
    uint32_t request_id; /* in: from struct neuron_device_reset */
    /* out: 0 done, 1 failed or unknown id, -EINTR on a fatal signal. The ioctl itself returns 0 */
    int32_t result;
};

/* CINIT_SET_STATE: 12 bytes. */
struct neuron_cinit_set {
    uint32_t nc_id; /* in: core */
    uint32_t state; /* in: NEURON_CINIT_* to enter */
    uint32_t new_state; /* out: NEURON_CINIT_* afterwards */
};

/* NC_MODEL_STARTED_COUNT: 16 bytes. */
struct neuron_nc_model_started_count {
    uint32_t nc_id; /* in: core */
    uint8_t _pad[4];
    uint64_t started_count; /* out: always 0 on V2 and later */
};

/* SEMAPHORE_INCREMENT, SEMAPHORE_DECREMENT, SEMAPHORE_READ, SEMAPHORE_WRITE: 12 bytes. */
struct neuron_semaphore {
    uint32_t nc_id; /* in: core */
    uint32_t semaphore_index; /* in: 0..255 */
    uint32_t value; /* in for write, increment, decrement; out for read */
};

/* EVENT_SET, EVENT_GET: 12 bytes. */
struct neuron_event {
    uint32_t nc_id; /* in: core */
    uint32_t event_index; /* in: 0..255 */
    uint32_t value; /* in for set, out for get */
};

/* BAR_READ, BAR_WRITE: 32 bytes. */
struct neuron_bar_rw {
    uint32_t bar; /* in: BAR number */
    uint8_t _pad[4];
    uint64_t address; /* in: user address of count u64 addresses (BAR 0), or one address (others) */
    uint64_t data; /* in: user address of count u32 words */
    uint32_t count; /* in: words */
    uint8_t _tail[4];
};

/* POST_METRIC: 16 bytes. */
struct neuron_post_metric {
    uint64_t data; /* in: user address of the metric */
    uint32_t data_size; /* in: bytes */
    uint8_t _pad[4];
};

/* READ_HW_COUNTERS: 24 bytes. */
struct neuron_read_hw_counters {
    uint64_t address; /* in: user address of the counters' addresses */
    uint64_t data; /* in: user address that receives the values */
    uint32_t count; /* in: counters */
    uint8_t _pad[4];
};

/* NOTIFICATIONS_INIT_V1: 24 bytes. */
struct neuron_notifications_init_v1 {
    uint32_t nc_id; /* in: core */
    uint32_t nq_type; /* in: NEURON_NQ_* */
    uint32_t engine_index; /* in: engine of the core */
    uint32_t size; /* in: bytes */
    uint64_t mmap_offset; /* out: mmap offset */
};

/* NOTIFICATIONS_INIT_V2: 48 bytes. */
struct neuron_notifications_init_v2 {
    uint32_t nq_dev_id; /* in: core or TopSP */
    uint32_t nq_dev_type; /* in: NEURON_NQ_DEVICE_* */
    uint32_t nq_type; /* in: NEURON_NQ_* */
    uint32_t engine_index; /* in: engine */
    uint32_t size; /* in: bytes, a power of two */
    uint32_t on_host_memory; /* in: non-zero puts the ring in host memory */
    uint32_t dram_channel; /* in: HBM index */
    uint32_t dram_region; /* in: region */
    uint64_t mmap_offset; /* out: mmap offset; all ones for device memory */
    uint64_t mem_handle; /* out: handle */
};

/* NOTIFICATIONS_INIT_WITH_REALLOC_V2: 56 bytes. */
struct neuron_notifications_init_with_realloc_v2 {
    uint32_t nq_dev_id; /* in: core or TopSP */
    uint32_t nq_dev_type; /* in: NEURON_NQ_DEVICE_* */
    uint32_t nq_type; /* in: NEURON_NQ_* */
    uint32_t engine_index; /* in: engine */
    uint32_t size; /* in: bytes, a power of two */
    uint32_t on_host_memory; /* in: non-zero puts the ring in host memory */
    uint32_t dram_channel; /* in: HBM index */
    uint32_t dram_region; /* in: region */
    uint32_t force_alloc_mem; /* in: non-zero asks for new memory (our reading of the name) */
    uint8_t _pad[4];
    uint64_t mmap_offset; /* out: mmap offset; all ones for device memory */
    uint64_t mem_handle; /* out: handle */
};

/* ACQUIRE_NEURON_DS, RELEASE_NEURON_DS: 24 bytes. */
struct neuron_ds_info {
    int32_t pid; /* in: 0 = the caller's own data store, else that process's */
    uint8_t _pad[4];
    uint64_t mmap_offset; /* out: mmap offset */
    uint32_t size; /* out: bytes (NEURON_DATASTORE_SIZE) */
    uint8_t _tail[4];
};

/* CRWL_READER_ENTER, CRWL_READER_EXIT, CRWL_WRITER_ENTER, CRWL_WRITER_DOWNGRADE: 36 bytes. */
struct neuron_crwl {
    uint32_t nc_id; /* in: core */
    uint8_t uuid[32]; /* in: identity of the model */
};

/* CRWL_NC_RANGE_MARK, CRWL_NC_RANGE_UNMARK: 24 bytes. */
struct neuron_crwl_nc_map {
    uint32_t nc_count; /* in: cores wanted */
    uint32_t start; /* in: first core of the range, relative to the opened device */
    uint32_t end; /* in: last core, inclusive */
    uint32_t max_nc_available; /* out: longest free run found */
    uint64_t bitmap; /* out for mark: the cores, one bit each */
};

/* CRWL_NC_RANGE_MARK_EXT0, CRWL_NC_RANGE_UNMARK_EXT0: 80 bytes. */
struct neuron_crwl_nc_map_ext {
    uint32_t nc_count; /* in: cores wanted */
    uint32_t start; /* in: first core of the range, relative to the opened device */
    uint32_t end; /* in: last core, inclusive */
    uint32_t max_nc_available; /* out: longest free run found */
    uint64_t bitmap[8]; /* out for mark: the cores, one bit each */
};

/* PRINTK: 16 bytes. */
struct neuron_printk {
    uint64_t buffer; /* in: user address of the text; its last byte is NUL */
    uint32_t size; /* in: bytes with the NUL, 1..512 (NEURON_PRINTK_MAX) */
    uint32_t action; /* in: what to do with it (values not established) */
};

/* NC_PID_STATE_DUMP: 16 bytes. */
struct neuron_nc_pid_state_dump {
    uint32_t size; /* in: size of this struct */
    uint32_t nc_id; /* in: core */
    uint32_t filter_log_owner; /* in: filter (meaning not established) */
    uint32_t log_dump_limit; /* in: limit (meaning not established) */
};

/* HBM_SCRUB_START: 16 bytes. */
struct neuron_hbm_scrub_start {
    uint32_t nc_id; /* in: core */
    uint32_t hbm_index; /* in: HBM index; a bad one is EPERM */
    uint32_t axi_port; /* in: port */
    uint32_t init_val; /* in: the value HBM is filled with */
};

/* HBM_SCRUB_WAIT: 8 bytes. */
struct neuron_hbm_scrub_wait {
    uint32_t nc_id; /* in: core */
    uint32_t hbm_index; /* in: HBM index */
};

/* POWER_PROFILE: 8 bytes. */
struct neuron_power_profile {
    uint16_t sz; /* in: 8, checked (ENXIO) */
    uint16_t ctrl; /* in: 0, checked (ENOTSUPP) */
    uint32_t profile; /* in: profile */
};

/* ---- Commands ---- */

/*
 * A word is direction, size, 'N' and number. Many commands were declared with a pointer to their struct
 * (NEURON_IOC_POINTER_): the size in the word is a pointer's, and the struct behind the argument has its own.
 * The direction says nothing reliable about what is read and written: the comments of the fields do.
 */
#define NEURON_IOC_BASE 0x4e
#define NEURON_IOC_WORD_(dir, size, nr) \
    (((uint32_t)(dir) << 30) | ((uint32_t)(size) << 16) | ((uint32_t)NEURON_IOC_BASE << 8) | (uint32_t)(nr))
#define NEURON_IOC_NONE_(nr) NEURON_IOC_WORD_(0, 0, nr)
#define NEURON_IOC_VALUE_(dir, nr, type) NEURON_IOC_WORD_(dir, sizeof(type), nr)
#define NEURON_IOC_POINTER_(dir, nr, type) NEURON_IOC_WORD_(dir, 8, nr)

/* Resets the whole device; always succeeds. */
#define NEURON_IOC_DEVICE_RESET NEURON_IOC_NONE_(1)
/* Waits for the caller's reset; writes 1 for success, 0 for failure. */
#define NEURON_IOC_DEVICE_READY NEURON_IOC_VALUE_(2, 2, uint8_t)
/* Architecture, neighbours and BARs. */
#define NEURON_IOC_DEVICE_INFO NEURON_IOC_POINTER_(2, 3, struct neuron_device_info)
/* Does nothing; the argument is not read. */
#define NEURON_IOC_DEVICE_INIT NEURON_IOC_POINTER_(2, 4, uint8_t[4])
/* Does nothing. */
#define NEURON_IOC_DEVICE_RELEASE NEURON_IOC_NONE_(5)
/* Process in the first slot, 0 if none, in an int32_t. */
#define NEURON_IOC_DEVICE_APP_PID NEURON_IOC_VALUE_(2, 6, int32_t)
/* Attached processes. */
#define NEURON_IOC_DEVICE_GET_ALL_APPS_INFO NEURON_IOC_POINTER_(2, 7, struct neuron_get_apps_info)
/* Reads device registers. */
#define NEURON_IOC_BAR_READ NEURON_IOC_POINTER_(2, 11, struct neuron_bar_rw)
/* Writes device registers. */
#define NEURON_IOC_BAR_WRITE NEURON_IOC_POINTER_(1, 12, struct neuron_bar_rw)
/* Posts a firmware metric. */
#define NEURON_IOC_POST_METRIC NEURON_IOC_POINTER_(1, 13, struct neuron_post_metric)
/* Allocates, oldest form. */
#define NEURON_IOC_MEM_ALLOC NEURON_IOC_POINTER_(2, 21, struct neuron_mem_alloc)
/* Frees. */
#define NEURON_IOC_MEM_FREE NEURON_IOC_POINTER_(2, 22, struct neuron_mem_free)
/* Copies chunk to chunk, synchronously. */
#define NEURON_IOC_MEM_COPY NEURON_IOC_POINTER_(2, 23, struct neuron_mem_copy)
/* MEM_COPY with 64-bit sizes. */
#define NEURON_IOC_MEM_COPY64 NEURON_IOC_VALUE_(2, 23, struct neuron_mem_copy64)
/* Copies between a user buffer and a chunk. */
#define NEURON_IOC_MEM_BUF_COPY NEURON_IOC_POINTER_(3, 24, struct neuron_mem_buf_copy)
/* MEM_BUF_COPY with 64-bit sizes. */
#define NEURON_IOC_MEM_BUF_COPY64 NEURON_IOC_VALUE_(3, 24, struct neuron_mem_buf_copy64)
/* Physical address of a handle. */
#define NEURON_IOC_MEM_GET_PA NEURON_IOC_POINTER_(2, 25, struct neuron_mem_get_pa)
/* Physical address and mmap offset of a handle. */
#define NEURON_IOC_MEM_GET_INFO NEURON_IOC_POINTER_(2, 26, struct neuron_mem_get_info)
/* Writes to an on-chip region through core 0. */
#define NEURON_IOC_PROGRAM_ENGINE NEURON_IOC_POINTER_(3, 27, struct neuron_program_engine)
/* Fills a range of a chunk. */
#define NEURON_IOC_MEMSET NEURON_IOC_POINTER_(2, 28, struct neuron_memset)
/* MEMSET with a 64-bit size. */
#define NEURON_IOC_MEMSET64 NEURON_IOC_VALUE_(2, 28, struct neuron_memset64)
/* Everything about a handle. */
#define NEURON_IOC_MEM_GET_EXTENDED_INFO NEURON_IOC_POINTER_(2, 29, struct neuron_mem_get_extended_info)
/* Does nothing; the argument is not read. */
#define NEURON_IOC_DMA_ENG_INIT NEURON_IOC_POINTER_(2, 30, struct neuron_dma_eng_init)
/* Changes an engine's state. */
#define NEURON_IOC_DMA_ENG_SET_STATE NEURON_IOC_POINTER_(2, 31, struct neuron_dma_eng_set_state)
/* Reads an engine's state. */
#define NEURON_IOC_DMA_ENG_GET_STATE NEURON_IOC_POINTER_(3, 32, struct neuron_dma_eng_get_state)
/* Programs the rings of a queue. */
#define NEURON_IOC_DMA_QUEUE_INIT NEURON_IOC_POINTER_(2, 33, struct neuron_dma_queue_init)
/* Traces only; frees nothing. */
#define NEURON_IOC_DMA_QUEUE_RELEASE NEURON_IOC_POINTER_(2, 34, struct neuron_dma_queue_release)
/* Rings the doorbells of a queue. */
#define NEURON_IOC_DMA_QUEUE_COPY_START NEURON_IOC_POINTER_(2, 35, struct neuron_dma_queue_copy_start)
/* Acknowledges completed descriptors. */
#define NEURON_IOC_DMA_ACK_COMPLETED NEURON_IOC_POINTER_(2, 36, struct neuron_dma_ack_completed)
/* Reads a queue's state. */
#define NEURON_IOC_DMA_QUEUE_GET_STATE NEURON_IOC_POINTER_(3, 37, struct neuron_dma_queue_get_state)
/* Stores descriptors into a ring's chunk. */
#define NEURON_IOC_DMA_COPY_DESCRIPTORS NEURON_IOC_POINTER_(2, 38, struct neuron_dma_copy_descriptors)
/* DMA_COPY_DESCRIPTORS with a 64-bit offset. */
#define NEURON_IOC_DMA_COPY_DESCRIPTORS64 NEURON_IOC_VALUE_(2, 38, struct neuron_dma_copy_descriptors64)
/* Reads descriptors of a live ring. */
#define NEURON_IOC_DMA_DESCRIPTOR_COPYOUT NEURON_IOC_POINTER_(3, 39, struct neuron_dma_descriptor_copyout)
/* No longer served: ENOTTY. */
#define NEURON_IOC_DMA_QUIESCE_QUEUES NEURON_IOC_POINTER_(2, 40, struct neuron_dma_quiesce_queues)
/* Adds to a semaphore. */
#define NEURON_IOC_SEMAPHORE_INCREMENT NEURON_IOC_POINTER_(2, 41, struct neuron_semaphore)
/* Subtracts from a semaphore. */
#define NEURON_IOC_SEMAPHORE_DECREMENT NEURON_IOC_POINTER_(2, 42, struct neuron_semaphore)
/* Reads a semaphore. */
#define NEURON_IOC_SEMAPHORE_READ NEURON_IOC_POINTER_(3, 43, struct neuron_semaphore)
/* Sets a semaphore. */
#define NEURON_IOC_SEMAPHORE_WRITE NEURON_IOC_POINTER_(2, 44, struct neuron_semaphore)
/* Sets an event. */
#define NEURON_IOC_EVENT_SET NEURON_IOC_POINTER_(2, 45, struct neuron_event)
/* Reads an event. */
#define NEURON_IOC_EVENT_GET NEURON_IOC_POINTER_(3, 46, struct neuron_event)
/* Sets up a notification queue in host memory. */
#define NEURON_IOC_NOTIFICATIONS_INIT_V1 NEURON_IOC_POINTER_(2, 51, struct neuron_notifications_init_v1)
/* Does nothing; the argument is not read. */
#define NEURON_IOC_NOTIFICATIONS_DESTROY_V1 NEURON_IOC_POINTER_(2, 52, uint8_t[8])
/* Sets up a notification queue. */
#define NEURON_IOC_NOTIFICATIONS_INIT_V2 NEURON_IOC_POINTER_(2, 53, struct neuron_notifications_init_v2)
/* Sets up a notification queue, in new memory if asked. */
#define NEURON_IOC_NOTIFICATIONS_INIT_WITH_REALLOC_V2 NEURON_IOC_POINTER_(2, 54, struct neuron_notifications_init_with_realloc_v2)
/* Always EPERM; the argument is not read. */
#define NEURON_IOC_NOTIFICATIONS_QUEUE_INFO NEURON_IOC_POINTER_(2, 58, uint8_t[12])
/* Reads hardware counters. */
#define NEURON_IOC_READ_HW_COUNTERS NEURON_IOC_POINTER_(2, 61, struct neuron_read_hw_counters)
/* Gets a process's data store. */
#define NEURON_IOC_ACQUIRE_NEURON_DS NEURON_IOC_POINTER_(2, 71, struct neuron_ds_info)
/* Gives it back. */
#define NEURON_IOC_RELEASE_NEURON_DS NEURON_IOC_POINTER_(2, 72, struct neuron_ds_info)
/* Enters a core's model lock as a reader. */
#define NEURON_IOC_CRWL_READER_ENTER NEURON_IOC_POINTER_(1, 81, struct neuron_crwl)
/* Leaves it. */
#define NEURON_IOC_CRWL_READER_EXIT NEURON_IOC_POINTER_(1, 82, struct neuron_crwl)
/* Enters a core's model lock as the writer. */
#define NEURON_IOC_CRWL_WRITER_ENTER NEURON_IOC_POINTER_(1, 83, struct neuron_crwl)
/* Turns the writer into a reader. */
#define NEURON_IOC_CRWL_WRITER_DOWNGRADE NEURON_IOC_POINTER_(1, 84, struct neuron_crwl)
/* Claims a run of free cores; any file. */
#define NEURON_IOC_CRWL_NC_RANGE_MARK NEURON_IOC_POINTER_(1, 85, struct neuron_crwl_nc_map)
/* CRWL_NC_RANGE_MARK for more cores; any file. */
#define NEURON_IOC_CRWL_NC_RANGE_MARK_EXT0 NEURON_IOC_VALUE_(3, 85, struct neuron_crwl_nc_map_ext)
/* Gives claimed cores back; any file. */
#define NEURON_IOC_CRWL_NC_RANGE_UNMARK NEURON_IOC_POINTER_(1, 86, struct neuron_crwl_nc_map)
/* CRWL_NC_RANGE_UNMARK for more cores; any file. */
#define NEURON_IOC_CRWL_NC_RANGE_UNMARK_EXT0 NEURON_IOC_VALUE_(1, 86, struct neuron_crwl_nc_map_ext)
/* Moves a core's init state. */
#define NEURON_IOC_CINIT_SET_STATE NEURON_IOC_POINTER_(1, 91, struct neuron_cinit_set)
/* Models started on a core. */
#define NEURON_IOC_NC_MODEL_STARTED_COUNT NEURON_IOC_POINTER_(1, 92, struct neuron_nc_model_started_count)
/* Runtime ids the driver works with; any file. */
#define NEURON_IOC_COMPATIBLE_VERSION NEURON_IOC_POINTER_(1, 93, struct neuron_compatible_version)
/* Architecture and revision; any file. */
#define NEURON_IOC_DEVICE_BASIC_INFO NEURON_IOC_POINTER_(1, 100, struct neuron_device_basic_info)
/* PCI address of the opened device. */
#define NEURON_IOC_DEVICE_BDF NEURON_IOC_POINTER_(2, 101, struct neuron_device_bdf)
/* Allocates with alignment. */
#define NEURON_IOC_MEM_ALLOC_V2 NEURON_IOC_POINTER_(2, 102, struct neuron_mem_alloc_v2)
/* Allocates with alignment and category. */
#define NEURON_IOC_MEM_ALLOC_V2MT NEURON_IOC_VALUE_(2, 102, struct neuron_mem_alloc_v2_mem_type)
/* MEM_ALLOC_V2MT of a driver that takes 4 GiB and more. */
#define NEURON_IOC_MEM_ALLOC_V2MT64 NEURON_IOC_VALUE_(2, 102, struct neuron_mem_alloc_v2_mem_type64)
/* Resets cores. */
#define NEURON_IOC_NC_RESET NEURON_IOC_POINTER_(2, 103, struct neuron_device_reset)
/* Waits for a reset. */
#define NEURON_IOC_NC_RESET_READY NEURON_IOC_POINTER_(2, 104, struct neuron_device_ready)
/* Writes to an on-chip region through a core's engine. */
#define NEURON_IOC_PROGRAM_ENGINE_NC NEURON_IOC_POINTER_(3, 105, struct neuron_program_engine_nc)
/* PROGRAM_ENGINE_NC with 64-bit sizes. */
#define NEURON_IOC_PROGRAM_ENGINE_NC64 NEURON_IOC_VALUE_(3, 105, struct neuron_program_engine_nc64)
/* Writes 1. */
#define NEURON_IOC_DEVICE_RESET_STATUS NEURON_IOC_VALUE_(2, 106, uint8_t)
/* PCI address of any device; any file. */
#define NEURON_IOC_DEVICE_BDF_EXT NEURON_IOC_POINTER_(2, 106, struct neuron_device_bdf_ext)
/* A dma-buf for mapped device memory; any file. */
#define NEURON_IOC_DMABUF_FD NEURON_IOC_POINTER_(2, 107, struct neuron_dmabuf_fd)
/* Copies chunk to chunk, overlapping with the previous copy. */
#define NEURON_IOC_MEM_COPY_ASYNC NEURON_IOC_VALUE_(3, 108, struct neuron_mem_copy_async)
/* MEM_COPY_ASYNC with 64-bit sizes. */
#define NEURON_IOC_MEM_COPY_ASYNC64 NEURON_IOC_VALUE_(3, 108, struct neuron_mem_copy_async64)
/* Waits for an asynchronous copy. */
#define NEURON_IOC_MEM_COPY_ASYNC_WAIT NEURON_IOC_VALUE_(1, 109, struct neuron_mem_copy_async_wait)
/* Driver description with feature bits; any file. */
#define NEURON_IOC_DRIVER_INFO_GET NEURON_IOC_VALUE_(2, 110, struct neuron_device_driver_info)
/* Not supported: ENOTSUPP. */
#define NEURON_IOC_DRIVER_INFO_SET NEURON_IOC_VALUE_(1, 110, struct neuron_device_driver_info)
/* The chunk that holds an address. */
#define NEURON_IOC_MEM_MC_GET_INFO NEURON_IOC_VALUE_(3, 111, struct neuron_mem_get_mc_mmap_info)
/* MEM_MC_GET_INFO with its handle. */
#define NEURON_IOC_MEM_MC_GET_INFO_V2 NEURON_IOC_VALUE_(3, 111, struct neuron_mem_get_mc_mmap_info_v2)
/* mmap cookie of an on-chip block. */
#define NEURON_IOC_RESOURCE_MMAP_INFO NEURON_IOC_VALUE_(3, 112, struct neuron_resource_mmap_info)
/* Writes a line to the kernel log; any file. */
#define NEURON_IOC_PRINTK NEURON_IOC_VALUE_(1, 113, struct neuron_printk)
/* The device's own index, in a uint32_t. */
#define NEURON_IOC_HOST_DEVICE_ID NEURON_IOC_VALUE_(2, 114, uint32_t)
/* Device index to routing id; any file. */
#define NEURON_IOC_HOST_DEVICE_ID_TO_RID_MAP NEURON_IOC_VALUE_(3, 115, struct neuron_host_device_id_to_rid_map)
/* Lists the chunks of one HBM. */
#define NEURON_IOC_DUMP_MEM_CHUNKS NEURON_IOC_POINTER_(2, 116, struct neuron_dump_mem_chunks)
/* Logs the state of cores and processes; any file. */
#define NEURON_IOC_NC_PID_STATE_DUMP NEURON_IOC_VALUE_(3, 117, struct neuron_nc_pid_state_dump)
/* Starts filling an HBM. */
#define NEURON_IOC_HBM_SCRUB_START NEURON_IOC_VALUE_(3, 118, struct neuron_hbm_scrub_start)
/* Waits for it. */
#define NEURON_IOC_HBM_SCRUB_WAIT NEURON_IOC_VALUE_(3, 119, struct neuron_hbm_scrub_wait)
/* Logical to physical cores; any file. */
#define NEURON_IOC_GET_LOGICAL_TO_PHYSICAL_NC_MAP NEURON_IOC_VALUE_(3, 120, struct neuron_logical_to_physical_nc_map)
/* Pod the node is in; any file. */
#define NEURON_IOC_POD_INFO NEURON_IOC_VALUE_(3, 121, struct neuron_pod_info)
/* State of the pod; any file. */
#define NEURON_IOC_POD_STATUS NEURON_IOC_VALUE_(3, 122, struct neuron_pod_status)
/* POD_STATUS with the mode; any file. */
#define NEURON_IOC_POD_STATUS_V2 NEURON_IOC_VALUE_(3, 122, struct neuron_pod_status_v2)
/* Controls pod election; any file. */
#define NEURON_IOC_POD_CTRL NEURON_IOC_VALUE_(3, 123, struct neuron_pod_ctrl)
/* POD_CTRL with the mode; any file. */
#define NEURON_IOC_POD_CTRL_V2 NEURON_IOC_VALUE_(3, 123, struct neuron_pod_ctrl_v2)
/* DMA between user pages and a chunk. This form since 2.25.4. */
#define NEURON_IOC_MEM_BUF_ZEROCOPY64 NEURON_IOC_VALUE_(3, 124, struct neuron_mem_buf_copy64_zc)
/* Allocates H2T queues to the caller. */
#define NEURON_IOC_H2T_DMA_ALLOC_QUEUES NEURON_IOC_VALUE_(3, 125, struct neuron_h2t_dma_alloc_queues)
/* Releases them. */
#define NEURON_IOC_H2T_DMA_FREE_QUEUES NEURON_IOC_VALUE_(3, 126, struct neuron_h2t_dma_free_queues)
/* Sets the power profile. */
#define NEURON_IOC_POWER_PROFILE NEURON_IOC_VALUE_(1, 127, struct neuron_power_profile)
/* Periodic metrics on (0) or off (1), in a uint32_t. */
#define NEURON_IOC_METRICS_CTRL NEURON_IOC_VALUE_(1, 128, uint32_t)
/* Zero-copy of many pieces. */
#define NEURON_IOC_MEM_BUF_ZEROCOPY64_BATCHES NEURON_IOC_VALUE_(3, 129, struct neuron_mem_buf_copy64_zc_batches)
/* Throttling notifications. Only the size is established; the name is our choice. */
#define NEURON_IOC_THROTTLING_NOTIFICATIONS_CTRL NEURON_IOC_VALUE_(1, 130, uint8_t[4])
/* Placement of a virtual address; any file. */
#define NEURON_IOC_GET_VA_PLACEMENT NEURON_IOC_VALUE_(1, 131, struct neuron_get_va_placement)
/* Programs up to 255 queues. */
#define NEURON_IOC_DMA_QUEUE_INIT_BATCH NEURON_IOC_VALUE_(2, 133, struct neuron_dma_queue_init_batch)
/* Where the asynchronous completion queues of a core can be mapped. */
#define NEURON_IOC_GET_ASYNC_H2T_DMA_COMPL_QUEUES NEURON_IOC_VALUE_(3, 135, struct neuron_get_async_h2t_dma_compl_queues)
/* Zero-copy of driver 2.24.7: default queue only. Later ones refuse it. */
#define NEURON_IOC_MEM_BUF_ZEROCOPY64_OLD NEURON_IOC_VALUE_(3, 124, struct neuron_mem_buf_copy64)

#ifdef __cplusplus
}
#endif

#endif
