//! Who a connection's process is, and what follows from its death.

use std::io;
use std::sync::Arc;

use crate::process::Process;
use crate::state::{Shared, Threads};

/// The living process of a number, and its user. One that is new is watched until its death.
///
/// # Errors
/// There is none, or the system cannot watch it.
pub(crate) fn client(shared: &Arc<Shared>, pid: i32, user: u32) -> io::Result<Arc<Process>> {
    shared.processes.of((pid, user), shared.memory_by_socket, |process| {
        let watched = Arc::clone(process);
        Threads::start(shared, "neuron-watch", move |shared| watch(shared, &watched))
    })
}

fn watch(shared: &Shared, process: &Arc<Process>) {
    // When the server stops, all connections end, and with them the process's files: nobody has to wait for
    // its exit.
    if shared.stop.wait_for(process.death()) {
        let unmapped = process.begin_exit();
        shared.files.exit(process, &shared.ledger);
        drop(unmapped);
        shared.ledger.one_ended();
    }
    process.end_exit();
    shared.processes.forget(process);
}
