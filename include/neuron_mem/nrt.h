/*
 * The C interface of libnrt.so.1: tensors, device memory, information and status. Written for neuron-mem,
 * under its licenses (MIT OR Apache-2.0). docs/libnrt.md says what works and what does not.
 *
 * Every function may be called from any thread. Handles are numbers that the library looks up: one that was
 * freed, or was never given out, gets NRT_INVALID_HANDLE. Sizes and offsets are in bytes.
 */
#ifndef NEURON_MEM_NRT_H
#define NEURON_MEM_NRT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NRT_MAJOR_VERSION 2
#define NRT_MINOR_VERSION 0

/* What almost every function answers. */
typedef enum {
    NRT_SUCCESS = 0,
    NRT_FAILURE = 1,
    NRT_INVALID = 2,
    NRT_INVALID_HANDLE = 3,
    NRT_RESOURCE = 4,
    NRT_TIMEOUT = 5,
    NRT_HW_ERROR = 6,
    NRT_QUEUE_FULL = 7,
    NRT_LOAD_NOT_ENOUGH_NC = 9,
    NRT_UNSUPPORTED_NEFF_VERSION = 10,
    NRT_FAIL_HOST_MEM_ALLOC = 11,
    NRT_UNINITIALIZED = 13,
    NRT_CLOSED = 14,
    NRT_QUEUE_EMPTY = 15,
    NRT_EXEC_UNIT_UNRECOVERABLE = 101,
    NRT_EXEC_BAD_INPUT = 1002,
    NRT_EXEC_COMPLETED_WITH_NUM_ERR = 1003,
    NRT_EXEC_COMPLETED_WITH_ERR = 1004,
    NRT_EXEC_NC_BUSY = 1005,
    NRT_EXEC_OOB = 1006,
    NRT_COLL_PENDING = 1100,
    NRT_EXEC_HW_ERR_COLLECTIVES = 1200,
    NRT_EXEC_HW_ERR_HBM_UE = 1201,
    NRT_EXEC_HW_ERR_NC_UE = 1202,
    NRT_EXEC_HW_ERR_DMA_ABORT = 1203,
    NRT_EXEC_SW_NQ_OVERFLOW = 1204,
    NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE = 1205,
    NRT_NETWORK_PROXY_FAILURE = 1206
} NRT_STATUS;

/* Where a tensor is: in device memory; in host memory that the device reaches, less than 4 MiB, on Trainium1
 * and Inferentia2 only; in any host memory. */
typedef enum {
    NRT_TENSOR_PLACEMENT_DEVICE = 0,
    NRT_TENSOR_PLACEMENT_HOST = 1,
    NRT_TENSOR_PLACEMENT_VIRTUAL = 2
} nrt_tensor_placement_t;

/* Who calls. Changes nothing. */
typedef enum {
    NRT_FRAMEWORK_TYPE_INVALID = 0,
    NRT_FRAMEWORK_TYPE_NO_FW = 1,
    NRT_FRAMEWORK_TYPE_TENSORFLOW = 2,
    NRT_FRAMEWORK_TYPE_PYTORCH = 3,
    NRT_FRAMEWORK_TYPE_MXNET = 4,
    NRT_FRAMEWORK_TYPE_PRECHECK = 5
} nrt_framework_type_t;

typedef enum {
    NRT_DTYPE_UNKNOWN = 0,
    NRT_DTYPE_INVALID = 0,
    NRT_DTYPE_UINT64 = 1,
    NRT_DTYPE_INT8 = 2,
    NRT_DTYPE_UINT8 = 3,
    NRT_DTYPE_INT16 = 4,
    NRT_DTYPE_UINT16 = 5,
    NRT_DTYPE_BFLOAT16 = 6,
    NRT_DTYPE_FLOAT16 = 7,
    NRT_DTYPE_INT32 = 8,
    NRT_DTYPE_UINT32 = 9,
    NRT_DTYPE_FLOAT32 = 10,
    NRT_DTYPE_FP32R = 11,
    NRT_DTYPE_INT64 = 12,
    NRT_DTYPE_FP8_E3 = 13,
    NRT_DTYPE_FP8_E4 = 14,
    NRT_DTYPE_FP8_E5 = 15
} nrt_dtype_t;

