//! `libneuron_preload.so`: an unmodified program that is started with it (`LD_PRELOAD`) sees
//! `/dev/neuronN` and their sysfs tree as a server has them (`neuron-mem serve`), and nothing of the
//! machine's own. `neuron-mem run` starts programs like that.
//!
//! Two variables switch it on: `NEURON_MEM_RUN_SOCKET`, the absolute path of the server's socket, and
//! `NEURON_MEM_RUN_TREE`, that of a directory in which the server keeps a picture of `/dev` and
//! `/sys`. Without them every function hands its call on.
//!
//! | module | what lives there |
//! |---|---|
//! | `hooks` | the functions that programs call in place of the C library's: the C boundary |
//! | `view` | which of the program's paths lead to the server's |
//! | `tree`, `place`, `node` | the picture; paths of the server's; what is there, for `stat(2)` |
//! | `opening` | what `open(2)` gives |
//! | `listing`, `listings` | directories of the machine in which names of the server's are shown |
//! | `descriptors`, `known` | which descriptors are the server's |
//! | `device`, `mappings` | ioctl and mmap on an open device; where mappings are |
//! | `state`, `fork`, `config` | what the process knows of the server; forks; the two variables |
//! | `c`, `fds`, `lock`, `once`, `recent` | pointers of C; descriptors; a lock, a value made once, a table |
//!
//! # What is shown
//!
//! `/dev/neuron<digits>`, and all at and below `/sys/class/neuron_device`,
//! `/sys/devices/virtual/neuron_device` and `/sys/module/neuron` (`spec/sysfs.md` 8): what the picture
//! has not is not there (ENOENT), even where the machine has it. The directories above show these
//! names and hide the machine's. A device is a character device of major 240, our choice. A file
//! of sysfs is read as it was when it was opened: reading it again from its start gives the same,
//! where the kernel would make it anew. Each write to one is a write to the attribute.
//!
//! # What a program does not notice, and what it can
//!
//! An open device is a socket: dup, fork, exec, close, passing it on and poll are the kernel's.
//! Reading gives the end of the file, where a driver without a read says EINVAL; writing does
//! nothing. A writable private mapping of a device is refused (EINVAL, our choice).
//!
//! Out of reach, since they do not call the C library's functions of these names: static programs
//! and others that make system calls of their own (Go), io_uring, `syscall(3)`; what the C library
//! does within itself (`ftw`, `fts`, `wordexp`, files opened by `posix_spawn`). `/proc/self/maps`
//! shows what is really mapped, and `stat(2)` by `/proc/self/fd/N` a socket; `F_GETFL` says that every
//! device is open for both. A set-user-ID program, and one that is started with an environment
//! without the variables, sees the machine. Links that are not the server's, and lead there, lead to
//! the machine's. Watches (`inotify`) see the machine. A write to an attribute whose server has
//! ended is a write to a socket whose peer is gone: SIGPIPE, or EPIPE.
//!
//! # Rules of this crate
//!
//! Its own work is done with `rustix`, whose system calls do not come back here, and never with
//! functions of the standard library for files. A call that is not about the server's costs a look
//! at a number and at the path; see `view`. Nothing is allocated, and no lock taken, before a path
//! is found to be the server's. `unsafe` is in `c`, `fds`, `fork`, `hooks`, `lock` and `once`.

#[macro_use]
mod hooks;

mod c;
mod config;
mod descriptors;
mod device;
mod fds;
mod fork;
mod known;
mod listing;
mod listings;
mod lock;
mod mappings;
mod node;
mod once;
mod opening;
mod place;
mod recent;
mod state;
mod tree;
mod view;
