//! A process that is forked of one in which the library is open.

use crate::compiler::{Compiler, run};

const PROGRAM: &str = r#"
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include <nrt/nrt.h>

/* Ends a process with the line of what is not so. */
#define CHECK(so) do { if (!(so)) { fprintf(stderr, "line %d: %s\n", __LINE__, #so); return __LINE__ % 100 + 1; } } while (0)

static int child(nrt_tensor_t *tensor) {
    char byte = 0;
    uint32_t count = 0;
    nrt_tensor_t *other = tensor;
    CHECK(nrt_tensor_read(tensor, &byte, 0, 1) == NRT_UNINITIALIZED);
    CHECK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 1, NULL, &other) == NRT_UNINITIALIZED);
    CHECK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "") == NRT_FAILURE);
    CHECK(nrt_get_total_nc_count(&count) == NRT_SUCCESS && count == 2);
    nrt_tensor_free(&tensor);
    CHECK(tensor == NULL);
    nrt_close();
    return 0;
}

static int one(void) {
    int status = 0;
    char byte = 0;
    nrt_tensor_t *tensor = NULL;
    CHECK(nrt_init(NRT_FRAMEWORK_TYPE_NO_FW, "", "") == NRT_SUCCESS);
    CHECK(nrt_tensor_allocate(NRT_TENSOR_PLACEMENT_DEVICE, 0, 100000, NULL, &tensor) == NRT_SUCCESS);
    CHECK(nrt_tensor_memset(tensor, 0, 7, 100000) == NRT_SUCCESS);
    pid_t pid = fork();
    if (pid == 0) _exit(child(tensor));
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(nrt_tensor_read(tensor, &byte, 99999, 1) == NRT_SUCCESS && byte == 7);
    nrt_tensor_free(&tensor);
    nrt_close();
    return 0;
}

int main(void) {
    int status = 0;
    CHECK(one() == 0);
    /* Closed: a child may have it. */
    pid_t pid = fork();
    if (pid == 0) _exit(one());
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    puts("as it should be");
    return 0;
}
"#;

#[test]
fn a_child_has_nothing_of_its_parents_and_takes_nothing_from_it() {
    let Some(compiler) = Compiler::find() else { return };
    let program = compiler.link(&compiler.source("fork.c", PROGRAM));
    assert_eq!(run(&mut Compiler::clean(&program)), "as it should be\n");
}