typedef enum {
    NRT_TENSOR_USAGE_INPUT = 0,
    NRT_TENSOR_USAGE_OUTPUT = 1
} nrt_tensor_usage_t;

/* nrt_instance_info_t.family. Numbers from 16 on are a guess: no public source has them. */
enum {
    NRT_INSTANCE_UNKNOWN = 0,
    NRT_INSTANCE_INF1 = 1,
    NRT_INSTANCE_TRN1 = 2,
    NRT_INSTANCE_TRN1N = 3,
    NRT_INSTANCE_INF2 = 4,
    NRT_INSTANCE_TRN2 = 5,
    NRT_INSTANCE_TRN2N = 6,
    NRT_INSTANCE_INF2E = 7,
    NRT_INSTANCE_TRN2P = 8,
    NRT_INSTANCE_TRN2U = 9,
    NRT_INSTANCE_TRN2E = 10,
    NRT_INSTANCE_TRN2EU = 11,
    NRT_INSTANCE_TRN2AC = 12,
    NRT_INSTANCE_TRN2UAC = 13,
    NRT_INSTANCE_TRN3 = 14,
    NRT_INSTANCE_TRN3PDS98 = 15,
    NRT_INSTANCE_TRN3E = 16,
    NRT_INSTANCE_TRN3N = 17,
    NRT_INSTANCE_TRN3EN = 18
};

/* nrt_instance_info_t.size. */
enum {
    NRT_INSTANCE_SIZE_1XL = 0,
    NRT_INSTANCE_SIZE_2XL = 1,
    NRT_INSTANCE_SIZE_4XL = 2,
    NRT_INSTANCE_SIZE_6XL = 3,
    NRT_INSTANCE_SIZE_8XL = 4,
    NRT_INSTANCE_SIZE_24XL = 5,
    NRT_INSTANCE_SIZE_32XL = 6,
    NRT_INSTANCE_SIZE_48XL = 7,
    NRT_INSTANCE_SIZE_3XL = 8,
    NRT_INSTANCE_SIZE_UNKNOWN = 9,
    NRT_INSTANCE_SIZE_NUM = 9
};

typedef struct nrt_tensor nrt_tensor_t;
typedef struct nrt_model nrt_model_t;
typedef struct nrt_cc_context nrt_cc_context_t;
typedef void nrt_tensor_set_t;

#define RT_VERSION_DETAIL_LEN 128
#define GIT_HASH_LEN 64
#define NRT_TENSOR_NAME_MAX 256

typedef struct {
    uint64_t rt_major;
    uint64_t rt_minor;
    uint64_t rt_patch;
    uint64_t rt_maintenance;
    char rt_detail[RT_VERSION_DETAIL_LEN];
    char git_hash[GIT_HASH_LEN];
} nrt_version_t;

typedef struct {
    uint32_t family;
    uint32_t size;
    char arch_name[16];
    char device_revision[8];
} nrt_instance_info_t;

/* Later versions may have more behind these. */
typedef struct {
    size_t bytes_used;
    size_t bytes_limit;
} nrt_vnc_memory_stats_t;

typedef struct {
    uint64_t physical_address;
    size_t size;
    int hbm_index;
} nrt_tensor_device_allocation_info_t;

/* A piece of a tensor, and the host's side of it. */
typedef struct {
    uint64_t offset;
    uint64_t size;
    void *buffer;
} nrt_tensor_batch_op_t;

typedef struct {
    const nrt_tensor_t *tensor;
    const nrt_tensor_batch_op_t *ops;
    uint32_t num_ops;
} nrt_tensor_batch_t;

typedef struct {
    char name[NRT_TENSOR_NAME_MAX];
    nrt_tensor_usage_t usage;
    size_t size;
    nrt_dtype_t dtype;
    uint32_t *shape;
    uint32_t ndim;
} nrt_tensor_info_t;

