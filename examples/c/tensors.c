/*
 * Device memory from C: allocate, write, read, a slice, an address, what is in use.
 *
 *     cc tensors.c $(pkg-config --cflags --libs neuron-mem-nrt) -o tensors
 */
#include <stdio.h>
#include <string.h>

#include <neuron_mem/nrt.h>

/* Ends the program with the name of what went wrong. */
#define TRY(call)                                                                                                 \
    do {                                                                                                          \
        NRT_STATUS status = (call);                                                                               \
        if (status != NRT_SUCCESS) {                                                                              \
            fprintf(stderr, "%s: %s\n", #call, nrt_get_status_as_str(status));                                    \
            return 1;                                                                                             \
        }                                                                                                         \
    } while (0)

int main(void) {
    static char text[] = "bytes of a tensor, moved by descriptors and doorbells";
    char back[sizeof text];
    uint32_t cores = 0;
    nrt_tensor_t *tensor = NULL, *slice = NULL;
    nrt_vnc_memory_stats_t stats;
    size_t written = 0;

    TRY(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", ""));
    TRY(nrt_get_visible_vnc_count(&cores));
    printf("%u cores\n", cores);

    TRY(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 1 << 20, "example", &tensor));
    TRY(nrt_tensor_memset(tensor, 0, 0, nrt_tensor_get_size(tensor)));
    TRY(nrt_tensor_write(tensor, text, 4096, sizeof text));
    TRY(nrt_tensor_read(tensor, back, 4096, sizeof back));
    printf("read back: %s\n", back);

    /* A slice shares the memory, and so does the address. */
    TRY(nrt_tensor_allocate_slice(tensor, 4096, 5, NULL, &slice));
    TRY(nrt_tensor_write(slice, "BYTES", 0, 5));
    printf("at its address: %s\n", (const char *)nrt_tensor_get_va(tensor) + 4096);

    TRY(nrt_get_vnc_memory_stats(0, &stats, sizeof stats, &written));
    printf("in use on core 0: %zu of %zu bytes\n", stats.bytes_used, stats.bytes_limit);

    /* What does not fit is refused with a status, and nothing has moved. */
    printf("beyond the end: %s\n", nrt_get_status_as_str(nrt_tensor_write(slice, text, 0, sizeof text)));

    nrt_tensor_free(&slice);
    nrt_tensor_free(&tensor);
    TRY(nrt_get_vnc_memory_stats(0, &stats, sizeof stats, &written));
    printf("in use after freeing: %zu\n", stats.bytes_used);
    nrt_close();
    return memcmp(text, back, sizeof text) != 0;
}
