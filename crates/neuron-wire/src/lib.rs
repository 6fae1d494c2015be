//! How a program reaches devices that another process serves (`neuron-mem serve`): the messages
//! on the server's socket, and the client's side of it. The server's side is `neuron-serve`.
//!
//! | module | what lives there |
//! |---|---|
//! | [`address`] | where a server is, `unix:PATH` |
//! | [`message`] | what is sent, byte by byte |
//! | [`packet`] | packets with descriptors on a socket |
//! | [`credentials`] | who is at the other end |
//! | [`client`] | opening devices, calls, memory on demand |
//!
//! # Connections
//!
//! The socket is `SOCK_SEQPACKET`: a message is a packet. A connection's first message,
//! [`Hello`](message::Hello), says what it is:
//!
//! | role | what it is | ends |
//! |---|---|---|
//! | file | an open device file: the program's descriptor is this socket | with its last descriptor, as a file does |
//! | calls | a lane for calls of one thread at a time | with the process's address space |
//! | memory | the server asks for the process's bytes here, if it may not reach them itself | with the process |
//! | attribute | a file under `/sys`, open for writing | with its last descriptor |
//! | question | what is the machine? | with the answer |
//!
//! An open device is a socket so that everything that holds for descriptors holds for it: dup,
//! fork, exec and passing it on all keep the file open, and the death of the last process that
//! has it closes it. Calls go elsewhere, since two processes that share a socket would read each
//! other's answers. A call names its file by a number that only who has the file can learn.
//!
//! Numbers are in the byte order of the machine: both ends are on it.
//!
//! `unsafe` is in `client::bounce`, which has the system read and write this process's memory at
//! addresses that the server names, in `client::lanes`, which keeps descriptors as numbers, and for
//! one system call in `credentials`.

pub mod address;
pub mod client;
pub mod credentials;
pub mod message;
pub mod packet;

pub use address::{Address, AddressError};
pub use client::{Answer, CallError, Calls, OpenError, OpenedFile};