typedef struct {
    uint64_t tensor_count;
    nrt_tensor_info_t tensor_array[];
} nrt_tensor_info_array_t;

/* ---- Opening and closing. Environment variables are read in nrt_init. ---- */

/* Takes the cores that the environment asks for. The versions may be anything. */
NRT_STATUS nrt_init(nrt_framework_type_t framework, const char *fw_version, const char *fal_version);
/* Gives everything back, tensors that are left too. nrt_init may follow. */
void nrt_close(void);

/* ---- Counts and identity: at any time. ---- */

/* Logical cores of the machine; the first name is the older one. */
NRT_STATUS nrt_get_total_nc_count(uint32_t *count);
NRT_STATUS nrt_get_total_vnc_count(uint32_t *count);
/* Logical cores that the process sees; the first name is the older one. */
NRT_STATUS nrt_get_visible_nc_count(uint32_t *count);
NRT_STATUS nrt_get_visible_vnc_count(uint32_t *count);
/* At most `len` bytes are written. */
NRT_STATUS nrt_get_instance_info(nrt_instance_info_t *info, size_t len);
/* At most `size` bytes are written. */
NRT_STATUS nrt_get_version(nrt_version_t *ver, size_t size);
/* A text that lives for ever; NULL for a number that is no status. */
const char *nrt_get_status_as_str(NRT_STATUS status);

/* ---- Device numbers: between nrt_init and nrt_close, as everything below. ---- */

NRT_STATUS nrt_host_device_id_get(int neuron_dev, uint32_t *host_device_id);
/* *count: the room in `map`, then the entries there are. */
NRT_STATUS nrt_host_device_id_rid_map_get(uint32_t *count, uint32_t *map);

/* ---- Tensors. ---- */

/* `vnc` counts the visible cores; -1 is any, unless the placement is DEVICE. `name` may be NULL. */
NRT_STATUS nrt_tensor_allocate(nrt_tensor_placement_t placement, int vnc, size_t size, const char *name,
                               nrt_tensor_t **tensor);
/* Sets *tensor to NULL. The memory stays while a slice lives. */
void nrt_tensor_free(nrt_tensor_t **tensor);
NRT_STATUS nrt_tensor_allocate_empty(const char *name, nrt_tensor_t **tensor);
/* The buffer stays the caller's, who keeps it until the tensor and its slices are freed. */
NRT_STATUS nrt_tensor_attach_buffer(nrt_tensor_t *tensor, void *buffer, size_t size);
/* Shares the source's memory. */
NRT_STATUS nrt_tensor_allocate_slice(const nrt_tensor_t *source, size_t offset, size_t size, const char *name,
                                     nrt_tensor_t **slice);
size_t nrt_tensor_get_size(const nrt_tensor_t *tensor);
/* Address of the first byte in this process, coherent with the functions below; NULL if there is none. */
void *nrt_tensor_get_va(const nrt_tensor_t *tensor);
NRT_STATUS nrt_tensor_get_device_allocation_info(const nrt_tensor_t *tensor,
                                                 nrt_tensor_device_allocation_info_t *info);
NRT_STATUS nrt_tensor_check_output_completion(const nrt_tensor_t *output, int64_t timeout_us,
                                              uint64_t expected_completion_count);
NRT_STATUS nrt_tensor_reset_output_completion(nrt_tensor_t *output);

/* ---- Transfers. Done when they return; what is out of range is refused before anything moves. ---- */

NRT_STATUS nrt_tensor_read(const nrt_tensor_t *tensor, void *buf, size_t offset, size_t size);
NRT_STATUS nrt_tensor_write(nrt_tensor_t *tensor, const void *buf, size_t offset, size_t size);
/* Device tensors have to be of one core. Within one tensor as memmove. */
NRT_STATUS nrt_tensor_copy(const nrt_tensor_t *src, size_t src_offset, nrt_tensor_t *dst, size_t dst_offset,
                           size_t size);
