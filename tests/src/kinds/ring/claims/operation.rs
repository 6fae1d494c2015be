//! What happens to queues in a case, step by step.

use crate::vectors::{Mismatch, Object};

/// One step that may change who has which queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A process asks for a queue of a core's H2T engine.
    Request {
        /// The core.
        core: u32,
        /// For a ring that the driver copies with, or for one that the process manages.
        h2t: bool,
        /// Who asks.
        pid: i32,
    },
    /// A process lets a queue go. It need not be the one that asked for it.
    Release {
        /// Core that it was asked for.
        core: u32,
        /// The queue.
        qid: u32,
    },
    /// A process binds rings.
    Bind {
        /// Engine.
        engine: u32,
        /// Queue.
        qid: u32,
        /// Descriptors of both rings.
        count: u32,
        /// Address of the TX ring.
        tx: u64,
        /// Address of the RX ring.
        rx: u64,
        /// Who binds.
        pid: i32,
    },
    /// A process exits.
    Exit {
        /// Which.
        pid: i32,
    },
    /// Cores are brought up.
    Init {
        /// Which, one bit each.
        map: u32,
    },
    /// Cores are closed.
    Close {
        /// Which, one bit each.
        map: u32,
    },
}

impl Operation {
    /// The operation of a step, `None` for one that only copies.
    ///
    /// # Errors
    /// If a field is missing or it is no operation.
    pub fn read(step: &Object<'_>) -> Result<Option<Self>, Mismatch> {
        let pid = || step.word("pid").map(u32::cast_signed);
        Ok(Some(match step.text("op")? {
            "request" => Self::Request { core: step.word("nc")?, h2t: step.flag("h2t")?, pid: pid()? },
            "release" => {
                step.skip("pid");
                Self::Release { core: step.word("nc")?, qid: step.word("qid")? }
            }
            "queue_init" => Self::Bind {
                engine: step.word("eng")?,
                qid: step.word("qid")?,
                count: step.word("count")?,
                tx: step.number("tx")?,
                rx: step.number("rx")?,
                pid: pid()?,
            },
            "process_exit" => Self::Exit { pid: pid()? },
            "init" => Self::Init { map: step.word("nc_map")? },
            "close" => Self::Close { map: step.word("nc_map")? },
            "copy" | "memcpy" => return Ok(None),
            op => return Err(Mismatch::new(format!("unknown step {op}"))),
        }))
    }
}
