//! The other end of `children`: the process in which this program, started by itself, does one part of one workload for
//! one contestant, or acts as the clients of a server, or as both ends of a proxy.
//!
//! The result is one line of JSON on the standard output. A failure is a message on the standard error and a nonzero
//! status.

use std::net::SocketAddr;
use std::process::ExitCode;

use serde_json::{Map, Number, Value};

use crate::catalog::Id;
use crate::contestant::Contestant;
use crate::scale::Scale;
use crate::workloads::clients::Plan;
use crate::workloads::{self, Order, echo, http, proxy};
use crate::{affinity, measure::Metrics};

/// The first argument of a child that measures. After it come workload, part, contestant, scale, its CPU, and the
/// helpers' CPU.
pub(crate) const CHILD: &str = "--child";
/// The first argument of a process of clients. After it come address, connections, rounds, how many answers to time, and
/// its CPU.
pub(crate) const CLIENTS: &str = "--clients";

/// The first argument of a process at both ends of a proxy. After it come address, connections, the rounds of each kind,
/// and its CPU.
pub(crate) const ENDS: &str = "--ends";
/// The first argument of a process of HTTP clients. After it come address, connections, rounds, how many answers to time,
/// and its CPU.
pub(crate) const HTTP_CLIENTS: &str = "--http-clients";

/// Formats a CPU as an argument.
pub(crate) fn cpu_argument(cpu: Option<usize>) -> String {
    cpu.map_or_else(|| "any".into(), |cpu| cpu.to_string())
}

/// Does a child's work, if this process is a child.
pub(crate) fn main(arguments: &[String]) -> Option<ExitCode> {
    let outcome = match arguments.split_first()? {
        (kind, rest) if kind == CHILD => measure(rest),
        (kind, rest) if kind == CLIENTS => clients(rest, echo::clients),
        (kind, rest) if kind == ENDS => ends(rest),
        (kind, rest) if kind == HTTP_CLIENTS => clients(rest, http::clients),
        _ => return None,
    };
    Some(match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    })
}

fn measure(arguments: &[String]) -> Result<(), String> {
    let [workload, part, contestant, scale, cpu, helper_cpu] = arguments else {
        return Err(format!("{CHILD} is for this program's own use"));
    };
    let scale = Scale::named(scale).ok_or("no such scale")?;
    let contestant = Contestant::named(contestant).ok_or("no such contestant")?;
    let workload = Id::named(workload).ok_or("no such workload")?;
    let part = part.parse().map_err(|_| "no such part")?;
    begin(cpu);
    let order = Order { workload, part, scale: &scale, helper_cpu: helper_cpu.parse().ok() };
    let metrics = workloads::run(order, contestant)?;
    println!("{}", json(&metrics)?);
    Ok(())
}

fn clients(arguments: &[String], clients: fn(SocketAddr, Plan) -> std::io::Result<()>) -> Result<(), String> {
    let [server, connections, rounds, timed, cpu] = arguments else {
        return Err(format!("{CLIENTS} is for this program's own use"));
    };
    let server: SocketAddr = server.parse().map_err(|_| "no such address")?;
    let connections = connections.parse().map_err(|_| "no such number of connections")?;
    let rounds = rounds.parse().map_err(|_| "no such number of rounds")?;
    let timed = timed.parse().map_err(|_| "no such number of answers")?;
    begin(cpu);
    clients(server, Plan { connections, rounds, timed }).map_err(|error| format!("the clients: {error}"))
}

fn ends(arguments: &[String]) -> Result<(), String> {
    let [proxy, connections, small, large, cpu] = arguments else {
        return Err(format!("{ENDS} is for this program's own use"));
    };
    let proxy: SocketAddr = proxy.parse().map_err(|_| "no such address")?;
    let connections = connections.parse().map_err(|_| "no such number of connections")?;
    let rounds = [small, large].map(|rounds| rounds.parse().ok());
    let [Some(small), Some(large)] = rounds else { return Err("no such number of rounds".into()) };
    begin(cpu);
    proxy::ends(proxy, connections, small, large).map_err(|error| format!("the ends: {error}"))
}

/// Moves to its CPU, and ties its life to its parent's.
fn begin(cpu: &str) {
    if let Ok(cpu) = cpu.parse() {
        affinity::pin(cpu);
    }
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, set_parent_process_death_signal};
        // If this is refused, the child of a killed parent ends on its own, which is soon.
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
    }
}

fn json(metrics: &Metrics) -> Result<Value, String> {
    let mut object = Map::new();
    for (key, value) in metrics {
        let number = Number::from_f64(*value).ok_or_else(|| format!("{key} is {value}"))?;
        object.insert(key.clone(), Value::Number(number));
    }
    Ok(Value::Object(object))
}