/* The low byte of `value`. */
NRT_STATUS nrt_tensor_memset(nrt_tensor_t *tensor, uint64_t offset, int value, size_t size);
/* All pieces are checked first. An error of the device stops a batch; what came before it stays done. */
NRT_STATUS nrt_tensor_read_batch(const nrt_tensor_batch_t *batches, uint64_t num_batches, bool unsafe_);
NRT_STATUS nrt_tensor_write_batch(const nrt_tensor_batch_t *batches, uint64_t num_batches, bool unsafe_);
/* `dest` is from nrt_tensor_get_va, or behind that. */
NRT_STATUS nrt_memcpy_to_device(void *dest, const void *src, size_t size);

/* ---- Sharing and statistics. ---- */

/* At most `size_in` bytes are written, and *size_out says how many. */
NRT_STATUS nrt_get_vnc_memory_stats(uint32_t vnc, nrt_vnc_memory_stats_t *stats, size_t size_in,
                                    size_t *size_out);
/* The next three are not offered, and say so. */
NRT_STATUS nrt_get_dmabuf_fd(uint64_t va, uint64_t size, int *fd);
NRT_STATUS nrt_get_hbm_mmap_va(int device_id, int hbm_idx, void **addr, size_t *size);
NRT_STATUS nrt_get_attached_efa_bdf(const void *va, char *efa_bdf, size_t *len);

/* ---- Tensor sets. They keep no tensor alive and free none. ---- */

NRT_STATUS nrt_allocate_tensor_set(nrt_tensor_set_t **result);
void nrt_destroy_tensor_set(nrt_tensor_set_t **tensor_set);
NRT_STATUS nrt_add_tensor_to_tensor_set(nrt_tensor_set_t *tensor_set, const char *tensor_name,
                                        nrt_tensor_t *tensor);
NRT_STATUS nrt_get_tensor_from_tensor_set(nrt_tensor_set_t *tensor_set, const char *tensor_name,
                                          nrt_tensor_t **tensor);

/* ---- Models: none can be loaded. These answer NRT_FAILURE and give NULL or 0. ---- */

NRT_STATUS nrt_load(const void *neff_bytes, size_t size, int32_t vnc, int32_t vnc_count, nrt_model_t **model);
NRT_STATUS nrt_load_collectives(const void *neff_bytes, size_t size, int32_t vnc, int32_t vnc_count,
                                uint32_t device_id, uint32_t device_count, nrt_model_t **model);
NRT_STATUS nrt_unload(nrt_model_t *model);
NRT_STATUS nrt_execute(nrt_model_t *model, const nrt_tensor_set_t *input_set, nrt_tensor_set_t *output_set);
NRT_STATUS nrt_execute_repeat(nrt_model_t *model, const nrt_tensor_set_t *input_set, nrt_tensor_set_t *output_set,
                              int repeat_count);
NRT_STATUS nrt_get_model_vnc_count(const nrt_model_t *model, uint32_t *vnc_count);
NRT_STATUS nrt_get_model_nc_count(const nrt_model_t *model, uint32_t *nc_count);
NRT_STATUS nrt_get_model_tensor_info(nrt_model_t *model, nrt_tensor_info_array_t **tensor_info);
NRT_STATUS nrt_free_model_tensor_info(nrt_tensor_info_array_t *tensor_info);

/* ---- Profiles and traces: only the names are known. These answer NRT_FAILURE, or nothing. ---- */

NRT_STATUS nrt_profile_start(void);
NRT_STATUS nrt_profile_stop(void);
NRT_STATUS nrt_sys_trace_config_allocate(void);
NRT_STATUS nrt_sys_trace_config_set_capture_enabled_for_nc(void);
NRT_STATUS nrt_sys_trace_fetch_events(void);
NRT_STATUS nrt_sys_trace_fetch_options_allocate(void);
NRT_STATUS nrt_sys_trace_fetch_options_set_nc_idx(void);
NRT_STATUS nrt_sys_trace_start(void);
NRT_STATUS nrt_sys_trace_stop(void);
void nrt_sys_trace_buffer_free(void);
void nrt_sys_trace_config_free(void);
void nrt_sys_trace_fetch_options_free(void);

#ifdef __cplusplus
}
#endif

#endif
