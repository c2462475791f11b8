//! What a call costs, and how many there are in a second:
//! `cargo test --release -p barewire-redis --test all -- --ignored --nocapture speed::`

use std::fs;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use barewire::server::http::cluster::{ClusterStore, LogEntry};
use barewire_redis::Redis;
use bytes::Bytes;

use crate::redis_server::RedisServer;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures, and tests nothing"]
async fn calls_in_a_second() {
    let server = RedisServer::start(&[]);
    let node = Arc::new(server.join().await);
    // As large as the record of a session.
    let value = Bytes::from(vec![b'x'; 400]);
    node.create("session/a", value, RECORD_LIFETIME).await.unwrap().unwrap();
    let mut table = String::from("\ncall             tasks    a second    CPU each, us\n");
    for tasks in [1, 32, 256] {
        let read = async |node: Arc<Redis>| drop(node.read("session/a", Some(RECORD_LIFETIME)).await.unwrap().unwrap());
        table += &measure("read", tasks, &node, read).await;
    }
    for (name, count) in [("append", 1), ("append of 16", 16)] {
        let append = move |node: Arc<Redis>| async move {
            let entry = |_| LogEntry {
                name: "session/a/events".into(),
                entry: Bytes::from_static(&[b'x'; 200]),
                keep: 1000,
                lifetime: RECORD_LIFETIME,
            };
            node.append((0..count).map(entry).collect()).await.unwrap();
        };
        table += &measure(name, 32, &node, append).await;
    }
    let send = async |node: Arc<Redis>| node.send(1, Bytes::from_static(b"no node")).await.unwrap();
    table += &measure("send", 32, &node, send).await;
    let nodes = async |node: Arc<Redis>| drop(node.nodes().await.unwrap());
    table += &measure("nodes", 32, &node, nodes).await;
    std::io::stderr().write_all(table.as_bytes()).expect("stderr");
}

/// The time from a send to the return of a receive that waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures, and tests nothing"]
async fn time_of_a_message() {
    let server = RedisServer::start(&[]);
    let (one, other) = (server.join().await, server.join().await);
    let mut times = Vec::new();
    for _ in 0..1000 {
        let (_, time) = tokio::join!(other.receive(), async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let start = Instant::now();
            one.send(other.node(), Bytes::from_static(b"x")).await.unwrap();
            start
        });
        times.push(time.elapsed());
    }
    times.sort_unstable();
    let text = format!("\na message: median {:?}, 99th of a hundred {:?}\n", times[500], times[990]);
    std::io::stderr().write_all(text.as_bytes()).unwrap();
}

/// Runs a call in many tasks for some seconds, and returns a line of the table.
async fn measure<F, R>(name: &str, tasks: usize, node: &Arc<Redis>, call: F) -> String
where
    F: Fn(Arc<Redis>) -> R + Copy + Send + 'static,
    R: Future<Output = ()> + Send,
{
    let (start, cpu) = (Instant::now(), cpu_time());
    let running: Vec<_> = (0..tasks)
        .map(|_| {
            let node = Arc::clone(node);
            tokio::spawn(async move {
                let mut count = 0u32;
                while start.elapsed() < MEASURED_TIME {
                    call(Arc::clone(&node)).await;
                    count += 1;
                }
                count
            })
        })
        .collect();
    let mut count = 0;
    for task in running {
        count += task.await.expect("no panic");
    }
    let (time, cpu) = (start.elapsed().as_secs_f64(), (cpu_time() - cpu).as_secs_f64());
    let count = f64::from(count);
    format!("{name:<16} {tasks:>5} {:>11.0} {:>15.1}\n", count / time, cpu / count * 1e6)
}

/// Returns the processor time of this process, in ticks of 10 ms.
fn cpu_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = stat.rsplit(") ").next().expect("fields").split(' ').collect();
    let ticks = |field: usize| fields[field].parse::<u64>().expect("a number");
    Duration::from_millis((ticks(11) + ticks(12)) * 10)
}

const MEASURED_TIME: Duration = Duration::from_secs(3);

const RECORD_LIFETIME: Duration = Duration::from_secs(600);
